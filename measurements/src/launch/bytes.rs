//! Reads little-endian numbers and GUIDs at a place that may not be there.

/// A GUID in the byte order of UEFI: the first three fields little-endian (UEFI 2.10, appendix A).
pub(super) type Guid = [u8; 16];

/// `text` as written: `00f771de-1a7e-4fcb-890e-68c77e2fb44e` is `guid(0x00f771de, 0x1a7e, 0x4fcb, 0x890e_68c7_7e2f_b44e)`.
pub(super) const fn guid(a: u32, b: u16, c: u16, d: u64) -> Guid {
    let (a, b, c, d) = (a.to_le_bytes(), b.to_le_bytes(), c.to_le_bytes(), d.to_be_bytes());
    [a[0], a[1], a[2], a[3], b[0], b[1], c[0], c[1], d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7]]
}

pub(super) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().copied().map(u32::from_le_bytes)
}
