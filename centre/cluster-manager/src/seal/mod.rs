//! Secrets that one cluster alone can open, as bitnami's sealed-secrets does it.
//!
//! A random key of AES-256-GCM encrypts the secret, with a nonce of zeros, for the key is used once; RSA-OAEP with
//! SHA-256 encrypts the key for the cluster's certificate. The label is `NAMESPACE/NAME`, so a sealed value opens in
//! no other secret ("strict scope"). Sealed is: two bytes with the length of the encrypted key, most significant
//! first; the encrypted key; the encrypted secret with its tag. All happens in memory of this process.

mod certificate;
mod manifest;
mod place;

#[cfg(test)]
mod tests;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::rsa::OAEP_SHA256_MGF1SHA256;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

pub use certificate::SealingKey;
pub use manifest::{MAX_MANIFEST, SealedSecret};
pub use place::{Place, PlaceError};

/// The most bytes of a secret.
pub const MAX_SECRET: usize = 256 << 10;
/// The bytes of AES-GCM's tag.
const TAG: usize = 16;
/// The bytes of a session key.
const SESSION_KEY: usize = 32;

/// Why a secret is not sealed.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// The certificate cannot be used.
    #[error("the cluster's certificate {0}; see the sealed-secrets controller and Edge Sync at the edge")]
    Certificate(&'static str),
    /// The certificate's time is over, or has not come.
    #[error(
        "the cluster's certificate is valid from {from} to {to} (seconds since 1970), and not now; wait until \
         Edge Sync reports a new one"
    )]
    Validity {
        /// Not before.
        from: u64,
        /// Not after.
        to: u64,
    },
    /// The secret has more than [`MAX_SECRET`] bytes.
    #[error("the secret has more than {MAX_SECRET} bytes; make it smaller")]
    TooLarge,
    /// The manifest that is there is something else.
    #[error("{path} in the cluster's repository {wrong}; mend or delete it there")]
    Manifest {
        /// Where it lies.
        path: String,
        /// What is wrong with it.
        wrong: String,
    },
    /// The cryptographic library failed.
    #[error("sealing failed inside the cryptographic library; try again")]
    Library,
}

/// A value that was sealed for one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    place: Place,
    base64: String,
}

impl Sealed {
    /// Base64: what stands in a manifest.
    pub fn as_str(&self) -> &str {
        &self.base64
    }
}

/// Seals a secret for one place of one cluster. The caller's copy of the secret is the caller's to wipe.
pub fn seal(key: &SealingKey, place: &Place, secret: &[u8]) -> Result<Sealed, SealError> {
    if secret.len() > MAX_SECRET {
        return Err(SealError::TooLarge);
    }
    let mut session = Zeroizing::new([0; SESSION_KEY]);
    aws_lc_rs::rand::fill(session.as_mut_slice()).map_err(|_| SealError::Library)?;
    let mut wrapped = vec![0; key.oaep().ciphertext_size()];
    let label = place.label();
    let wrapped = key
        .oaep()
        .encrypt(&OAEP_SHA256_MGF1SHA256, session.as_slice(), &mut wrapped, Some(label.as_bytes()))
        .map_err(|_| SealError::Library)?;
    let mut sealed = Vec::with_capacity(2 + wrapped.len() + secret.len() + TAG);
    sealed.extend(u16::try_from(wrapped.len()).map_err(|_| SealError::Library)?.to_be_bytes());
    sealed.extend_from_slice(wrapped);
    sealed.extend(encrypted(&session, secret)?);
    Ok(Sealed { place: place.clone(), base64: STANDARD.encode(sealed) })
}

/// Encrypts in place, so that no other copy of the secret is made; the room for the tag is there from the start.
fn encrypted(session: &[u8; SESSION_KEY], secret: &[u8]) -> Result<Vec<u8>, SealError> {
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, session).map_err(|_| SealError::Library)?);
    let mut bytes = Zeroizing::new(Vec::with_capacity(secret.len() + TAG));
    bytes.extend_from_slice(secret);
    let nonce = Nonce::assume_unique_for_key([0; 12]);
    key.seal_in_place_append_tag(nonce, Aad::empty(), &mut *bytes).map_err(|_| SealError::Library)?;
    Ok(std::mem::take(&mut *bytes))
}
