//! Reading NV indices, where manufacturers keep endorsement-key certificates.

use super::command::{Auth, Command};
use super::{Hierarchy, ResponseReason, Tpm, TpmError};
use crate::wire::{HashAlg, Reader, Writer};

/// Longest index read, in bytes: certificates and their chains are shorter.
const MAX_NV: usize = 8192;
/// Bytes per `TPM2_NV_Read`: every TPM has a buffer of this size.
const CHUNK: usize = 512;

/// `TPMA_NV` (part 2, section 13.4).
const OWNER_READ: u32 = 1 << 17;
const AUTH_READ: u32 = 1 << 18;
const WRITTEN: u32 = 1 << 29;

impl Tpm {
    /// The content of the NV index `index`, at most 8 KiB, read with an empty password; `None` if the index does not
    /// exist, was never written, or may not be read this way.
    ///
    /// Where the owner may read it, it is read as the owner, and as the index only if the owner has a password: an index may have
    /// one of its own, as Azure's has, and a wrong one counts toward the TPM's lockout, which that of the owner does not (part 1,
    /// section 19.8).
    pub fn nv_read(&mut self, index: u32) -> Result<Option<Vec<u8>>, TpmError> {
        let Some((attributes, size)) = self.nv_read_public(index)? else { return Ok(None) };
        if attributes & WRITTEN == 0 || size > MAX_NV {
            return Ok(None);
        }
        let may_itself = attributes & AUTH_READ != 0;
        if attributes & OWNER_READ != 0 {
            match self.nv_read_as(Hierarchy::Owner.handle(), index, size) {
                Err(TpmError::Refused { code, .. }) if may_itself && code.reason() == ResponseReason::AuthFail => {}
                other => return other.map(Some),
            }
        }
        if may_itself { self.nv_read_as(index, index, size).map(Some) } else { Ok(None) }
    }

    fn nv_read_as(&mut self, authority: u32, index: u32, size: usize) -> Result<Vec<u8>, TpmError> {
        let mut content = Vec::with_capacity(size);
        while content.len() < size {
            let chunk = self.nv_read_chunk(authority, index, content.len(), CHUNK.min(size - content.len()))?;
            content.extend_from_slice(&chunk);
        }
        Ok(content)
    }

    fn nv_read_public(&mut self, index: u32) -> Result<Option<(u32, usize)>, TpmError> {
        let command = Command {
            name: "TPM2_NV_ReadPublic",
            code: 0x169,
            handles: &[(index, &[])],
            parameters: &[],
            returns_handle: false,
        };
        let response = match self.run(&command, &mut []) {
            Err(TpmError::Refused { code, .. }) if code.reason() == ResponseReason::Handle => return Ok(None),
            other => other?,
        };
        let (found, attributes, size) = Reader::all(&response.parameters, |reader| {
            let public = Reader::all(reader.sized("NV public area", 14 + HashAlg::MAX_SIZE)?, |public| {
                let index = public.u32()?;
                public.u16()?; // name algorithm
                let attributes = public.u32()?;
                public.sized("NV policy", HashAlg::MAX_SIZE)?;
                Ok((index, attributes, usize::from(public.u16()?)))
            })?;
            reader.sized("NV name", 2 + HashAlg::MAX_SIZE)?;
            Ok(public)
        })
        .map_err(|error| command.malformed(error))?;
        if found == index {
            Ok(Some((attributes, size)))
        } else {
            Err(TpmError::Unexpected { command: command.name, what: "another index" })
        }
    }

    fn nv_read_chunk(&mut self, authority: u32, index: u32, offset: usize, len: usize) -> Result<Vec<u8>, TpmError> {
        let parameters = Writer::build(|out| {
            // Both are below MAX_NV.
            out.u16(u16::try_from(len).unwrap_or(u16::MAX)).u16(u16::try_from(offset).unwrap_or(u16::MAX));
        });
        let command = Command {
            name: "TPM2_NV_Read",
            code: 0x14e,
            handles: &[(authority, &[]), (index, &[])],
            parameters: &parameters,
            returns_handle: false,
        };
        let response = self.run(&command, &mut [Auth::Empty])?;
        let chunk = Reader::all(&response.parameters, |reader| reader.sized("NV data", len))
            .map_err(|error| command.malformed(error))?;
        if chunk.len() == len {
            Ok(chunk.to_vec())
        } else {
            Err(TpmError::Unexpected { command: command.name, what: "fewer bytes than asked for" })
        }
    }
}
