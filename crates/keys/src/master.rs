//! The master secret: a set of versions, one of them current.

use crate::error::SecretFileError;
use crate::{DerivedKey, KeyError, KeyId, KeyLength, KeyRelease, Secret, SecretVec, derive, label};
use core::fmt;
use core::num::NonZeroU32;
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use zeroize::Zeroizing;

/// Separates the extraction step from any other use of the same 32 bytes.
const EXTRACT_SALT: &[u8] = b"latchkey master secret v1";

/// The schema of the file that this program reads and writes.
const SCHEMA: u32 = 1;

/// More versions than yearly rotations of a cluster's life.
const MAX_VERSIONS: usize = 64;

/// Characters of one version in the file, generously: two numbers, 64 digits, names and punctuation.
const TEXT_PER_VERSION: usize = 128;

/// From which every key of a cluster is derived. All versions are kept as long as disks exist that use them; the
/// current one is what new disks get.
///
/// File format, closed JSON (unknown fields are refused):
///
/// ```json
/// {
///   "schema": 1,
///   "current": 2,
///   "secrets": [
///     { "version": 1, "secret": "<64 hexadecimal digits>" },
///     { "version": 2, "secret": "<64 hexadecimal digits>" }
///   ]
/// }
/// ```
pub struct MasterSecret {
    current: KeyVersion,
    versions: BTreeMap<KeyVersion, Secret<32>>,
}

/// Version of the master secret; never 0, which in requests means "the current one".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyVersion(NonZeroU32);

impl KeyVersion {
    /// What a new master secret begins with.
    pub const FIRST: Self = Self(NonZeroU32::MIN);

    /// `None` for 0.
    pub const fn new(number: u32) -> Option<Self> {
        match NonZeroU32::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The number, from 1.
    pub const fn number(self) -> u32 {
        self.0.get()
    }
}

impl fmt::Display for KeyVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl MasterSecret {
    /// A new random master secret with version 1.
    ///
    /// # Errors
    /// [`KeyError::Random`].
    pub fn random() -> Result<Self, KeyError> {
        let first = KeyVersion::FIRST;
        Ok(Self { current: first, versions: BTreeMap::from([(first, Secret::random()?)]) })
    }

    /// The same set with one more random version, which becomes the current one.
    ///
    /// # Errors
    /// [`KeyError::Random`]; [`KeyError::UnknownVersion`] if there is no room for one more.
    pub fn rotated(mut self) -> Result<Self, KeyError> {
        let newest = self.versions.keys().next_back().map_or(0, |version| version.number());
        let next = newest.checked_add(1).and_then(KeyVersion::new).filter(|_| self.versions.len() < MAX_VERSIONS);
        let next = next.ok_or(KeyError::UnknownVersion { asked: newest.saturating_add(1), current: self.current })?;
        self.versions.insert(next, Secret::random()?);
        self.current = next;
        Ok(self)
    }

    /// The version that new keys come from.
    pub fn current(&self) -> KeyVersion {
        self.current
    }

    /// All versions, ascending.
    pub fn versions(&self) -> impl Iterator<Item = KeyVersion> {
        self.versions.keys().copied()
    }

    /// The key that somebody answered for: see [`KeyRelease`]. Two calls with equal id, version and length give equal
    /// keys; if any of them differs, the keys are independent of each other, so a short key is no prefix of a long one.
    ///
    /// # Errors
    /// [`KeyError::UnknownVersion`].
    pub fn derive(&self, release: &impl KeyRelease, length: KeyLength) -> Result<DerivedKey, KeyError> {
        self.derive_key(&release.key_id(), release.key_version(), length)
    }

    /// The 32 bytes of a key that somebody answered for: what state disks use.
    ///
    /// # Errors
    /// [`KeyError::UnknownVersion`].
    pub fn derive_32(&self, release: &impl KeyRelease) -> Result<Secret<32>, KeyError> {
        Secret::try_from(&self.derive(release, KeyLength::DEFAULT)?.key)
    }

    /// The measurement secret of the cluster that was begun with this version. It belongs to a cluster and not to a machine, so
    /// no [`KeyRelease`] is asked for: with it alone a cluster's id is computed, and no disk opens.
    ///
    /// # Errors
    /// [`KeyError::UnknownVersion`].
    pub fn measurement_secret(&self, version: KeyVersion) -> Result<Secret<32>, KeyError> {
        Secret::try_from(&self.derive_key(&KeyId::MeasurementSecret, Some(version), KeyLength::DEFAULT)?.key)
    }

    /// What the API servers of the cluster that was begun with this version encrypt Secrets with. It belongs to a cluster, too:
    /// without a control plane's disk there is nothing that it decrypts.
    ///
    /// # Errors
    /// [`KeyError::UnknownVersion`].
    pub fn secrets_at_rest(&self, version: KeyVersion) -> Result<Secret<32>, KeyError> {
        Secret::try_from(&self.derive_key(&KeyId::SecretsAtRest, Some(version), KeyLength::DEFAULT)?.key)
    }

