//! Platform configuration registers: which are meant, and what a quote says of them.

use super::{HashAlg, Reader, WireError, Writer};
use std::collections::BTreeMap;

/// Registers of a PC client TPM (*PC Client Platform TPM Profile*, section 4.6: "at least 24").
pub const PCR_COUNT: u8 = 24;

/// Values of the SHA-256 bank by register number.
pub type PcrValues = BTreeMap<u8, [u8; 32]>;

/// A non-empty set of PCRs of the SHA-256 bank, in the one encoding that is accepted: one bank, three bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PcrSelection(u32);

impl PcrSelection {
    /// The selection of these registers. Numbers above 23, duplicates and an empty list are refused.
    pub fn new(pcrs: impl IntoIterator<Item = u8>) -> Result<Self, WireError> {
        let mut bits = 0u32;
        for pcr in pcrs {
            if pcr >= PCR_COUNT {
                return Err(WireError::Selection("no such register"));
            }
            if bits & (1 << pcr) != 0 {
                return Err(WireError::Selection("duplicate register"));
            }
            bits |= 1 << pcr;
        }
        Self::from_bits(bits)
    }

    /// Parses a whole `TPML_PCR_SELECTION`.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        Reader::all(bytes, Self::read)
    }

    /// As `TPML_PCR_SELECTION`.
    pub fn marshal(self) -> Vec<u8> {
        let [low, middle, high, _] = self.0.to_le_bytes();
        Writer::build(|out| {
            out.u32(1).u16(HashAlg::Sha256.id()).u8(3).bytes(&[low, middle, high]);
        })
    }

    /// Bit *n* is PCR *n*.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether `pcr` is selected.
    pub fn contains(self, pcr: u8) -> bool {
        pcr < PCR_COUNT && self.0 & (1 << pcr) != 0
    }

    /// The registers, ascending: the order in which a quote digests them.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..PCR_COUNT).filter(move |pcr| self.contains(*pcr))
    }

    /// How many are selected.
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// The registers that `bits` names, if there is one.
    pub fn from_bits(bits: u32) -> Result<Self, WireError> {
        match bits {
            0 => Err(WireError::Selection("empty")),
            bits if bits >> PCR_COUNT != 0 => Err(WireError::Selection("no such register")),
            bits => Ok(Self(bits)),
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        if reader.u32()? != 1 {
            return Err(WireError::Selection("not exactly one bank"));
        }
        if reader.u16()? != HashAlg::Sha256.id() {
            return Err(WireError::Selection("bank is not SHA-256"));
        }
        if reader.u8()? != 3 {
            return Err(WireError::Selection("bitmap is not three bytes long"));
        }
        let [low, middle, high] = reader.array()?;
        Self::from_bits(u32::from_le_bytes([low, middle, high, 0]))
    }
}

/// The digest a quote holds of `values`: their concatenation in ascending order, hashed with the hash of the
/// signing scheme (part 3, section 18.4). The values must be of exactly the registers selected.
pub fn pcr_digest(hash: HashAlg, selection: PcrSelection, values: &PcrValues) -> Result<Vec<u8>, WireError> {
    let given = values.keys().try_fold(0u32, |bits, pcr| Some(bits | 1u32.checked_shl((*pcr).into())?));
    if given != Some(selection.bits()) {
        return Err(WireError::PcrMismatch { selected: selection.bits(), given: given.unwrap_or(u32::MAX) });
    }
    let parts: Vec<&[u8]> = values.values().map(<[u8; 32]>::as_slice).collect();
    Ok(hash.digest(&parts))
}

/// The value of a SHA-256 register that held `old` after an event with `data` was extended into it:
/// `SHA256(old ‖ SHA256(data))`, what `TPM2_PCR_Event` does.
pub fn extended(old: &[u8; 32], data: &[u8]) -> [u8; 32] {
    let event = ring::digest::digest(&ring::digest::SHA256, data);
    let mut out = [0; 32];
    out.copy_from_slice(&HashAlg::Sha256.digest(&[old, event.as_ref()]));
    out
}
