//! A firmware that boots nothing and has everything that a launch measures: the tables of edk2's `AmdSev` build.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub, reason = "each test uses its part, and fails by panicking")]

pub const MEMORY: u32 = 1;
pub const SECRETS: u32 = 2;
pub const CPUID: u32 = 3;
pub const SVSM: u32 = 4;
pub const HASHES: u32 = 0x10;

/// Where [`Sample::amd_sev`] wants the kernel's hashes: within the page of its section.
pub const HASH_TABLE: (u32, u32) = (0x80_fc00, 0x400);

/// A firmware in the making.
#[derive(Clone)]
pub struct Sample {
    pub pages: usize,
    /// Address, size, kind.
    pub sections: Vec<(u32, u32, u32)>,
    pub hash_table: Option<(u32, u32)>,
    pub reset: Option<u32>,
    pub version: u32,
    pub metadata: bool,
}

impl Sample {
    /// Sections as in edk2's `AmdSev` build, one of each kind.
    pub fn amd_sev() -> Self {
        let sections = vec![
            (0x80_0000, 0x9000, MEMORY),
            (0x80_a000, 0x3000, MEMORY),
            (0x80_d000, 0x1000, SECRETS),
            (0x80_e000, 0x1000, CPUID),
            (0x80_f000, 0x1000, HASHES),
            (0x81_0000, 0x1000, SVSM),
            (0x81_1000, 0xf000, MEMORY),
        ];
        let (hash_table, reset) = (Some(HASH_TABLE), Some(0x80_b004));
        Self { pages: 4, sections, hash_table, reset, version: 1, metadata: true }
    }

    /// Without a page for the kernel's hashes, as Debian builds it.
    pub fn plain() -> Self {
        let mut sample = Self::amd_sev();
        sample.sections.retain(|(_, _, kind)| *kind != HASHES);
        sample.hash_table = Some((0, 0));
        sample
    }

    /// Pages of different content, the metadata, the table of GUIDs, a reset vector of 32 bytes.
    pub fn build(&self) -> Vec<u8> {
        let length = self.pages * 4096;
        let mut file: Vec<u8> = (0..length).map(|at| u8::try_from(at / 4096 * 7 % 251).unwrap()).collect();
        let metadata = self.metadata_bytes();
        let from_end = 0x400;
        file[length - from_end..][..metadata.len()].copy_from_slice(&metadata);
        let table = self.table(u32::try_from(from_end).unwrap());
        let end = length - 32;
        file[end - table.len()..end].copy_from_slice(&table);
        file[end..].copy_from_slice(&[0x90; 32]);
        file
    }

    fn metadata_bytes(&self) -> Vec<u8> {
        let count = u32::try_from(self.sections.len()).unwrap();
        let mut bytes = b"ASEV".to_vec();
        for field in [16 + 12 * count, self.version, count] {
            bytes.extend(field.to_le_bytes());
        }
        for (address, size, kind) in &self.sections {
            for field in [address, size, kind] {
                bytes.extend(field.to_le_bytes());
            }
        }
        bytes
    }

    fn table(&self, metadata: u32) -> Vec<u8> {
        let mut table = Vec::new();
        if self.metadata {
            table.extend(entry("dc886566-984a-4798-a75e-5585a7bf67cc", &metadata.to_le_bytes()));
        }
        if let Some((base, size)) = self.hash_table {
            let data = [base.to_le_bytes(), size.to_le_bytes()].concat();
            table.extend(entry("7255371f-3a3b-4b04-927b-1da6efa8d454", &data));
        }
        if let Some(reset) = self.reset {
            table.extend(entry("00f771de-1a7e-4fcb-890e-68c77e2fb44e", &reset.to_le_bytes()));
        }
        let length = table.len();
        table.extend(entry("96b582de-1fb2-45f7-baea-a366c55a082d", &[]));
        table[length..length + 2].copy_from_slice(&u16::try_from(length + 18).unwrap().to_le_bytes());
        table
    }
}

/// Data, length of everything, GUID.
pub fn entry(guid: &str, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len() + 18).unwrap();
    [data, &length.to_le_bytes(), &guid_bytes(guid)].concat()
}

fn guid_bytes(text: &str) -> Vec<u8> {
    let bytes = hex::decode(text.replace('-', "")).unwrap();
    let order = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    order.iter().map(|&at| bytes[at]).collect()
}
