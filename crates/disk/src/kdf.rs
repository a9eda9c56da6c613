//! The two derivations of LUKS2: PBKDF2-HMAC-SHA256, and the anti-forensic splitter with SHA-256.

use crate::random::{Random, RandomError};
use core::convert::Infallible;
use core::num::NonZeroU32;
use latchkey_keys::{Secret, SecretVec};
use ring::digest::{Context, SHA256};
use ring::pbkdf2;
use zeroize::Zeroizing;

/// Stripes of the anti-forensic splitter. "LUKS2 on-disk format 1.1, section 3.2.1": stripes are always 4000.
pub(crate) const STRIPES: usize = 4000;

const HASH: usize = 32;

/// Salt and rounds of one PBKDF2-HMAC-SHA256.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pbkdf2 {
    /// Checked to lie inside the closed list's bounds.
    pub(crate) iterations: NonZeroU32,
    /// Always 32 bytes, as cryptsetup makes it.
    pub(crate) salt: [u8; 32],
}

impl Pbkdf2 {
    /// Stretches `secret` to `N` bytes.
    pub(crate) fn derive<const N: usize>(&self, secret: &[u8]) -> Secret<N> {
        let Ok(key) = Secret::fill_with(|key| {
            pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, self.iterations, &self.salt, secret, key);
            Ok::<_, Infallible>(())
        });
        key
    }
}

/// Spreads `key` over [`STRIPES`] times its length so that losing any of them loses a part of the key, 32 bytes long (the
/// format diffuses each hash-sized block for itself).
///
/// # Errors
/// When the random source gives none.
pub(crate) fn split(key: &[u8], random: &mut impl Random) -> Result<Zeroizing<Vec<u8>>, RandomError> {
    let mut stripes = Zeroizing::new(vec![0; STRIPES * key.len()]);
    let (noise, last) = stripes.split_at_mut((STRIPES - 1) * key.len());
    random.fill(noise)?;
    fold(noise, last);
    xor(last, key);
    Ok(stripes)
}

/// Gets the key of `length` bytes back out of its stripes.
pub(crate) fn merge(stripes: &[u8], length: usize) -> SecretVec {
    let (noise, last) = stripes.split_at(stripes.len().saturating_sub(length));
    let Ok(key) = SecretVec::fill_with(length, |key| {
        fold(noise, key);
        xor(key, last);
        Ok::<_, Infallible>(())
    });
    key
}

/// Diffuses all stripes but the last into `sum`, which begins as zeros and is as long as a stripe.
fn fold(noise: &[u8], sum: &mut [u8]) {
    for stripe in noise.chunks_exact(sum.len()) {
        xor(sum, stripe);
        diffuse(sum);
    }
}

/// Replaces each hash-sized block by the hash of its big-endian number and itself.
fn diffuse(block: &mut [u8]) {
    for (part, number) in block.chunks_exact_mut(HASH).zip(0_u32..) {
        let mut hash = Context::new(&SHA256);
        hash.update(&number.to_be_bytes());
        hash.update(part);
        part.copy_from_slice(hash.finish().as_ref());
    }
}

fn xor(into: &mut [u8], with: &[u8]) {
    for (byte, other) in into.iter_mut().zip(with) {
        *byte ^= other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::fixed::Counting;

    #[test]
    fn split_then_merge_gives_the_key_back() {
        for length in [64, 96] {
            let key = vec![0x5a; length];
            let stripes = split(&key, &mut Counting::new(1)).unwrap();
            assert_eq!(stripes.len(), 4000 * length);
            assert_eq!(merge(&stripes, length).expose(), key);
        }
    }

    #[test]
    fn one_lost_bit_loses_a_whole_key() {
        for length in [64, 96] {
            let mut stripes = split(&vec![0x5a; length], &mut Counting::new(2)).unwrap();
            stripes[0] ^= 1;
            let merged = merge(&stripes, length);
            let lost = merged.expose()[..HASH].iter().filter(|&&byte| byte != 0x5a).count();
            assert!(lost > 24, "only {lost} of 32 bytes are lost");
        }
    }
}
