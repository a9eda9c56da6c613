//! One way through a file with several hashes of it: what is read is in the processor's cache for all of them.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;

use latchkey_boot_formats::ReadAt;

/// A hash in the making.
pub(super) trait Hash: Clone {
    /// Of nothing.
    fn new() -> Self;

    /// Goes on with these bytes.
    fn update(&mut self, bytes: &[u8]);

    /// Each message goes on with its bytes.
    fn update_by_turns(messages: &mut [(&mut Self, &[u8])]) {
        for (message, bytes) in messages {
            message.update(bytes);
        }
    }
}

/// What is hashed: parts of a file and bytes from memory, one after the other.
#[derive(Default)]
pub(super) struct Message {
    parts: VecDeque<Part>,
    size: u64,
}

enum Part {
    File(Range<u64>),
    Memory(Vec<u8>),
}

impl Message {
    /// So many parts of a file, shifted to where that file begins.
    pub(super) fn of_file(ranges: impl IntoIterator<Item = Range<u64>>, start: u64) -> Self {
        let shifted = |message: Self, range: Range<u64>| message.file(range.start + start..range.end + start);
        ranges.into_iter().fold(Self::default(), shifted)
    }

    pub(super) fn file(mut self, range: Range<u64>) -> Self {
        self.size += range.end.saturating_sub(range.start);
        if range.start < range.end {
            self.parts.push_back(Part::File(range));
        }
        self
    }

    pub(super) fn memory(mut self, bytes: Vec<u8>) -> Self {
        self.size += bytes.len() as u64;
        self.parts.push_back(Part::Memory(bytes));
        self
    }

    /// Zeros up to the next multiple of four.
    pub(super) fn padded(self) -> Self {
        let missing = self.size.next_multiple_of(4) - self.size;
        self.memory([0; 4].into_iter().take(usize::try_from(missing).unwrap_or(0)).collect())
    }

    /// Bytes.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Where in the file it goes on, once the bytes from memory that come first are hashed.
    fn next(&mut self, hash: &mut impl Hash) -> Option<u64> {
        while let Some(Part::Memory(bytes)) = self.parts.front() {
            hash.update(bytes);
            self.parts.pop_front();
        }
        match self.parts.front() {
            Some(Part::File(range)) => Some(range.start),
            _ => None,
        }
    }

    /// Takes what comes next and lies in `chunk`, the bytes of the file from `start` on.
    fn take<'a>(&mut self, chunk: &'a [u8], start: u64) -> Option<&'a [u8]> {
        let Some(Part::File(range)) = self.parts.front_mut() else { return None };
        let end = range.end.min(start + chunk.len() as u64);
        let (from, to) = (range.start.checked_sub(start)?, end.checked_sub(start)?);
        let taken = chunk.get(usize::try_from(from).ok()?..usize::try_from(to).ok()?)?;
        if taken.is_empty() {
            return None;
        }
        range.start = end;
        if range.start == range.end {
            self.parts.pop_front();
        }
        Some(taken)
    }
}

/// The hashes of `messages`, each of which may be continued.
///
/// # Errors
/// As [`ReadAt::read_exact_at`].
pub(super) fn hashes<H: Hash, const N: usize, R: ReadAt + ?Sized>(
    source: &R,
    mut messages: [Message; N],
) -> io::Result<[H; N]> {
    let mut all = [(); N].map(|()| H::new());
    let size = source.size()?;
    let mut buffer = vec![0; usize::try_from(size).unwrap_or(CHUNK).min(CHUNK)];
    // Each round takes at least the bytes of whoever is the furthest behind.
    while let Some(start) = messages.iter_mut().zip(&mut all).filter_map(|(message, hash)| message.next(hash)).min() {
        let length = usize::try_from(size.saturating_sub(start)).unwrap_or(CHUNK).min(buffer.len());
        let chunk = buffer.get_mut(..length).filter(|chunk| !chunk.is_empty());
        let chunk = chunk.ok_or(io::ErrorKind::UnexpectedEof)?;
        source.read_exact_at(chunk, start)?;
        loop {
            let taken = messages.iter_mut().zip(&mut all).filter_map(|(message, hash)| {
                message.next(hash)?;
                Some((hash, message.take(chunk, start)?))
            });
            let mut taken: Vec<_> = taken.collect();
            if taken.is_empty() {
                break;
            }
            H::update_by_turns(&mut taken);
        }
    }
    Ok(all)
}

/// Stays in a processor's own cache together with what hashes it.
const CHUNK: usize = 128 * 1024;

#[cfg(test)]
mod tests {
    use super::super::sha256::{Sha256, sha256};
    use super::*;

    #[test]
    fn a_pass_hashes_parts_across_chunks_and_in_any_order() {
        let file: Vec<u8> = (0..3 * CHUNK + 17).map(|at| u8::try_from(at * 31 % 251).unwrap()).collect();
        let (size, chunk) = (file.len() as u64, CHUNK as u64);
        let whole = Message::of_file(std::iter::once(0..size), 0);
        let holes = Message::of_file([0..10, 14..chunk + 3, chunk + 5..size - 1], 0);
        let shifted = Message::of_file([1..2, 5..chunk], 7);
        let mixed = Message::default().memory(b"ab".to_vec()).file(2 * chunk..size).padded().file(5..9);
        assert_eq!(mixed.size(), 2 + (size - 2 * chunk) + 1 + 4);
        let nothing = Message::default();
        let digests = hashes(&file, [whole, holes, shifted, mixed, nothing]).unwrap().map(Sha256::finish);
        let expected = [
            sha256(&[&file]),
            sha256(&[&file[..10], &file[14..CHUNK + 3], &file[CHUNK + 5..file.len() - 1]]),
            sha256(&[&file[8..9], &file[12..CHUNK + 7]]),
            sha256(&[b"ab", &file[2 * CHUNK..], &[0], &file[5..9]]),
            sha256(&[]),
        ];
        assert_eq!(digests, expected);
    }

    #[test]
    fn a_part_beyond_the_end_is_an_error_and_no_endless_round() {
        for range in [0..11, 10..11, 50..60] {
            assert!(hashes::<Sha256, 1, _>(&vec![0; 10], [Message::default().file(range)]).is_err());
        }
    }
}
