//! Logs by hand, and logs of real machines.
#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::path::PathBuf;

use latchkey_attestation::PcrValues;
use latchkey_measurements::Bank;

pub fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// The PCRs that the machine's TPM had.
pub fn quoted(name: &str) -> PcrValues {
    serde_json::from_slice(&fixture(&format!("{name}.pcrs.json"))).unwrap()
}

/// Every log there is.
pub fn logs() -> Vec<PathBuf> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let paths = std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().path());
    let logs: Vec<_> = paths.filter(|path| path.extension().is_some_and(|extension| extension == "bin")).collect();
    assert_eq!(logs.len(), 6);
    logs
}

pub const NO_ACTION: u32 = 3;
pub const SEPARATOR: u32 = 4;
pub const IPL: u32 = 0xd;

/// A crypto-agile log in the making.
pub struct Agile {
    pub bytes: Vec<u8>,
    banks: Vec<Bank>,
}

impl Agile {
    pub fn new(banks: &[Bank]) -> Self {
        let mut spec = b"Spec ID Event03\0".to_vec();
        spec.extend([0, 0, 0, 0, 0, 2, 0, 2]);
        spec.extend(u32::try_from(banks.len()).unwrap().to_le_bytes());
        for bank in banks {
            spec.extend(bank.algorithm().0.to_le_bytes());
            spec.extend(u16::try_from(bank.digest_size()).unwrap().to_le_bytes());
        }
        spec.push(0);
        Self { bytes: sha1_event(0, NO_ACTION, &[0; 20], &spec), banks: banks.to_vec() }
    }

    /// An event whose digests are those of its data.
    pub fn event(self, pcr: u32, kind: u32, data: &[u8]) -> Self {
        self.event_of(pcr, kind, data, data)
    }

    /// An event that has a digest of its data for one bank only.
    pub fn event_in(mut self, bank: Bank, pcr: u32, kind: u32, data: &[u8]) -> Self {
        let banks = std::mem::replace(&mut self.banks, vec![bank]);
        let log = self.event(pcr, kind, data);
        Self { banks, ..log }
    }

    /// An event that measured `measured`.
    pub fn event_of(mut self, pcr: u32, kind: u32, measured: &[u8], data: &[u8]) -> Self {
        self.bytes.extend(pcr.to_le_bytes());
        self.bytes.extend(kind.to_le_bytes());
        self.bytes.extend(u32::try_from(self.banks.len()).unwrap().to_le_bytes());
        for bank in &self.banks {
            self.bytes.extend(bank.algorithm().0.to_le_bytes());
            let zero = vec![0; bank.digest_size()];
            self.bytes.extend(if kind == NO_ACTION { zero } else { bank.digest(&[measured]) });
        }
        self.bytes.extend(u32::try_from(data.len()).unwrap().to_le_bytes());
        self.bytes.extend(data);
        self
    }
}

pub fn sha1_event(pcr: u32, kind: u32, digest: &[u8; 20], data: &[u8]) -> Vec<u8> {
    let mut bytes = [pcr.to_le_bytes(), kind.to_le_bytes()].concat();
    bytes.extend(digest);
    bytes.extend(u32::try_from(data.len()).unwrap().to_le_bytes());
    bytes.extend(data);
    bytes
}

pub fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}
