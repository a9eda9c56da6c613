//! SHA-256 of several messages at the same time, on one processor.
//!
//! A processor's SHA instructions are slow to answer and quick to begin: while one message waits for an answer, another can
//! ask. So two messages by turns, block for block, cost about 1.4 times less than one after the other.

use latchkey_attestation::Digest;
use ring::digest::{Context, SHA256};
use sha2::block_api::compress256;

use super::pass::Hash;

/// A hash in the making.
#[derive(Clone)]
pub(super) enum Sha256 {
    /// With the processor's instructions: block for block, so that others can have their turns in between.
    Blocks(Blocks),
    /// Without them other implementations are faster than turns.
    Context(Context),
}

/// FIPS 180-4, 6.2, its bytes kept to whole blocks.
#[derive(Clone)]
pub(super) struct Blocks {
    state: [u32; 8],
    /// What is less than a block, at the front.
    held: [u8; BLOCK],
    bytes: u64,
}

impl Hash for Sha256 {
    fn new() -> Self {
        if has_instructions() {
            Self::Blocks(Blocks { state: INITIAL, held: [0; BLOCK], bytes: 0 })
        } else {
            Self::Context(Context::new(&SHA256))
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        update_by_turns(&mut [(self, bytes)]);
    }

    fn update_by_turns(messages: &mut [(&mut Self, &[u8])]) {
        update_by_turns(messages);
    }
}

impl Sha256 {
    pub(super) fn finish(self) -> Digest {
        match self {
            Self::Blocks(blocks) => blocks.finish(),
            // A SHA-256 digest always has this length.
            Self::Context(context) => Digest(context.finish().as_ref().try_into().unwrap_or([0; 32])),
        }
    }
}

/// SHA-256 of `parts`, one after the other.
pub(super) fn sha256(parts: &[&[u8]]) -> Digest {
    Digest(latchkey_boot_formats::sha256(parts))
}

/// Each message goes on with its bytes.
fn update_by_turns(messages: &mut [(&mut Sha256, &[u8])]) {
    let mut turns = Vec::with_capacity(messages.len());
    for (message, bytes) in messages {
        match message {
            Sha256::Context(context) => context.update(bytes),
            Sha256::Blocks(blocks) => turns.push(blocks.begin(bytes)),
        }
    }
    // Two at a time is what the processor has room for; the usual numbers are written out, so that they stay in registers.
    match turns.as_mut_slice() {
        [one] => one.finish(),
        [one, other] => {
            for (block, another) in one.blocks.iter().zip(other.blocks) {
                compress256(&mut one.message.state, std::slice::from_ref(block));
                compress256(&mut other.message.state, std::slice::from_ref(another));
            }
            let both = one.blocks.len().min(other.blocks.len());
            for turn in [one, other] {
                turn.blocks = turn.blocks.get(both..).unwrap_or_default();
                turn.finish();
            }
        }
        more => {
            let longest = more.iter().map(|turn| turn.blocks.len()).max().unwrap_or(0);
            for at in 0..longest {
                for turn in &mut *more {
                    if let Some(block) = turn.blocks.get(at) {
                        compress256(&mut turn.message.state, std::slice::from_ref(block));
                    }
                }
            }
            for turn in more {
                turn.blocks = &[];
                turn.finish();
            }
        }
    }
}

/// What one message does in its turns.
struct Turn<'a, 'b> {
    message: &'a mut Blocks,
    blocks: &'b [[u8; BLOCK]],
    rest: &'b [u8],
}

impl Turn<'_, '_> {
    fn finish(&mut self) {
        compress256(&mut self.message.state, self.blocks);
        if let Some(held) = self.message.held.get_mut(..self.rest.len()).filter(|held| !held.is_empty()) {
            held.copy_from_slice(self.rest);
        }
    }
}

impl Blocks {
    /// Completes the block that is held, and says which blocks come next.
    fn begin<'a, 'b>(&'a mut self, bytes: &'b [u8]) -> Turn<'a, 'b> {
        let held = usize::try_from(self.bytes % BLOCK as u64).unwrap_or(0);
        self.bytes += bytes.len() as u64;
        if held == 0 {
            let (blocks, rest) = bytes.as_chunks();
            return Turn { message: self, blocks, rest };
        }
        let (now, later) = bytes.split_at(bytes.len().min(BLOCK - held));
        if let Some(room) = self.held.get_mut(held..held + now.len()) {
            room.copy_from_slice(now);
        }
        if held + now.len() == BLOCK {
            compress256(&mut self.state, std::slice::from_ref(&self.held));
        }
        let (blocks, rest) = later.as_chunks();
        Turn { message: self, blocks, rest }
    }

