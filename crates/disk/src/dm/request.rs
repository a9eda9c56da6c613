//! `struct dm_ioctl` and what follows it, byte by byte. Integers are in the machine's order; it is a kernel interface.

use super::ioctl::flag;
use super::table::Table;
use crate::block::DeviceNumber;
use crate::bytes::place;
use core::str::FromStr;
use latchkey_boot_formats::{array_at, slice_at};
use zeroize::Zeroizing;

/// `sizeof(struct dm_ioctl)`.
pub(super) const HEADER: usize = 312;

/// `sizeof(struct dm_target_spec)`.
const TARGET: usize = 40;

/// Room for answers: status lines and the list of targets are far smaller.
const ANSWER: usize = 16 * 1024;

// Offsets in `struct dm_ioctl`.
const AT_VERSION: usize = 0;
const AT_DATA_SIZE: usize = 12;
const AT_DATA_START: usize = 16;
const AT_TARGET_COUNT: usize = 20;
const AT_OPEN_COUNT: usize = 24;
const AT_FLAGS: usize = 28;
const AT_DEVICE: usize = 40;
const AT_NAME: usize = 48;
const AT_UUID: usize = 176;

const NAME: usize = 128;
const UUID: usize = 129;

/// "All clients of the ioctl interface should fill in the version number of the interface that they were compiled
/// with": major 4, and no minor feature is needed.
const INTERFACE: u32 = 4;

/// A mapping's name: 1 to 127 of `A-Z a-z 0-9 - _`, so that it is also a file name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappingName(String);

impl MappingName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for MappingName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        if plain && (1..NAME).contains(&text.len()) { Ok(Self(text.to_owned())) } else { Err(NameError) }
    }
}

/// Not a mapping's name. The caller's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a mapping's name: 1 to 127 of A-Z, a-z, 0-9, - and _")]
pub struct NameError;

/// A request's bytes, and after the ioctl its answer's. Wiped on drop, since a table may carry a key.
pub(super) struct Request(Zeroizing<Vec<u8>>);

impl Request {
    /// A request about nothing, or about the mapping `name`, with room for an answer.
    pub(super) fn new(name: Option<&MappingName>, flags: u32) -> Self {
        Self::sized(name, flags, HEADER + ANSWER)
    }

    /// Creates `name` with a `uuid` that shows whose it is.
    pub(super) fn create(name: &MappingName, uuid: &str) -> Self {
        let mut request = Self::sized(Some(name), 0, HEADER);
        debug_assert!(uuid.len() < UUID, "callers make it of a UUID and a name");
        place(&mut request.0, AT_UUID, uuid.as_bytes().get(..uuid.len().min(UUID - 1)).unwrap_or_default());
        request
    }

    /// Loads `table` as the mapping's inactive table, for the next resume to take into use.
    pub(super) fn load(name: &MappingName, table: &Table) -> Self {
        // The parameters, their NUL, and up to the next target, which would be aligned to 8.
        let target = (TARGET + table.parameters().len() + 1).next_multiple_of(8);
        let flags = flag::SECURE_DATA | if table.is_read_only() { flag::READ_ONLY } else { 0 };
        let mut request = Self::sized(Some(name), flags, HEADER + target);
        let bytes = &mut request.0;
        place(bytes, AT_TARGET_COUNT, &1_u32.to_ne_bytes());
        place(bytes, HEADER, &0_u64.to_ne_bytes());
        place(bytes, HEADER + 8, &table.sectors().to_ne_bytes());
        place(bytes, HEADER + 20, &u32::try_from(target).unwrap_or(u32::MAX).to_ne_bytes());
        place(bytes, HEADER + 24, table.target().as_bytes());
        place(bytes, HEADER + TARGET, table.parameters().as_bytes());
        request
    }

    fn sized(name: Option<&MappingName>, flags: u32, size: usize) -> Self {
        let mut bytes = Zeroizing::new(vec![0; size]);
        place(&mut bytes, AT_VERSION, &INTERFACE.to_ne_bytes());
        place(&mut bytes, AT_DATA_SIZE, &u32::try_from(size).unwrap_or(u32::MAX).to_ne_bytes());
        #[expect(clippy::cast_possible_truncation, reason = "312")]
        place(&mut bytes, AT_DATA_START, &(HEADER as u32).to_ne_bytes());
        place(&mut bytes, AT_FLAGS, &flags.to_ne_bytes());
        if let Some(name) = name {
            place(&mut bytes, AT_NAME, name.as_str().as_bytes());
        }
        Self(bytes)
    }

    pub(super) fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    /// The interface's version, which the kernel writes into every answer.
    pub(super) fn version(&self) -> (u32, u32, u32) {
        (self.u32_at(AT_VERSION), self.u32_at(AT_VERSION + 4), self.u32_at(AT_VERSION + 8))
    }

