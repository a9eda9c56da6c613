//! What a TPM is and can (`TPM2_GetCapability`), and its random numbers.

use super::command::Command;
use super::{Tpm, TpmError};
use crate::wire::{HashAlg, Reader, WireError, Writer};
use zeroize::Zeroizing;

const CAP_ALGS: u32 = 0;
const CAP_HANDLES: u32 = 1;
const CAP_PCRS: u32 = 5;
const CAP_TPM_PROPERTIES: u32 = 6;
const PT_MANUFACTURER: u32 = 0x105;
/// More than any TPM has of handles of one kind, and few enough for one answer.
const MAX_HANDLES: u32 = 254;

impl Tpm {
    /// The handles in use from `first` on, of the kind `first` tells by its top byte; at most 254.
    pub fn handles(&mut self, first: u32) -> Result<Vec<u32>, TpmError> {
        self.capability(CAP_HANDLES, first, MAX_HANDLES, |reader| {
            let count = bounded(reader.u32()?, MAX_HANDLES)?;
            (0..count).map(|_| reader.u32()).collect()
        })
    }

    /// The algorithms implemented, as `TPM_ALG_ID`.
    pub fn algorithms(&mut self) -> Result<Vec<u16>, TpmError> {
        self.capability(CAP_ALGS, 0, 127, |reader| {
            let count = bounded(reader.u32()?, 127)?;
            (0..count)
                .map(|_| {
                    let id = reader.u16()?;
                    reader.u32()?;
                    Ok(id)
                })
                .collect()
        })
    }

    /// The banks with at least one register, as `TPM_ALG_ID` and bitmap (bit *n* is PCR *n*).
    pub fn pcr_banks(&mut self) -> Result<Vec<(u16, u32)>, TpmError> {
        self.capability(CAP_PCRS, 0, 16, |reader| {
            let count = bounded(reader.u32()?, 16)?;
            let mut banks = Vec::new();
            for _ in 0..count {
                let hash = reader.u16()?;
                let size = reader.u8()?;
                if size > 4 {
                    return Err(WireError::Length { field: "PCR bitmap", max: 4, got: size.into() });
                }
                let bitmap = reader.bytes(size.into())?.iter().rev().fold(0, |bits, byte| bits << 8 | u32::from(*byte));
                if bitmap != 0 {
                    banks.push((hash, bitmap));
                }
            }
            Ok(banks)
        })
    }

    /// That the SHA-256 bank has registers 0 to 23. Without it there is nothing to quote.
    ///
    /// # Errors
    /// [`TpmError::NoSha256Bank`], and those of the command.
    pub fn demand_sha256_bank(&mut self) -> Result<(), TpmError> {
        let banks = self.pcr_banks()?;
        if banks.iter().any(|(hash, bitmap)| *hash == HashAlg::Sha256.id() && bitmap & 0x00ff_ffff == 0x00ff_ffff) {
            return Ok(());
        }
        Err(TpmError::NoSha256Bank { banks: banks.into_iter().map(|(hash, _)| hash).collect() })
    }

    /// The manufacturer's four letters, for example `IBM\0` (swtpm) or `IFX\0` (Infineon).
    pub fn manufacturer(&mut self) -> Result<[u8; 4], TpmError> {
        self.capability(CAP_TPM_PROPERTIES, PT_MANUFACTURER, 1, |reader| {
            if reader.u32()? != 1 || reader.u32()? != PT_MANUFACTURER {
                return Err(WireError::Unsupported { field: "manufacturer property", got: 0 });
            }
            reader.array()
        })
    }

    /// `len` random bytes, at most 32.
    pub fn random(&mut self, len: u8) -> Result<Zeroizing<Vec<u8>>, TpmError> {
        if len > 32 {
            return Err(TpmError::Argument(WireError::Length { field: "random bytes", max: 32, got: len.into() }));
        }
        let parameters = u16::from(len).to_be_bytes();
        let command = Command {
            name: "TPM2_GetRandom",
            code: 0x17b,
            handles: &[],
            parameters: &parameters,
            returns_handle: false,
        };
        let response = self.run(&command, &mut [])?;
        let bytes = Reader::all(&response.parameters, |reader| reader.sized("random bytes", len.into()))
            .map_err(|error| command.malformed(error))?;
        if bytes.len() != usize::from(len) {
            return Err(TpmError::Unexpected { command: command.name, what: "fewer bytes than asked for" });
        }
        Ok(Zeroizing::new(bytes.to_vec()))
    }

    fn capability<T>(
        &mut self,
        capability: u32,
        property: u32,
        count: u32,
        read: impl FnOnce(&mut Reader<'_>) -> Result<T, WireError>,
    ) -> Result<T, TpmError> {
        let parameters = Writer::build(|out| {
            out.u32(capability).u32(property).u32(count);
        });
        let command = Command {
            name: "TPM2_GetCapability",
            code: 0x17a,
            handles: &[],
            parameters: &parameters,
            returns_handle: false,
        };
        let response = self.run(&command, &mut [])?;
        Reader::all(&response.parameters, |reader| {
            reader.u8()?; // moreData: the bounds asked for are above what TPMs have
            match reader.u32()? {
                got if got == capability => read(reader),
                got => Err(WireError::Unsupported { field: "capability", got }),
            }
        })
        .map_err(|error| command.malformed(error))
    }
}

fn bounded(count: u32, max: u32) -> Result<u32, WireError> {
    if count <= max {
        Ok(count)
    } else {
        Err(WireError::Length { field: "capability list", max: max as usize, got: count as usize })
    }
}
