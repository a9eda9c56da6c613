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
