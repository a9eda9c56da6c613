//! Bytes as JSON strings: base64 with a bound that is checked before decoding, and digests as hexadecimal.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// At most `MAX` bytes; in JSON canonical padded base64 (RFC 4648, section 4), refused before decoding when longer.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Bytes<const MAX: usize>(Vec<u8>);

impl<const MAX: usize> Bytes<MAX> {
    /// The bytes, or `None` when there are more than `MAX`.
    pub fn new(bytes: Vec<u8>) -> Option<Self> {
        (bytes.len() <= MAX).then_some(Self(bytes))
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

impl<const MAX: usize> fmt::Debug for Bytes<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes({} of at most {MAX})", self.0.len())
    }
}

impl<const MAX: usize> Serialize for Bytes<MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de, const MAX: usize> Deserialize<'de> for Bytes<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Base64Visitor::<MAX>)
    }
}

struct Base64Visitor<const MAX: usize>;

impl<const MAX: usize> Visitor<'_> for Base64Visitor<MAX> {
    type Value = Bytes<MAX>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "base64 of at most {MAX} bytes")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        if text.len() > MAX.div_ceil(3) * 4 {
            return Err(E::custom(format_args!("base64 of more than {MAX} bytes")));
        }
        // STANDARD demands canonical padding and zero trailing bits: one text for one value.
        let bytes = STANDARD.decode(text).map_err(|error| E::custom(format_args!("not base64: {error}")))?;
        Bytes::new(bytes).ok_or_else(|| E::custom(format_args!("base64 of more than {MAX} bytes")))
    }
}

/// A SHA-256 digest; in JSON 64 lower-case hexadecimal digits and nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Thirty-two zero bytes: a PCR that nothing was extended into.
    pub const ZERO: Self = Self([0; 32]);

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Reads 64 lower-case hexadecimal digits. Upper case is refused, so that one value has one text.
    pub fn from_hex(text: &str) -> Option<Self> {
        let canonical = text.len() == 64 && text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
        let mut bytes = [0; 32];
        (canonical && hex::decode_to_slice(text, &mut bytes).is_ok()).then_some(Self(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(DigestVisitor)
    }
}

struct DigestVisitor;

impl Visitor<'_> for DigestVisitor {
    type Value = Digest;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("64 lower-case hexadecimal digits")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Digest, E> {
        Digest::from_hex(text).ok_or_else(|| E::custom("not 64 lower-case hexadecimal digits"))
    }
}

/// A SHA-384 launch digest; in JSON 96 lower-case hexadecimal digits and nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaunchDigest(pub [u8; 48]);

impl LaunchDigest {
    /// Reads 96 lower-case hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        let canonical = text.len() == 96 && text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
        let mut bytes = [0; 48];
        (canonical && hex::decode_to_slice(text, &mut bytes).is_ok()).then_some(Self(bytes))
    }
}

impl fmt::Display for LaunchDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for LaunchDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for LaunchDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for LaunchDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Hex;
        impl Visitor<'_> for Hex {
            type Value = LaunchDigest;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("96 lower-case hexadecimal digits")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<LaunchDigest, E> {
                LaunchDigest::from_hex(text).ok_or_else(|| E::custom("not 96 lower-case hexadecimal digits"))
            }
        }
        deserializer.deserialize_str(Hex)
    }
}
