//! UEFI device paths: where an image came from.

use std::fmt::Write;

use latchkey_boot_formats::Cursor;

use super::guid::Named;
use super::text::Text;

/// The path in the words of UEFI 2.10, section 10.6.1.6, as far as they are about where images come from; `None` when it
/// is malformed or longer than any real one.
pub fn describe(path: &[u8]) -> Option<String> {
    let mut fields = Cursor::new(path);
    let mut words: Vec<String> = Vec::new();
    while !fields.is_empty() {
        let (kind, subtype, length) = (fields.u8()?, fields.u8()?, fields.u16()?);
        let body = fields.take(usize::from(length).checked_sub(4)?)?;
        match (kind, subtype) {
            (0x7f, 0xff) => return fields.is_empty().then(|| words.join("/")),
            // One path after another.
            (0x7f, _) => words.push(",".to_owned()),
            _ if words.len() == MAX_NODES => return None,
            _ => words.push(node(kind, subtype, body).unwrap_or_else(|| format!("Path({kind},{subtype})"))),
        }
    }
    // The stub's own paths for what it loads from memory have no end node.
    (!words.is_empty()).then(|| words.join("/"))
}

fn node(kind: u8, subtype: u8, body: &[u8]) -> Option<String> {
    let mut fields = Cursor::new(body);
    Some(match (kind, subtype) {
        (1, 1) => {
            let (function, device) = (fields.u8()?, fields.u8()?);
            format!("Pci({device:#x},{function:#x})")
        }
        (1, 3) => {
            let (_kind, from, to) = (fields.u32()?, fields.u64()?, fields.u64()?);
            format!("MemoryMapped({from:#x},{to:#x})")
        }
        (2, 1) => {
            let (hid, uid) = (fields.u32()?, fields.u32()?);
            if hid == PCI_ROOT { format!("PciRoot({uid:#x})") } else { format!("Acpi({hid:#x},{uid:#x})") }
        }
        (3, 2) => format!("Scsi({},{})", fields.u16()?, fields.u16()?),
        (3, 5) => format!("USB({},{})", fields.u8()?, fields.u8()?),
        (3, 11) => format!("MAC({})", hex::encode(fields.take(6)?)),
        (3, 18) => format!("Sata({},{},{})", fields.u16()?, fields.u16()?, fields.u16()?),
        (3, 23) => format!("NVMe({})", fields.u32()?),
        (4, 1) => hard_drive(&mut fields)?,
        (4, 3) => vendor_media(&mut fields)?,
        (4, 4) => Text::utf16(body)?.to_string(),
        (4, 6) => format!("FvFile({})", Named(fields.guid()?)),
        (4, 7) => format!("Fv({})", Named(fields.guid()?)),
        _ => return None,
    })
}

/// `HARDDRIVE_DEVICE_PATH`: partition number, start, size, signature, format, kind of signature.
fn hard_drive(fields: &mut Cursor<'_>) -> Option<String> {
    let (number, _start, _size) = (fields.u32()?, fields.u64()?, fields.u64()?);
    let signature = Named(fields.guid()?);
    let (format, _kind) = (fields.u8()?, fields.u8()?);
    Some(if format == 2 { format!("HD({number},GPT,{signature})") } else { format!("HD({number})") })
}

/// QEMU's `-kernel` images and the stub's kernels in memory come from vendor media.
fn vendor_media(fields: &mut Cursor<'_>) -> Option<String> {
    let mut words = format!("VenMedia({})", Named(fields.guid()?));
    if let Some(inner) = fields.take(fields.remaining()).and_then(Text::utf16) {
        write!(words, " {inner}").ok()?;
    }
    Some(words)
}

/// EISA id PNP0A03.
const PCI_ROOT: u32 = 0x0a03_41d0;
const MAX_NODES: usize = 64;
