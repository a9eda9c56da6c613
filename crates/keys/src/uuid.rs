//! UUIDs (RFC 9562): names of disks.

use crate::{IdError, KeyError};
use core::fmt;
use core::str::FromStr;
use latchkey_boot_formats::Guid;
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};

/// A UUID that is not the nil UUID. Written in lower case; read in either case, always 36 characters with hyphens.
///
/// The nil UUID is refused because it is what an uninitialised header shows: every such disk would share one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Uuid([u8; 16]);

impl Uuid {
    /// Characters of the text form.
    pub const TEXT_LENGTH: usize = 36;

    /// From the 16 bytes in the order of the text form.
    ///
    /// # Errors
    /// [`IdError::NilUuid`].
    pub fn from_bytes(bytes: [u8; 16]) -> Result<Self, IdError> {
        if bytes == [0; 16] { Err(IdError::NilUuid) } else { Ok(Self(bytes)) }
    }

    /// A random (version 4) UUID.
    ///
    /// # Errors
    /// [`KeyError::Random`] if the kernel gives no random bytes.
    pub fn random() -> Result<Self, KeyError> {
        let mut bytes = [0; 16];
        SystemRandom::new().fill(&mut bytes).map_err(|_| KeyError::Random)?;
        // RFC 9562 section 5.4: "ver: The 4-bit version field ... set to 0b0100", "var: ... set to 0b10".
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Ok(Self(bytes))
    }

    /// The 16 bytes in the order of the text form.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Guid::from_text_order(self.0).fmt(f)
    }
}

impl FromStr for Uuid {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        // Before anything is made of it: it may be as long as somebody likes.
        let text = Some(text).filter(|text| text.len() == Self::TEXT_LENGTH);
        let guid = text.and_then(Guid::parse).ok_or(IdError::UuidSyntax)?;
        Self::from_bytes(guid.text_order())
    }
}

impl TryFrom<String> for Uuid {
    type Error = IdError;

    fn try_from(text: String) -> Result<Self, IdError> {
        text.parse()
    }
}

impl From<Uuid> for String {
    fn from(uuid: Uuid) -> Self {
        uuid.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6";

    #[test]
    fn upper_and_lower_case_name_the_same_disk() {
        let lower: Uuid = TEXT.parse().unwrap();
        assert_eq!(lower, TEXT.to_uppercase().parse().unwrap());
        assert_eq!(lower.to_string(), TEXT);
        assert_eq!(lower.as_bytes()[..4], [0xf8, 0x1d, 0x4f, 0xae]);
    }

    #[test]
    fn every_other_spelling_is_refused() {
        for text in [
            "",
            "f81d4fae7dec11d0a76500a0c91e6bf6",
            "{f81d4fae-7dec-11d0-a765-00a0c91e6bf6}",
            "urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
            "f81d4fae-7dec-11d0-a765-00a0c91e6bf",
            "f81d4fae-7dec-11d0-a765-00a0c91e6bf6 ",
            "f81d4fae-7dec-11d0-a765-00a0c91e6bg6",
            "f81d4fae-7dec-11d0-a765_00a0c91e6bf6",
            "-81d4fae-7dec-11d0-a765-00a0c91e6bf6",
            "f81d4fae-7dec-11d0-a765-00a0c91e6b\u{e9}",
        ] {
            assert_eq!(text.parse::<Uuid>(), Err(IdError::UuidSyntax), "{text:?}");
        }
    }

    #[test]
    fn the_nil_uuid_of_an_uninitialised_header_is_refused() {
        assert_eq!("00000000-0000-0000-0000-000000000000".parse::<Uuid>(), Err(IdError::NilUuid));
    }

    #[test]
    fn random_uuids_are_version_4_and_differ() {
        let (one, two) = (Uuid::random().unwrap(), Uuid::random().unwrap());
        assert_ne!(one, two);
        assert_eq!(one.as_bytes()[6] >> 4, 4);
        assert_eq!(one.as_bytes()[8] >> 6, 0b10);
    }

    proptest! {
        #[test]
        fn text_and_bytes_round_trip(bytes in any::<[u8; 16]>()) {
            prop_assume!(bytes != [0; 16]);
            let uuid = Uuid::from_bytes(bytes).unwrap();
            prop_assert_eq!(uuid.to_string().parse::<Uuid>(), Ok(uuid));
        }

        #[test]
        fn arbitrary_text_never_panics(text in "\\PC{0,48}") {
            let _ = text.parse::<Uuid>();
        }
    }
}
