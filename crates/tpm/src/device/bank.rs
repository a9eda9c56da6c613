//! Registers of any bank, for whoever shows and compares them.

use std::collections::BTreeMap;

use super::command::Command;
use super::pcr::{MAX_DIGESTS, at_one_moment};
use super::{Tpm, TpmError};
use crate::wire::{PCR_COUNT, Reader, WireError, Writer};

/// SHA-512.
const MAX_DIGEST: usize = 64;
/// Bytes of the largest bitmap (part 2, section 10.6.1: `PCR_SELECT_MAX` of PC clients is 3; some TPMs answer with 4).
const MAX_BITMAP: u8 = 4;

/// Digests by register number.
type Registers = BTreeMap<u8, Vec<u8>>;

impl Tpm {
    /// Registers 0 to 23 of the bank with this `TPM_ALG_ID`, as far as the TPM has them, all of one moment but for those that
    /// anybody may reset (16 and 23); digests by register number (`TPM2_PCR_Read`, part 3, section 22.4).
    ///
    /// Without a session: whoever sits on the bus can change the answer. Nothing may be decided by it.
    ///
    /// # Errors
    /// The TPM's refusal, a malformed answer, or [`TpmError::PcrRaced`].
    pub fn read_bank(&mut self, algorithm: u16) -> Result<BTreeMap<u8, Vec<u8>>, TpmError> {
        let banks = self.pcr_banks()?;
        let bitmap = banks.iter().find(|(bank, _)| *bank == algorithm).map_or(0, |(_, bitmap)| *bitmap);
        at_one_moment(bitmap & ((1 << PCR_COUNT) - 1), |left| self.read_bank_part(algorithm, left))
    }

    /// At least one of the registers asked for, and the update counter.
    fn read_bank_part(&mut self, algorithm: u16, wanted: u32) -> Result<(u32, Registers), TpmError> {
        let [low, middle, high, _] = wanted.to_le_bytes();
        let parameters = Writer::build(|out| {
            out.u32(1).u16(algorithm).u8(3).bytes(&[low, middle, high]);
        });
        let command = Command {
            name: "TPM2_PCR_Read",
            code: 0x17e,
            handles: &[],
            parameters: &parameters,
            returns_handle: false,
        };
        let response = self.run(&command, &mut [])?;
        let (counter, returned, digests) = Reader::all(&response.parameters, |reader| answer(reader, algorithm))
            .map_err(|error| command.malformed(error))?;
        if returned == 0 || returned & !wanted != 0 {
            return Err(TpmError::Unexpected { command: command.name, what: "other registers than those asked for" });
        }
        let registers = (0..PCR_COUNT).filter(|pcr| returned & (1 << pcr) != 0);
        Ok((counter, registers.zip(digests).collect()))
    }
}

/// The update counter, the registers as a bitmap, and their digests: as many as registers, all of one length.
fn answer(reader: &mut Reader<'_>, algorithm: u16) -> Result<(u32, u32, Vec<Vec<u8>>), WireError> {
    let counter = reader.u32()?;
    if reader.u32()? != 1 || reader.u16()? != algorithm {
        return Err(WireError::Selection("not the bank that was asked for"));
    }
    let size = reader.u8()?;
    if size > MAX_BITMAP {
        return Err(WireError::Length { field: "PCR bitmap", max: MAX_BITMAP.into(), got: size.into() });
    }
    let bitmap = reader.bytes(size.into())?.iter().rev().fold(0, |bits, byte| bits << 8 | u32::from(*byte));
    let count = reader.u32()?;
    if count > MAX_DIGESTS || count != bitmap.count_ones() {
        return Err(WireError::Selection("values and selection of an answer differ"));
    }
    let digests =
        (0..count).map(|_| reader.sized("PCR value", MAX_DIGEST).map(<[u8]>::to_vec)).collect::<Result<Vec<_>, _>>()?;
    if digests.windows(2).any(|pair| matches!(pair, [a, b] if a.len() != b.len())) {
        return Err(WireError::Selection("values of one bank have different lengths"));
    }
    Ok((counter, bitmap, digests))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(bank: u16, bitmap: [u8; 3], lengths: &[usize]) -> Vec<u8> {
        Writer::build(|out| {
            out.u32(7).u32(1).u16(bank).u8(3).bytes(&bitmap).u32(u32::try_from(lengths.len()).unwrap());
            for length in lengths {
                out.sized(&vec![1; *length]);
            }
        })
    }

    #[test]
    fn an_answer_about_other_banks_or_registers_is_malformed() {
        let read = |bytes: &[u8]| Reader::all(bytes, |reader| answer(reader, 0x000c));
        let good = read(&encoded(0x000c, [3, 0, 0], &[48, 48])).unwrap();
        assert_eq!(good, (7, 3, vec![vec![1; 48]; 2]));
        for bytes in [
            encoded(0x000b, [3, 0, 0], &[48, 48]),
            encoded(0x000c, [7, 0, 0], &[48, 48]),
            encoded(0x000c, [3, 0, 0], &[48, 32]),
            encoded(0x000c, [1, 0, 0], &[65]),
            encoded(0x000c, [0xff, 1, 0], &[48; 9]),
        ] {
            read(&bytes).unwrap_err();
        }
    }
}
