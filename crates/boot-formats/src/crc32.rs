//! The checksum of partition tables.

/// CRC-32 as UEFI 2.10, section 4.2.1, has it: "the polynomial 0x04c11db7" of IEEE 802.3, reflected, with seed and final
/// complement of all ones.
///
/// Four bits at a time: a table has 16 KiB and is read once or twice, and the agent is small.
pub fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, bits: u32| {
        let [index, ..] = ((crc ^ bits) & 0xf).to_le_bytes();
        crc >> 4 ^ TABLE.get(usize::from(index)).copied().unwrap_or_default()
    };
    !bytes.iter().fold(u32::MAX, |crc, byte| step(step(crc, u32::from(*byte)), u32::from(byte >> 4)))
}

/// What four bits become.
const TABLE: [u32; 16] = {
    let mut table = [0; 16];
    let mut index: u8 = 0;
    while index < 16 {
        let mut crc = u32::from_le_bytes([index, 0, 0, 0]);
        let mut bit = 0;
        while bit < 4 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
            bit += 1;
        }
        table[index as usize] = crc;
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksums_are_those_of_the_catalogue() {
        // The "check" value of CRC-32/ISO-HDLC, and zlib's `crc32` of the others.
        for (bytes, expected) in
            [(&b"123456789"[..], 0xcbf4_3926), (b"", 0), (b"a", 0xe8b7_be43), (&[0; 32], 0x190a_55ad)]
        {
            assert_eq!(crc32(bytes), expected, "{bytes:?}");
        }
    }
}