    /// FIPS 180-4, 5.1.1: "Append the bit "1" to the end of the message, followed by k zero bits", and its length in bits.
    fn finish(mut self) -> Digest {
        let length = (self.bytes * 8).to_be_bytes();
        let held = usize::try_from(self.bytes % BLOCK as u64).unwrap_or(0);
        let mut end = [0; 2 * BLOCK];
        let size = if held + 1 + length.len() > BLOCK { 2 * BLOCK } else { BLOCK };
        if let Some((room, held)) = end.get_mut(..held).zip(self.held.get(..held)) {
            room.copy_from_slice(held);
        }
        if let Some(byte) = end.get_mut(held) {
            *byte = 0x80;
        }
        if let Some(room) = end.get_mut(size - length.len()..size) {
            room.copy_from_slice(&length);
        }
        compress256(&mut self.state, end.get(..size).unwrap_or_default().as_chunks().0);
        let mut digest = Digest::ZERO;
        for (bytes, word) in digest.0.as_chunks_mut::<4>().0.iter_mut().zip(self.state) {
            *bytes = word.to_be_bytes();
        }
        digest
    }
}

#[cfg(target_arch = "x86_64")]
fn has_instructions() -> bool {
    std::arch::is_x86_feature_detected!("sha") && std::arch::is_x86_feature_detected!("sse4.1")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_instructions() -> bool {
    false
}

const BLOCK: usize = 64;
/// FIPS 180-4, 5.3.3: "the first thirty-two bits of the fractional parts of the square roots of the first eight prime
/// numbers".
const INITIAL: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_by_turns_are_those_of_another_implementation_however_the_messages_are_cut() {
        let noise: Vec<u8> = (0..400_usize).map(|at| u8::try_from(at * 31 % 251).unwrap()).collect();
        for length in 0..noise.len() {
            for cut in [0, 1, 55, 63, 64, 65, 127, 200, length] {
                let cut = cut.min(length);
                let parts = [noise[..cut].split_at(cut / 2), noise[cut..length].split_at((length - cut) / 3)];
                for count in 1..=4 {
                    let mut messages = vec![Sha256::new(); count];
                    // Every other message has its two parts the other way round.
                    for step in 0..2 {
                        let bytes = |at: usize| if at.is_multiple_of(2) { parts[step] } else { parts[1 - step] };
                        for half in 0..2 {
                            let pick = |at| if half == 0 { bytes(at).0 } else { bytes(at).1 };
                            let mut turns: Vec<_> =
                                messages.iter_mut().enumerate().map(|(at, message)| (message, pick(at))).collect();
                            update_by_turns(&mut turns);
                        }
                    }
                    let straight = sha256(&[parts[0].0, parts[0].1, parts[1].0, parts[1].1]);
                    let swapped = sha256(&[parts[1].0, parts[1].1, parts[0].0, parts[0].1]);
                    let expected: Vec<_> = [straight, swapped].into_iter().cycle().take(count).collect();
                    let digests: Vec<_> = messages.into_iter().map(Sha256::finish).collect();
                    assert_eq!(digests, expected, "{length} bytes, cut at {cut}");
                }
            }
        }
    }

    #[test]
    fn the_digest_of_nothing_and_of_abc_are_those_of_the_standard() {
        let (nothing, mut abc) = (Sha256::new(), Sha256::new());
        abc.update(b"a");
        abc.update(b"bc");
        assert_eq!(nothing.finish().to_string(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(abc.finish().to_string(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
