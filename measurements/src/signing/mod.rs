//! Keys that sign reference manifests, and what they sign, in minisign's format: stock `minisign` verifies what is signed
//! here, and signs with these keys. Verifying is the attestation crate's.
//!
//! ```text
//! reference.json          the manifest
//! reference.json.minisig  its signature: untrusted comment, signature, trusted comment, signature of both
//! ```
//!
//! Ed25519 by ring, over the BLAKE2b-512 digest of the file (`ED`, minisign's form since 0.10). Signing is deterministic, and
//! the trusted comment says name and serial and no time: the same manifest and key give the same bytes.

use crate::MeasurementCode;

mod key_file;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use blake2::{Blake2b512, Digest};
use latchkey_attestation::ReferenceValues;
use latchkey_attestation::reference::{KeyId, SignerKey};
use latchkey_keys::{KeyError, Secret, SecretVec};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair};

pub use key_file::MAX_KEY_FILE;

/// A key that signs manifests. Its seed is wiped when it is dropped; what ring makes of it while signing is not.
#[derive(Debug)]
pub struct SigningKey {
    id: KeyId,
    seed: Secret<32>,
    public: [u8; 32],
}

/// A manifest's file and its signature's, as they are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedManifest {
    /// `FILE`.
    pub manifest: String,
    /// `FILE.minisig`.
    pub signature: String,
}

impl SigningKey {
    /// A new key.
    ///
    /// # Errors
    /// [`SigningError::Random`].
    pub fn generate() -> Result<Self, SigningError> {
        let mut id = [0; 8];
        SystemRandom::new().fill(&mut id).map_err(|_| SigningError::Random)?;
        Self::from_seed(KeyId(id), Secret::random().map_err(|_| SigningError::Random)?)
    }

    /// Reads a secret key file that `minisign -G` or [`Self::to_file`] wrote: at most [`MAX_KEY_FILE`] bytes. `password` is
    /// asked only if the key is encrypted.
    ///
    /// # Errors
    /// [`SigningError`], or what `password` says.
    pub fn parse<E: From<SigningError>>(
        file: &[u8],
        password: impl FnOnce() -> Result<SecretVec, E>,
    ) -> Result<Self, E> {
        let stored = key_file::Stored::parse(file)?;
        let password = if stored.is_encrypted() { Some(password()?) } else { None };
        Ok(stored.open(password.as_ref())?)
    }

    /// The secret key's file, encrypted if there is a password (which takes 1 GiB of memory and some seconds, as minisign
    /// does it).
    ///
    /// # Errors
    /// [`SigningError::Random`].
    pub fn to_file(&self, password: Option<&SecretVec>) -> Result<SecretVec, SigningError> {
        key_file::write(self, password)
    }

    /// What policies name.
    pub fn public(&self) -> SignerKey {
        SignerKey::new(self.id, self.public)
    }

    /// Signs a manifest.
    ///
    /// # Errors
    /// [`SigningError`].
    pub fn sign_manifest(&self, values: &ReferenceValues) -> Result<SignedManifest, SigningError> {
        let manifest = format!("{}\n", values.to_json());
        let comment = format!("manifest:{} serial:{}", values.name(), values.serial());
        Ok(SignedManifest { signature: self.sign(manifest.as_bytes(), &comment)?, manifest })
    }

    /// The text of a `.minisig` file for `message`. The trusted comment is signed too: at most 8192 bytes on one line.
    ///
    /// # Errors
    /// [`SigningError::Comment`].
    pub fn sign(&self, message: &[u8], trusted_comment: &str) -> Result<String, SigningError> {
        if trusted_comment.len() > MAX_COMMENT || trusted_comment.contains(['\n', '\r']) {
            return Err(SigningError::Comment);
        }
        let pair = Ed25519KeyPair::from_seed_unchecked(self.seed.expose()).map_err(|_| SigningError::Damaged)?;
        let signature = pair.sign(&Blake2b512::digest(message));
        let global = pair.sign(&[signature.as_ref(), trusted_comment.as_bytes()].concat());
        let first = STANDARD.encode([b"ED", &self.id.0[..], signature.as_ref()].concat());
        let second = STANDARD.encode(global.as_ref());
        Ok(format!(
            "untrusted comment: signature from latchkey, key {}\n{first}\ntrusted comment: {trusted_comment}\n{second}\n",
            self.id
        ))
    }

    fn from_seed(id: KeyId, seed: Secret<32>) -> Result<Self, SigningError> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed.expose()).map_err(|_| SigningError::Damaged)?;
        let mut public = [0; 32];
        public.copy_from_slice(pair.public_key().as_ref());
        Ok(Self { id, seed, public })
    }
}

/// The text of a public key's file.
pub fn public_key_file(key: &SignerKey) -> String {
    // As minisign has it, without leading zeros.
    let id = key.id().to_string();
    format!("untrusted comment: minisign public key {}\n{key}\n", id.trim_start_matches('0'))
}

/// Why there is no key, or no signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SigningError {
    /// The kernel gives no random numbers.
    #[error("the kernel gives no random numbers")]
    Random,
    /// The file is no secret key of minisign.
    #[error("not a secret key of minisign")]
    NotAKey,
    /// The file's parts do not belong together.
    #[error("the secret key is damaged")]
    Damaged,
    /// Encrypted, and the password is not the one.
    #[error("the password does not open this key")]
    WrongPassword,
    /// Encrypted with parameters beyond minisign's own.
    #[error("the key is encrypted with parameters that minisign does not use")]
    TooCostly,
    /// A trusted comment that is too long or has line breaks.
    #[error("a trusted comment has at most 8192 bytes and no line break")]
    Comment,
}

impl SigningError {
    /// The stable reason code.
    pub fn code(&self) -> MeasurementCode {
        match self {
            Self::Random | Self::Comment => MeasurementCode::SigningFailed,
            Self::NotAKey | Self::Damaged | Self::WrongPassword | Self::TooCostly => MeasurementCode::KeyUnusable,
        }
    }
}

impl SigningError {
    /// What to do, where that is more than to correct what the message names.
    pub fn remedy(&self) -> Option<&'static str> {
        Some(match self {
            Self::NotAKey => "make one with `latchkey reference new-key` or `minisign -G`",
            Self::Damaged => "take the key from its backup",
            _ => return None,
        })
    }
}

impl From<KeyError> for SigningError {
    fn from(_: KeyError) -> Self {
        Self::Damaged
    }
}

/// minisign's `TRUSTEDCOMMENTMAXBYTES`.
const MAX_COMMENT: usize = 8192;
