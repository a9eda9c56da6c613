//! UUIDs (RFC 9562) as the configuration database spells them.

use std::fmt;
use std::str::FromStr;

use ring::digest;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A UUID: 16 bytes. Its text is 36 characters in lower case, and no other spelling is read, so that one UUID has one path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid([u8; 16]);

/// Why a text is no UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "this is no UUID; one is written as 36 characters, such as f24d354d-abc1-4e32-98e1-0667b3e40b61, in lower case"
)]
pub struct UuidError;

/// Where the four hyphens stand.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

impl Uuid {
    /// The UUID of zeros.
    pub const NIL: Self = Self([0; 16]);

    /// The UUID of a text that is known to be one.
    ///
    /// # Panics
    ///
    /// When the text is none; a constant made so does not compile then.
    pub const fn constant(text: &str) -> Self {
        match Self::read(text.as_bytes()) {
            Some(uuid) => uuid,
            None => panic!("no UUID"),
        }
    }

    /// A UUID of version 4 (RFC 9562, section 5.4) made of 16 random bytes.
    pub const fn from_random(mut bytes: [u8; 16]) -> Self {
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        Self(bytes)
    }

    /// A new UUID of version 4, from the system's random numbers.
    ///
    /// # Panics
    ///
    /// When the system has no random numbers: nothing safe can be done then.
    pub fn random() -> Self {
        let bytes = ring::rand::generate(&ring::rand::SystemRandom::new()).expect("the system has random numbers");
        Self::from_random(bytes.expose())
    }

    /// The UUID of version 5 (RFC 9562, section 5.5) of a name within this one as namespace.
    #[must_use]
    pub fn named(&self, name: &str) -> Self {
        let mut sha1 = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
        sha1.update(&self.0);
        sha1.update(name.as_bytes());
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&sha1.finish().as_ref()[..16]);
        bytes[6] = (bytes[6] & 0x0f) | 0x50;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        Self(bytes)
    }

    /// Its 16 bytes, in the order of its text.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The UUID of these 16 bytes, in the order of its text.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    const fn read(text: &[u8]) -> Option<Self> {
        if text.len() != 36 {
            return None;
        }
        let mut bytes = [0; 16];
        let (mut at, mut byte) = (0, 0);
        while byte < 16 {
            if at == HYPHENS[0] || at == HYPHENS[1] || at == HYPHENS[2] || at == HYPHENS[3] {
                if text[at] != b'-' {
                    return None;
                }
                at += 1;
            }
            let (Some(high), Some(low)) = (digit(text[at]), digit(text[at + 1])) else { return None };
            bytes[byte] = (high << 4) | low;
            at += 2;
            byte += 1;
        }
        Some(Self(bytes))
    }
}

const fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [b'-'; 36];
        let mut at = 0;
        for byte in self.0 {
            if HYPHENS.contains(&at) {
                at += 1;
            }
            text[at] = DIGITS[usize::from(byte >> 4)];
            text[at + 1] = DIGITS[usize::from(byte & 15)];
            at += 2;
        }
        f.pad(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Uuid {
    type Err = UuidError;

    fn from_str(text: &str) -> Result<Self, UuidError> {
        Self::read(text.as_bytes()).ok_or(UuidError)
    }
}

impl Serialize for Uuid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Uuid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl serde::de::Visitor<'_> for Text {
            type Value = Uuid;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a UUID of 36 characters in lower case")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Uuid, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_uuid_has_one_spelling() {
        let text = "f24d354d-abc1-4e32-98e1-0667b3e40b61";
        assert_eq!(text.parse::<Uuid>().unwrap().to_string(), text);
        for bad in
            ["", &text[1..], &text.to_uppercase(), &text.replace('-', ""), &format!("{{{text}}}"), &format!("{text}0")]
        {
            assert_eq!(bad.parse::<Uuid>(), Err(UuidError), "{bad}");
        }
        assert_eq!("f24d354dabc1--4e32-98e1-0667b3e40b61".parse::<Uuid>(), Err(UuidError));
        assert_eq!("f24d354d-abc1-4e32-98e1-0667b3é0b61".parse::<Uuid>(), Err(UuidError));
    }

    #[test]
    fn versions_and_variant_are_as_the_rfc_says() {
        assert_eq!(Uuid::from_random([0xff; 16]).to_string(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        // RFC 9562, appendix A.4: the name www.example.com in the namespace of domain names.
        let domains = Uuid::constant("6ba7b810-9dad-11d1-80b4-00c04fd430c8");
        assert_eq!(domains.named("www.example.com").to_string(), "2ed6657d-e927-568b-95e1-2665a8aea6a2");
    }
}