    fn derive_key(&self, id: &KeyId, version: Option<KeyVersion>, length: KeyLength) -> Result<DerivedKey, KeyError> {
        let version = version.unwrap_or(self.current);
        let unknown = || KeyError::UnknownVersion { asked: version.number(), current: self.current };
        let secret = self.versions.get(&version).ok_or_else(unknown)?;
        let label = label::data_key(id, version, length);
        let key = SecretVec::fill_with(length.bytes() as usize, |out| {
            derive::hkdf_sha256(EXTRACT_SALT, secret.expose(), &label, out)
        })?;
        Ok(DerivedKey { key, version })
    }

    /// Bytes of the largest file.
    pub const MAX_FILE_SIZE: usize = crate::file::MAX_FILE_SIZE;

    pub(crate) fn parse(json: &[u8]) -> Result<Self, SecretFileError> {
        let document: Document = serde_json::from_slice(json)
            .map_err(|error| SecretFileError::Syntax { line: error.line(), column: error.column() })?;
        if document.schema != SCHEMA {
            return Err(SecretFileError::Schema { got: document.schema });
        }
        let count = document.secrets.len();
        if !(1..=MAX_VERSIONS).contains(&count) {
            return Err(SecretFileError::VersionCount { got: count });
        }
        let mut versions = BTreeMap::new();
        for Entry { version, secret } in document.secrets {
            if versions.insert(version, secret.0).is_some() {
                return Err(SecretFileError::VersionTwice(version));
            }
        }
        if !versions.contains_key(&document.current) {
            return Err(SecretFileError::CurrentMissing(document.current));
        }
        Ok(Self { current: document.current, versions })
    }

    /// The file's text. Written by hand into one allocation of sufficient size, so that growing leaves no copies.
    pub(crate) fn to_json(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(TEXT_PER_VERSION * (1 + self.versions.len())));
        text.push_str("{\n  \"schema\": ");
        text.push_str(&SCHEMA.to_string());
        text.push_str(",\n  \"current\": ");
        text.push_str(&self.current.to_string());
        text.push_str(",\n  \"secrets\": [");
        for (index, (version, secret)) in self.versions.iter().enumerate() {
            text.push_str(if index == 0 { "\n" } else { ",\n" });
            text.push_str("    { \"version\": ");
            text.push_str(&version.to_string());
            text.push_str(", \"secret\": \"");
            push_hex(&mut text, secret.expose());
            text.push_str("\" }");
        }
        text.push_str("\n  ]\n}\n");
        text
    }
}

impl fmt::Debug for MasterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let versions: Vec<u32> = self.versions.keys().map(|version| version.number()).collect();
        write!(f, "MasterSecret(current {}, versions {versions:?}, hidden)", self.current)
    }
}

fn push_hex(text: &mut String, bytes: &[u8]) {
    for nibble in bytes.iter().flat_map(|byte| [byte >> 4, byte & 0x0f]) {
        text.push(char::from_digit(u32::from(nibble), 16).unwrap_or('0'));
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    schema: u32,
    current: KeyVersion,
    secrets: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    version: KeyVersion,
    secret: HexSecret,
}

/// Decodes straight from the file's buffer, so that no second copy of the digits exists.
struct HexSecret(Secret<32>);

impl<'de> Deserialize<'de> for HexSecret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Digits;
        impl<'de> Visitor<'de> for Digits {
            type Value = HexSecret;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("64 hexadecimal digits")
            }

            fn visit_borrowed_str<E: de::Error>(self, digits: &'de str) -> Result<HexSecret, E> {
                Secret::fill_with(|bytes| hex::decode_to_slice(digits, bytes))
                    .map(HexSecret)
                    .map_err(|_| E::custom("not 64 hexadecimal digits"))
            }
        }
        deserializer.deserialize_str(Digits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(rotations in 0..5_usize) {
            let mut master = MasterSecret::random().unwrap();
            for _ in 0..rotations {
                master = master.rotated().unwrap();
            }
            let read = MasterSecret::parse(master.to_json().as_bytes()).unwrap();
            prop_assert_eq!((read.current, read.versions), (master.current, master.versions));
        }

        #[test]
        fn arbitrary_bytes_never_panic(json: Vec<u8>) {
            let _ = MasterSecret::parse(&json);
        }

        #[test]
        fn a_damaged_file_never_panics(at in 0..150_usize, byte: u8) {
            let mut json = MasterSecret::random().unwrap().to_json().as_bytes().to_vec();
            if let Some(damaged) = json.get_mut(at) {
                *damaged = byte;
            }
            let _ = MasterSecret::parse(&json);
        }
    }

    #[test]
    fn writing_never_outgrows_its_one_allocation() {
        let mut master = MasterSecret::random().unwrap();
        while let Ok(more) = MasterSecret::parse(master.to_json().as_bytes()).unwrap().rotated() {
            master = more;
        }
        assert_eq!(master.versions.len(), MAX_VERSIONS);
        assert!(master.to_json().len() <= TEXT_PER_VERSION * (1 + MAX_VERSIONS));
    }
}
