//! A PE file for tests (feature `pe-sample`): what is built of it boots nowhere.
const COFF_HEADER: usize = 24;
const SECTION_HEADER: usize = crate::pe::SECTION_HEADER;

/// A stub like systemd's: one section `.text`, room for `room` more in its header.
pub fn stub(room: usize) -> Vec<u8> {
    const PE: usize = 0x40;
    const OPTIONAL_SIZE: usize = 240;
    let table = PE + COFF_HEADER + OPTIONAL_SIZE;
    let headers = (table + SECTION_HEADER * (1 + room)).next_multiple_of(0x200);
    let mut bytes = vec![0; headers + 0x200];
    let mut put = |offset: usize, value: &[u8]| bytes[offset..offset + value.len()].copy_from_slice(value);
    put(0, b"MZ");
    put(0x3c, &0x40_u32.to_le_bytes());
    put(PE, b"PE\0\0\x64\x86\x01\0");
    put(PE + 20, &240_u16.to_le_bytes());
    let optional = PE + COFF_HEADER;
    put(optional, &0x20b_u16.to_le_bytes());
    put(optional + 8, &0x200_u32.to_le_bytes());
    put(optional + 32, &0x1000_u32.to_le_bytes());
    put(optional + 36, &0x200_u32.to_le_bytes());
    put(optional + 56, &0x2000_u32.to_le_bytes());
    let room_end = u32::try_from(table + SECTION_HEADER * (1 + room)).unwrap_or(u32::MAX);
    put(optional + 60, &room_end.to_le_bytes());
    put(optional + 64, &0x1234_u32.to_le_bytes());
    put(optional + 108, &16_u32.to_le_bytes());
    put(table, b".text\0\0\0");
    for (field, value) in [(8, 0x123), (12, 0x1000), (16, 0x200), (20, u32::try_from(headers).unwrap_or(u32::MAX))] {
        put(table + field, &u32::to_le_bytes(value));
    }
    bytes
}

/// A kernel as far as predictions look at it: it has the texts of the events that it would measure.
pub fn kernel() -> Vec<u8> {
    let mut bytes = stub(0);
    let text = b"Linux initrd\0LOADED_IMAGE::LoadOptions\0";
    let start = bytes.len() - 0x200;
    bytes[start..start + text.len()].copy_from_slice(text);
    bytes
}

/// The same, and it knows the protocol of confidential machines: its GUID, in the halves that compilers make of it.
pub fn confidential_kernel() -> Vec<u8> {
    let mut bytes = kernel();
    let start = bytes.len() - 0x100;
    for (at, half) in crate::predict::CC_PROTOCOL.into_iter().enumerate() {
        bytes[start + at * 0x20..][..8].copy_from_slice(&half);
    }
    bytes
}

/// A unified kernel image of a boot stub that says it is `info` (`systemd-stub 257.13`), with these sections.
pub fn unified(info: &str, sections: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = stub(sections.len() + 1);
    append(&mut bytes, ".sdmagic", format!("#### LoaderInfo: {info} ####\0").as_bytes());
    for (name, content) in sections {
        append(&mut bytes, name, content);
    }
    bytes
}

/// Puts a section behind the others. There must be room for it in the header.
pub fn append(bytes: &mut Vec<u8>, name: &str, content: &[u8]) {
    const PE: usize = 0x40;
    const TABLE: usize = PE + COFF_HEADER + 240;
    const ADDRESSES: u32 = 0x10_0000;
    let count = u16::from_le_bytes([bytes[PE + 6], bytes[PE + 7]]);
    let offset = bytes.len().next_multiple_of(0x200);
    bytes.resize(offset, 0);
    bytes.extend_from_slice(content);
    bytes.resize((offset + content.len()).next_multiple_of(0x200), 0);
    let size = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
    let header = TABLE + SECTION_HEADER * usize::from(count);
    bytes[header..header + name.len()].copy_from_slice(name.as_bytes());
    let fields = [
        size(content.len()),
        ADDRESSES * u32::from(count + 1),
        size(content.len().next_multiple_of(0x200)),
        size(offset),
    ];
    for (index, value) in fields.into_iter().enumerate() {
        let at = header + 8 + 4 * index;
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    bytes[PE + 6..PE + 8].copy_from_slice(&(count + 1).to_le_bytes());
}
