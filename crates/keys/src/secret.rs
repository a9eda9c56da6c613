//! Containers of secret bytes.
//!
//! What they promise: one heap copy that is wiped on drop, comparison in constant time, no `Clone`, no content in
//! `Debug`. What they do not: ring's own key objects, CPU registers and the kernel's buffers are out of their reach.

use crate::KeyError;
use core::fmt;
use ring::rand::{SecureRandom, SystemRandom};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Exactly `N` secret bytes.
///
/// Boxed, so that moving the value moves a pointer and leaves no copy of the bytes behind.
pub struct Secret<const N: usize>(Box<Zeroizing<[u8; N]>>);

impl<const N: usize> Secret<N> {
    /// Copies `bytes`; the caller still owns, and wipes, the original.
    ///
    /// # Errors
    /// [`KeyError::SecretLength`] unless there are exactly `N` bytes.
    pub fn from_slice(bytes: &[u8]) -> Result<Self, KeyError> {
        if bytes.len() != N {
            return Err(KeyError::SecretLength { expected: N, got: bytes.len() });
        }
        let mut secret = Self::zeroed();
        secret.0.copy_from_slice(bytes);
        Ok(secret)
    }

    /// Fresh bytes from the kernel's random number generator.
    ///
    /// # Errors
    /// [`KeyError::Random`] if the kernel gives none.
    pub fn random() -> Result<Self, KeyError> {
        Self::fill_with(|bytes| SystemRandom::new().fill(bytes).map_err(|_| KeyError::Random))
    }

    /// Lets `fill` write the bytes in place; they are zero before, and wiped if it fails.
    pub fn fill_with<E>(fill: impl FnOnce(&mut [u8; N]) -> Result<(), E>) -> Result<Self, E> {
        let mut secret = Self::zeroed();
        fill(&mut secret.0)?;
        Ok(secret)
    }

    /// The bytes. Named so that every look at a secret is found by searching for it.
    pub fn expose(&self) -> &[u8; N] {
        &self.0
    }

    fn zeroed() -> Self {
        Self(Box::new(Zeroizing::new([0; N])))
    }
}

impl<const N: usize> PartialEq for Secret<N> {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_slice().ct_eq(other.0.as_slice()).into()
    }
}

impl<const N: usize> Eq for Secret<N> {}

impl<const N: usize> fmt::Debug for Secret<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret<{N}>(hidden)")
    }
}

/// Secret bytes whose number is known only at run time.
pub struct SecretVec(Zeroizing<Vec<u8>>);

impl SecretVec {
    /// Copies `bytes`; the caller still owns, and wipes, the original.
    pub fn from_slice(bytes: &[u8]) -> Self {
        Self(Zeroizing::new(bytes.to_vec()))
    }

    /// `length` bytes, written in place by `fill`. Never grows, so no reallocation leaves a copy behind.
    pub fn fill_with<E>(length: usize, fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Self, E> {
        let mut bytes = Zeroizing::new(vec![0; length]);
        fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// The bytes. Named so that every look at a secret is found by searching for it.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<Zeroizing<Vec<u8>>> for SecretVec {
    fn from(bytes: Zeroizing<Vec<u8>>) -> Self {
        Self(bytes)
    }
}

/// Takes over the allocation; nothing is copied.
impl From<Vec<u8>> for SecretVec {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }
}

impl<const N: usize> TryFrom<&SecretVec> for Secret<N> {
    type Error = KeyError;

    fn try_from(bytes: &SecretVec) -> Result<Self, KeyError> {
        Self::from_slice(bytes.expose())
    }
}

impl PartialEq for SecretVec {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_slice().ct_eq(other.0.as_slice()).into()
    }
}

impl Eq for SecretVec {}

impl fmt::Debug for SecretVec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretVec({} bytes, hidden)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_never_shows_the_bytes() {
        let secret = Secret::<4>::from_slice(&[0xde, 0xad, 0xbe, 0xef]).unwrap();
        assert_eq!(format!("{secret:?}"), "Secret<4>(hidden)");
        assert_eq!(format!("{:#?}", SecretVec::from_slice(&[0xde, 0xad])), "SecretVec(2 bytes, hidden)");
    }

    #[test]
    fn wrong_length_is_refused_with_both_numbers() {
        let error = Secret::<32>::from_slice(&[1; 31]).unwrap_err();
        assert_eq!(error, KeyError::SecretLength { expected: 32, got: 31 });
    }

    #[test]
    fn comparison_sees_every_byte() {
        let one = Secret::<32>::from_slice(&[7; 32]).unwrap();
        for index in 0..32 {
            let mut bytes = [7; 32];
            bytes[index] ^= 1;
            assert_ne!(one, Secret::from_slice(&bytes).unwrap(), "byte {index}");
        }
        assert_eq!(one, Secret::from_slice(&[7; 32]).unwrap());
        assert_ne!(SecretVec::from_slice(&[7; 3]), SecretVec::from_slice(&[7; 4]));
    }

    #[test]
    fn two_random_secrets_differ() {
        assert_ne!(Secret::<32>::random().unwrap(), Secret::random().unwrap());
    }
}
