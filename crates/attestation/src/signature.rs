//! Signatures of manifests in minisign's format (<https://jedisct1.github.io/minisign/>): Ed25519 over the file (`Ed`) or
//! over its BLAKE2b-512 digest (`ED`), and over the comment that is trusted.
//!
//! ```text
//! untrusted comment: <up to 1024 bytes>
//! base64(algorithm ‖ key id ‖ signature)
//! trusted comment: <up to 8192 bytes>
//! base64(signature of signature ‖ trusted comment)
//! ```

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{ED25519, UnparsedPublicKey};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::refusal::{ReasonCode, Refusal};

/// A public key of minisign: what `minisign -G` and `latchkey reference new-key` print, 56 characters that begin with `RW`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SignerKey {
    id: KeyId,
    key: [u8; 32],
}

impl SignerKey {
    /// A key from its parts.
    pub const fn new(id: KeyId, key: [u8; 32]) -> Self {
        Self { id, key }
    }

    /// The number by which signatures name it.
    pub const fn id(&self) -> KeyId {
        self.id
    }

    /// Checks both signatures: over `message` and over the trusted comment, which is what it returns.
    ///
    /// # Errors
    /// * `reference-signature-unknown-signer`: the signature names another key.
    /// * `reference-signature-invalid`: message, signature or trusted comment are not what the key signed.
    /// * `reference-signature-unsupported`: it is over a `BLAKE2b` digest, which this program is built without.
    pub fn verify<'s>(&self, message: &[u8], signature: &'s Signature) -> Result<&'s str, Refusal> {
        if signature.key_id != self.id {
            return Err(unknown_signer(signature.key_id));
        }
        let key = UnparsedPublicKey::new(&ED25519, &self.key);
        let signed = match signature.algorithm {
            Algorithm::Legacy => key.verify(message, &signature.of_file),
            Algorithm::Prehashed => key.verify(&prehash(message)?, &signature.of_file),
        };
        signed.map_err(|_| invalid(self.id, "the file is not what this key signed"))?;
        let commented = [&signature.of_file[..], signature.trusted_comment.as_bytes()].concat();
        key.verify(&commented, &signature.of_comment)
            .map_err(|_| invalid(self.id, "its trusted comment was altered"))?;
        Ok(&signature.trusted_comment)
    }
}

impl FromStr for SignerKey {
    type Err = PublicKeyError;

    fn from_str(text: &str) -> Result<Self, PublicKeyError> {
        let bytes = decode::<42>(text).ok_or(PublicKeyError)?;
        let ([b'E', b'd'], rest) = bytes.split_first_chunk().ok_or(PublicKeyError)? else { return Err(PublicKeyError) };
        let (id, key) = rest.split_first_chunk().ok_or(PublicKeyError)?;
        Ok(Self { id: KeyId(*id), key: key.try_into().map_err(|_| PublicKeyError)? })
    }
}

impl fmt::Display for SignerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode([&b"Ed"[..], &self.id.0, &self.key].concat()))
    }
}

impl fmt::Debug for SignerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for SignerKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SignerKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <std::borrow::Cow<'de, str>>::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// The number of a key: eight random bytes. It names a key and proves nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub [u8; 8]);

impl fmt::Display for KeyId {
    /// As minisign shows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016X}", u64::from_le_bytes(self.0))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for KeyId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A signature's file, read and not checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    algorithm: Algorithm,
    key_id: KeyId,
    of_file: [u8; 64],
    trusted_comment: String,
    of_comment: [u8; 64],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    /// Over the file itself: minisign before 0.10, or with `-l`.
    Legacy,
    /// Over its BLAKE2b-512 digest.
    Prehashed,
}

impl Signature {
    /// Largest file that is read, bytes.
    pub const MAX: usize = 16 * 1024;

