//! Globally unique identifiers, as UEFI and its partition tables have them.

use std::fmt;

/// A GUID, kept in the order it is written as text. In files and on disks its first three groups are little-endian:
/// [`Self::from_disk_order`] and [`Self::disk_order`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guid([u8; 16]);

impl Guid {
    /// From its 32 hex digits as they are written: `0xc12a_7328_f81f_…` is `c12a7328-f81f-…`.
    pub const fn from_u128(digits: u128) -> Self {
        Self(digits.to_be_bytes())
    }

    /// From the bytes in text order.
    pub const fn from_text_order(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// From the bytes in files and on disks (UEFI 2.10, appendix A).
    pub const fn from_disk_order(b: [u8; 16]) -> Self {
        Self([b[3], b[2], b[1], b[0], b[5], b[4], b[7], b[6], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]])
    }

    /// The bytes in text order.
    pub const fn text_order(self) -> [u8; 16] {
        self.0
    }

    /// The bytes in files and on disks.
    pub const fn disk_order(self) -> [u8; 16] {
        // The same exchange of bytes leads back.
        Self::from_disk_order(self.0).0
    }

    /// Reads `8-4-4-4-12` hex digits of either case.
    pub fn parse(text: &str) -> Option<Self> {
        let groups: Vec<&str> = text.split('-').collect();
        let lengths = groups.iter().map(|group| group.len());
        let mut bytes = [0; 16];
        let well_formed = lengths.eq([8, 4, 4, 4, 12]) && hex::decode_to_slice(groups.concat(), &mut bytes).is_ok();
        well_formed.then_some(Self(bytes))
    }

    /// Whether all bits are zero: the type of an unused partition entry.
    pub fn is_zero(self) -> bool {
        self.0 == [0; 16]
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition_type::ESP;

    #[test]
    fn text_and_disk_order_are_those_of_uefi() {
        // The EFI system partition as it stands on disks.
        let disk = [0x28, 0x73, 0x2a, 0xc1, 0x1f, 0xf8, 0xd2, 0x11, 0xba, 0x4b, 0x00, 0xa0, 0xc9, 0x3e, 0xc9, 0x3b];
        let guid = Guid::from_disk_order(disk);
        assert_eq!(guid.to_string(), "c12a7328-f81f-11d2-ba4b-00a0c93ec93b");
        assert_eq!(Guid::parse("C12A7328-F81F-11D2-BA4B-00A0C93EC93B"), Some(guid));
        assert_eq!(guid, ESP);
        assert_eq!(guid.disk_order(), disk);
        assert_eq!(Guid::from_text_order(guid.text_order()), guid);
    }

    #[test]
    fn other_forms_are_not_guids() {
        for text in [
            "",
            "c12a7328f81f11d2ba4b00a0c93ec93b",
            "c12a7328-f81f-11d2-ba4b-00a0c93ec93",
            "c12a7328-f81f-11d2-ba4b-00a0c93ec93g",
            "{c12a7328-f81f-11d2-ba4b-00a0c93ec93b}",
        ] {
            assert_eq!(Guid::parse(text), None, "{text}");
        }
    }
}
