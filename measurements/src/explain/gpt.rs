//! Partition tables.

use std::fmt::Write;

use super::fields::Fields;
use super::guid::Guid;
use super::text::Text;

/// `UEFI_GPT_DATA` (PFP 1.05, section 10.2): the header, a count, the used entries.
pub(super) fn describe(data: &[u8]) -> Option<String> {
    let mut fields = Fields::new(data);
    let header = fields.take(HEADER)?;
    let disk = Guid(header.get(56..72)?.try_into().ok()?);
    let size = header.get(84..88).and_then(|size| Some(u32::from_le_bytes(size.try_into().ok()?)))?;
    let size = usize::try_from(size).ok().filter(|&size| size >= ENTRY)?;
    let count = fields.u64()?;
    let mut words = format!("disk {disk}, {count} partitions");
    for _ in 0..count.min(MAX_SHOWN) {
        let entry = fields.take(size)?;
        let kind = Guid(entry.first_chunk::<16>().copied()?);
        if kind.is_unused() {
            continue;
        }
        let name = entry.get(56..ENTRY).map(name).unwrap_or_default();
        write!(words, "; {name}{}({kind})", if name.is_empty() { "" } else { " " }).ok()?;
    }
    Some(words)
}

fn name(field: &[u8]) -> String {
    let (units, _) = field.as_chunks::<2>();
    let end = units.iter().position(|unit| *unit == [0, 0]).unwrap_or(units.len());
    field.get(..end * 2).and_then(Text::utf16).map(|text| text.to_string()).unwrap_or_default()
}

/// UEFI 2.10, section 5.3.2: the header of revision 1.0 has 92 bytes.
const HEADER: usize = 92;
/// UEFI 2.10, section 5.3.3: an entry has at least 128 bytes.
const ENTRY: usize = 128;
const MAX_SHOWN: u64 = 128;
