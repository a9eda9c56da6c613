//! Identifiers and salts that follow from what an image is called, so that building it again gives the same bytes.
//!
//! Each is the beginning of SHA-256 over `latchkey image v1`, what it is for, the name and the version, each with
//! its length before it (8 bytes, little-endian). UUIDs carry version 8 and the variant of RFC 9562, section 5.8.
//! None of them is a secret or a security decision: dm-verity decides by the root hash.

use ring::digest::{Context, SHA256};

/// What the identifiers of one image follow from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Identity<'a> {
    pub(crate) name: &'a str,
    pub(crate) version: &'a str,
}

impl Identity<'_> {
    /// 32 bytes for a purpose.
    pub(crate) fn bytes(self, purpose: &str) -> [u8; 32] {
        let mut context = Context::new(&SHA256);
        for part in ["latchkey image v1", purpose, self.name, self.version] {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part.as_bytes());
        }
        let mut bytes = [0; 32];
        bytes.copy_from_slice(context.finish().as_ref());
        bytes
    }

    /// A UUID for a purpose, as the bytes of its text.
    pub(crate) fn uuid(self, purpose: &str) -> [u8; 16] {
        let mut uuid = [0; 16];
        uuid.copy_from_slice(self.bytes(purpose).split_at(16).0);
        uuid[6] = uuid[6] & 0x0f | 0x80;
        uuid[8] = uuid[8] & 0x3f | 0x80;
        uuid
    }
}

/// A UUID as text.
pub(crate) fn uuid_text(uuid: [u8; 16]) -> String {
    latchkey_boot_formats::Guid::from_text_order(uuid).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_versions_cannot_flow_into_each_other() {
        let of = |name, version| Identity { name, version }.bytes("salt");
        assert_ne!(of("edge1", "1.0.0"), of("edge", "11.0.0"));
        assert_ne!(of("edge", "1.0.0"), Identity { name: "edge", version: "1.0.0" }.bytes("uuid"));
    }

    #[test]
    fn uuids_say_that_they_are_made_by_a_rule_of_our_own() {
        let text = uuid_text(Identity { name: "edge", version: "1.0.0" }.uuid("disk"));
        assert_eq!(text.as_bytes()[14], b'8');
        assert!(matches!(text.as_bytes()[19], b'8' | b'9' | b'a' | b'b'), "{text}");
    }
}