    /// Reads the text of a `.minisig` file: four lines, and every base64 in its one canonical form.
    ///
    /// # Errors
    /// `reference-signature-malformed`.
    pub fn parse(text: &[u8]) -> Result<Self, Refusal> {
        if text.len() > Self::MAX {
            return Err(malformed(format!("{} bytes, at most {} are read", text.len(), Self::MAX)));
        }
        let text = std::str::from_utf8(text).map_err(|_| malformed("not UTF-8"))?;
        let mut lines = text.strip_suffix('\n').unwrap_or(text).split('\n').map(|line| line.trim_end_matches('\r'));
        let mut line = |what| lines.next().ok_or_else(|| malformed(format!("{what} is missing")));
        comment(line("the untrusted comment")?, UNTRUSTED, MAX_UNTRUSTED)?;
        let first = line("the signature")?;
        let trusted_comment = comment(line("the trusted comment")?, TRUSTED, MAX_TRUSTED)?.to_owned();
        let second = line("the signature of the trusted comment")?;
        if lines.next().is_some() {
            return Err(malformed("more than four lines"));
        }
        let bytes = decode::<74>(first).ok_or_else(|| malformed("its second line is not a signature"))?;
        let of_comment = decode::<64>(second).ok_or_else(|| malformed("its fourth line is not a signature"))?;
        let (algorithm, rest) = bytes.split_at(2);
        let algorithm = match algorithm {
            b"Ed" => Algorithm::Legacy,
            b"ED" => Algorithm::Prehashed,
            _ => return Err(malformed("its algorithm is neither Ed nor ED")),
        };
        let (id, signature) = rest.split_at(8);
        let (mut key_id, mut of_file) = ([0; 8], [0; 64]);
        key_id.copy_from_slice(id);
        of_file.copy_from_slice(signature);
        Ok(Self { algorithm, key_id: KeyId(key_id), of_file, trusted_comment, of_comment })
    }

    /// The key it names. Whether that key signed, [`SignerKey::verify`] says.
    pub fn key_id(&self) -> KeyId {
        self.key_id
    }
}

fn comment<'l>(line: &'l str, mark: &str, limit: usize) -> Result<&'l str, Refusal> {
    let comment = line.strip_prefix(mark).ok_or_else(|| malformed(format!("a line does not begin with {mark:?}")))?;
    if comment.len() > limit {
        return Err(malformed(format!("a comment is longer than {limit} bytes")));
    }
    Ok(comment)
}

/// Exactly `N` bytes of canonical base64.
fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    (text.len() == N.div_ceil(3) * 4).then(|| STANDARD.decode(text).ok()?.try_into().ok()).flatten()
}

#[cfg(feature = "minisign")]
#[expect(clippy::unnecessary_wraps, reason = "the other build refuses")]
fn prehash(message: &[u8]) -> Result<[u8; 64], Refusal> {
    use blake2::Digest as _;
    Ok(blake2::Blake2b512::digest(message).into())
}

#[cfg(not(feature = "minisign"))]
fn prehash(_: &[u8]) -> Result<[u8; 64], Refusal> {
    Err(Refusal::new(ReasonCode::ReferenceSignatureUnsupported, "the signature is over a BLAKE2b digest"))
}

pub(crate) fn unknown_signer(id: KeyId) -> Refusal {
    Refusal::new(ReasonCode::ReferenceSignatureUnknownSigner, format!("signed by key {id}"))
}

fn invalid(id: KeyId, detail: &str) -> Refusal {
    Refusal::new(ReasonCode::ReferenceSignatureInvalid, format!("key {id}: {detail}"))
}

fn malformed(detail: impl Into<String>) -> Refusal {
    Refusal::new(ReasonCode::ReferenceSignatureMalformed, detail)
}

/// Text that is no public key of minisign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a minisign public key: 56 characters that begin with RW")]
pub struct PublicKeyError;

const UNTRUSTED: &str = "untrusted comment: ";
const TRUSTED: &str = "trusted comment: ";
/// minisign's `COMMENTMAXBYTES`.
const MAX_UNTRUSTED: usize = 1024;
/// minisign's `TRUSTEDCOMMENTMAXBYTES`.
const MAX_TRUSTED: usize = 8192;
