//! Firmware volumes and the tables that firmware hands over.

use latchkey_boot_formats::Cursor;

use super::guid::Named;
use super::text::Text;

/// `UEFI_PLATFORM_FIRMWARE_BLOB` (PFP 1.05, section 10.2).
pub(super) fn blob(data: &[u8]) -> Option<String> {
    let mut fields = Cursor::new(data);
    let (base, length) = (fields.u64()?, fields.u64()?);
    fields.is_empty().then(|| format!("firmware at {base:#x}, {length:#x} bytes"))
}

/// `UEFI_PLATFORM_FIRMWARE_BLOB2`: the same with a description before.
pub(super) fn blob2(data: &[u8]) -> Option<String> {
    let (description, rest) = described(data)?;
    Some(format!("{description}: {}", blob(rest)?))
}

/// `UEFI_HANDOFF_TABLE_POINTERS` (PFP 1.05, section 10.2).
pub(super) fn tables(data: &[u8]) -> Option<String> {
    let mut fields = Cursor::new(data);
    let count = fields.u64()?;
    let mut names = Vec::new();
    for _ in 0..count.min(MAX_SHOWN) {
        let (name, _address) = (Named(fields.guid()?), fields.u64()?);
        names.push(name.to_string());
    }
    Some(format!("{count} tables: {}", names.join(", ")))
}

/// `UEFI_HANDOFF_TABLE_POINTERS2`: the same with a description before.
pub(super) fn tables2(data: &[u8]) -> Option<String> {
    let (description, rest) = described(data)?;
    Some(format!("{description}: {}", tables(rest)?))
}

fn described(data: &[u8]) -> Option<(String, &[u8])> {
    let (&size, rest) = data.split_first()?;
    let (description, rest) = rest.split_at_checked(usize::from(size))?;
    let description = Text::parse(description).map_or_else(|| "unnamed".to_owned(), |text| text.to_string());
    Some((description, rest))
}

const MAX_SHOWN: u64 = 64;
