//! Partition tables.

use std::fmt::Write;

use latchkey_boot_formats::Cursor;
use latchkey_boot_formats::gpt::{Header, Partition};

use super::guid::Named;
use super::text::Text;

/// `UEFI_GPT_DATA` (PFP 1.05, section 10.2): the header, a count, the used entries.
pub(super) fn describe(data: &[u8]) -> Option<String> {
    let mut fields = Cursor::new(data);
    let header = Header::unchecked(fields.take(Header::SIZE)?)?;
    let size = usize::try_from(header.entry_size).ok().filter(|&size| size >= Partition::SIZE)?;
    let count = fields.u64()?;
    let mut words = format!("disk {}, {count} partitions", Named(header.disk));
    for number in (1..).take(usize::try_from(count.min(MAX_SHOWN)).ok()?) {
        let Some(partition) = Partition::read(fields.take(size)?, number) else { continue };
        let name = Text::utf8(partition.label.as_bytes()).map(|text| format!("{text} ")).unwrap_or_default();
        write!(words, "; {name}({})", Named(partition.kind)).ok()?;
    }
    Some(words)
}

const MAX_SHOWN: u64 = 128;