    pub(super) fn device(&self) -> DeviceNumber {
        let dev = array_at(&self.0, AT_DEVICE).map_or(0, u64::from_ne_bytes);
        // The kernel's `huge_encode_dev`: twelve bits of major between eight low and all higher bits of minor.
        let low = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).unwrap_or_default();
        DeviceNumber { major: low(dev >> 8 & 0xfff), minor: low(dev & 0xff | dev >> 12 & 0xfff_ff00) }
    }

    pub(super) fn open_count(&self) -> u32 {
        self.u32_at(AT_OPEN_COUNT)
    }

    pub(super) fn is_truncated(&self) -> bool {
        self.u32_at(AT_FLAGS) & flag::BUFFER_FULL != 0
    }

    /// Target type and text of the first target in a status answer.
    pub(super) fn first_target(&self) -> Option<(&str, &str)> {
        if self.u32_at(AT_TARGET_COUNT) == 0 {
            return None;
        }
        let start = usize::try_from(self.u32_at(AT_DATA_START)).ok()?;
        let kind = text(slice_at(&self.0, start.checked_add(24)?, 16)?)?;
        Some((kind, text(self.0.get(start.checked_add(TARGET)?..)?)?))
    }

    /// Name and version of each target in a `LIST_VERSIONS` answer.
    pub(super) fn target_versions(&self) -> Vec<(&str, [u32; 3])> {
        let mut found = Vec::new();
        let mut at = usize::try_from(self.u32_at(AT_DATA_START)).unwrap_or(usize::MAX);
        while let Some(name) = at.checked_add(16).and_then(|at| self.0.get(at..)).and_then(text) {
            let [next, major, minor, patch] = [0, 4, 8, 12].map(|field| self.u32_at(at + field));
            found.push((name, [major, minor, patch]));
            match usize::try_from(next) {
                Ok(next) if next > 0 => at = at.saturating_add(next),
                _ => break,
            }
        }
        found
    }

    fn u32_at(&self, at: usize) -> u32 {
        array_at(&self.0, at).map_or(0, u32::from_ne_bytes)
    }
}

/// Text up to its NUL.
fn text(bytes: &[u8]) -> Option<&str> {
    let end = bytes.iter().position(|&byte| byte == 0)?;
    core::str::from_utf8(bytes.get(..end)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> MappingName {
        "state".parse().unwrap()
    }

    #[test]
    fn a_table_load_is_these_bytes() {
        let table = Table::for_test("crypt", 24, "x y", false);
        let Request(bytes) = Request::load(&name(), &table);
        let mut expected = vec![0; HEADER + 48];
        expected[0] = 4;
        expected[12..16].copy_from_slice(&360_u32.to_ne_bytes());
        expected[16..20].copy_from_slice(&312_u32.to_ne_bytes());
        expected[20..24].copy_from_slice(&1_u32.to_ne_bytes());
        expected[28..32].copy_from_slice(&0x8000_u32.to_ne_bytes());
        expected[48..53].copy_from_slice(b"state");
        expected[320..328].copy_from_slice(&24_u64.to_ne_bytes());
        expected[332..336].copy_from_slice(&48_u32.to_ne_bytes());
        expected[336..341].copy_from_slice(b"crypt");
        expected[352..355].copy_from_slice(b"x y");
        assert_eq!(*bytes, expected);
    }

    #[test]
    fn parameters_that_fill_the_alignment_keep_their_nul() {
        let Request(bytes) = Request::load(&name(), &Table::for_test("crypt", 8, "12345678", false));
        assert_eq!(bytes.len(), HEADER + TARGET + 16);
        assert_eq!(bytes[HEADER + TARGET + 8], 0);
    }

    #[test]
    fn a_read_only_table_says_so() {
        let request = Request::load(&name(), &Table::for_test("verity", 8, "x", true));
        assert_eq!(request.u32_at(AT_FLAGS), 0x8001);
    }

    #[test]
    fn a_create_carries_name_and_uuid() {
        let Request(bytes) = Request::create(&name(), "CRYPT-LUKS2-x-state");
        assert_eq!(bytes.len(), HEADER);
        assert_eq!(&bytes[AT_NAME..AT_NAME + 6], b"state\0");
        assert_eq!(&bytes[AT_UUID..AT_UUID + 20], b"CRYPT-LUKS2-x-state\0");
    }

    #[test]
    fn device_numbers_are_decoded_like_huge_encode_dev() {
        let mut request = Request::new(None, 0);
        for (dev, major, minor) in [(0xfd00_u64, 253, 0), (0x1_0fd12, 253, 0x112), (0xfe10, 254, 16)] {
            place(&mut request.0, AT_DEVICE, &dev.to_ne_bytes());
            assert_eq!(request.device(), DeviceNumber { major, minor }, "{dev:#x}");
        }
    }

    #[test]
    fn status_and_versions_are_read_back() {
        let mut request = Request::load(&name(), &Table::for_test("crypt", 8, "status text", false));
        assert_eq!(request.first_target(), Some(("crypt", "status text")));
        request = Request::new(None, 0);
        for (at, next, name, version) in [(312, 32_u32, &b"crypt"[..], [1_u32, 24, 0]), (344, 0, b"verity", [1, 9, 0])]
        {
            place(&mut request.0, at, &next.to_ne_bytes());
            for (index, part) in version.iter().enumerate() {
                place(&mut request.0, at + 4 + 4 * index, &part.to_ne_bytes());
            }
            place(&mut request.0, at + 16, name);
        }
        assert_eq!(request.target_versions(), [("crypt", [1, 24, 0]), ("verity", [1, 9, 0])]);
    }

    #[test]
    fn names_that_are_paths_are_refused() {
        for bad in ["", "a/b", "..", "a b", "a\0", &"a".repeat(128)] {
            assert_eq!(bad.parse::<MappingName>(), Err(NameError), "{bad:?}");
        }
    }
}
