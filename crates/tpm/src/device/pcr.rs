//! Registers: reading, extending, quoting, each in an HMAC session.

use super::command::{Auth, Command};
use super::{Key, Session, Tpm, TpmError};
use crate::wire::{
    Attest, HashAlg, PCR_COUNT, PcrSelection, PcrValues, Reader, Signature, WireError, Writer, extended, pcr_digest,
};
use std::collections::BTreeMap;

/// Longest event a TPM hashes (part 2, section 10.4.6: `TPM2B_EVENT`), in bytes.
const MAX_EVENT: usize = 1024;
const ALG_NULL: u16 = 0x0010;
/// Answers to `TPM2_PCR_Read` hold at most eight digests (part 2, section 10.9.6).
pub(super) const MAX_DIGESTS: u32 = 8;
const MAX_BANKS: u32 = 16;
/// How often PCRs are read again when something extended them in between.
const MAX_READS: u32 = 3;

/// Registers by number, read in as many parts as the TPM makes of them, all between two changes: `part` reads at least one of
/// those that are left, a bitmap, and says the update counter.
pub(super) fn at_one_moment<V>(
    bitmap: u32,
    mut part: impl FnMut(u32) -> Result<(u32, BTreeMap<u8, V>), TpmError>,
) -> Result<BTreeMap<u8, V>, TpmError> {
    'again: for _ in 0..MAX_READS {
        let (mut values, mut counter, mut left) = (BTreeMap::new(), None, bitmap);
        while left != 0 {
            let (now, some) = part(left)?;
            if *counter.get_or_insert(now) != now {
                continue 'again;
            }
            for (pcr, value) in some {
                left &= !(1 << pcr);
                values.insert(pcr, value);
            }
        }
        return Ok(values);
    }
    Err(TpmError::PcrRaced)
}

impl Tpm {
    /// The values of the registers in `selection`, all of one moment. Authenticated. The TPM's update counter, which
    /// tells, does not move with the registers anybody may reset (16 and 23): those may be of another moment.
    pub fn pcr_read(&mut self, selection: PcrSelection, session: &mut Session) -> Result<PcrValues, TpmError> {
        at_one_moment(selection.bits(), |left| {
            let left = PcrSelection::from_bits(left).map_err(TpmError::Argument)?;
            self.pcr_read_part(left, session)
        })
    }

    /// At least one of the registers asked for, and the update counter.
    fn pcr_read_part(&mut self, selection: PcrSelection, session: &mut Session) -> Result<(u32, PcrValues), TpmError> {
        let parameters = selection.marshal();
        let command = Command {
            name: "TPM2_PCR_Read",
            code: 0x17e,
            handles: &[],
            parameters: &parameters,
            returns_handle: false,
        };
        let response = self.run(&command, &mut [Auth::Audit(session)])?;
        let (counter, returned, digests) = Reader::all(&response.parameters, |reader| {
            let counter = reader.u32()?;
            let returned = PcrSelection::read(reader)?;
            let count = reader.u32()?;
            if count > MAX_DIGESTS || count != returned.count() {
                return Err(WireError::Selection("values and selection of an answer differ"));
            }
            let digests = (0..count).map(|_| read_digest(reader)).collect::<Result<Vec<_>, _>>()?;
            Ok((counter, returned, digests))
        })
        .map_err(|error| command.malformed(error))?;
        if returned.bits() & !selection.bits() != 0 {
            return Err(TpmError::Unexpected { command: command.name, what: "registers not asked for" });
        }
        Ok((counter, returned.iter().zip(digests).collect()))
    }

    /// Extends the hash of `data` (at most 1024 bytes) into `pcr`, in every bank (`TPM2_PCR_Event`). Authenticated.
    pub fn pcr_event(&mut self, pcr: u8, data: &[u8], session: &mut Session) -> Result<(), TpmError> {
        if data.len() > MAX_EVENT {
            return Err(TpmError::Argument(WireError::Length { field: "event", max: MAX_EVENT, got: data.len() }));
        }
        let handle = register(pcr)?;
        let parameters = Writer::build(|out| {
            out.sized(data);
        });
        let command = Command {
            name: "TPM2_PCR_Event",
            code: 0x13c,
            handles: &[(handle, &handle.to_be_bytes())],
            parameters: &parameters,
            returns_handle: false,
        };
        let response = self.run(&command, &mut [Auth::Hmac(session)])?;
        let digest =
            Reader::all(&response.parameters, read_sha256_of_all_banks).map_err(|error| command.malformed(error))?;
        if digest.as_deref() == Some(HashAlg::Sha256.digest(&[data]).as_slice()) {
            Ok(())
        } else {
            Err(TpmError::Unexpected { command: command.name, what: "the digest of another event" })
        }
    }

    /// Extends `digest` into `pcr` of the SHA-256 bank (`TPM2_PCR_Extend`). Authenticated.
    pub fn pcr_extend(&mut self, pcr: u8, digest: &[u8; 32], session: &mut Session) -> Result<(), TpmError> {
        let handle = register(pcr)?;
        let parameters = Writer::build(|out| {
            out.u32(1).u16(HashAlg::Sha256.id()).bytes(digest);
        });
        let command = Command {
            name: "TPM2_PCR_Extend",
            code: 0x182,
            handles: &[(handle, &handle.to_be_bytes())],
            parameters: &parameters,
            returns_handle: false,
        };
        self.run(&command, &mut [Auth::Hmac(session)]).map(drop)
    }

    /// As [`Self::pcr_event`], and reads the register before and after: what is there in the end is the old value
    /// with this event and nothing else.
    pub fn pcr_event_checked(&mut self, pcr: u8, data: &[u8], session: &mut Session) -> Result<(), TpmError> {
        let before = self.pcr_value(pcr, session)?;
        self.pcr_event(pcr, data, session)?;
        if self.pcr_value(pcr, session)? == extended(&before, data) { Ok(()) } else { Err(TpmError::PcrRaced) }
    }

    /// The value of one register. Authenticated.
    pub fn pcr_value(&mut self, pcr: u8, session: &mut Session) -> Result<[u8; 32], TpmError> {
        let selection = PcrSelection::new([pcr]).map_err(TpmError::Argument)?;
        let values = self.pcr_read(selection, session)?;
        values.get(&pcr).copied().ok_or(TpmError::PcrRaced)
    }

    /// Signs the registers in `selection` and `qualifying` with `ak`: the `TPMS_ATTEST` and `TPMT_SIGNATURE` as the
    /// TPM wrote them. Authenticated.
    pub fn quote(
        &mut self,
        ak: &Key,
        selection: PcrSelection,
        qualifying: &[u8; 32],
        session: &mut Session,
    ) -> Result<(Vec<u8>, Vec<u8>), TpmError> {
        let parameters = Writer::build(|out| {
            // TPM_ALG_NULL: the scheme the key is bound to.
            out.sized(qualifying).u16(ALG_NULL).bytes(&selection.marshal());
        });
        let command = Command {
            name: "TPM2_Quote",
            code: 0x158,
            handles: &[(ak.handle, &ak.name)],
            parameters: &parameters,
            returns_handle: false,
        };
        let response = self.run(&command, &mut [Auth::Hmac(session)])?;
        let (attest, signature) = Reader::all(&response.parameters, |reader| {
            let attest = reader.sized("attestation", Attest::MAX_SIZE)?.to_vec();
            let signature = reader.rest().to_vec();
            Signature::parse(&signature)?;
            Ok((attest, signature))
        })
        .map_err(|error| command.malformed(error))?;
        let parsed = Attest::parse(&attest).map_err(|error| command.malformed(error))?;
        if parsed.extra_data != qualifying || parsed.selection != selection {
            return Err(TpmError::Unexpected { command: command.name, what: "a quote of something else" });
        }
        Ok((attest, signature))
    }

    /// As [`Self::quote`], with the values quoted. The TPM signs once; values are read again a few times if something
    /// extended a register in between.
    pub fn quote_with_values(
        &mut self,
        ak: &Key,
        selection: PcrSelection,
        qualifying: &[u8; 32],
        session: &mut Session,
    ) -> Result<(Vec<u8>, Vec<u8>, PcrValues), TpmError> {
        // Before and after: an extension on one side of the quote leaves the reading on the other side good.
        let before = self.pcr_read(selection, session)?;
        let (attest, signature) = self.quote(ak, selection, qualifying, session)?;
        let malformed = |source| TpmError::Malformed { command: "TPM2_Quote", source };
        let quoted = Attest::parse(&attest).map_err(malformed)?.pcr_digest;
        let hash = Signature::parse(&signature).map_err(malformed)?.hash();
        if pcr_digest(hash, selection, &before).map_err(malformed)? == quoted {
            return Ok((attest, signature, before));
        }
        let after = self.pcr_read(selection, session)?;
        if pcr_digest(hash, selection, &after).map_err(malformed)? == quoted {
            return Ok((attest, signature, after));
        }
        Err(TpmError::PcrRaced)
    }
}

/// The handle of a register is its number.
fn register(pcr: u8) -> Result<u32, TpmError> {
    if pcr < PCR_COUNT { Ok(pcr.into()) } else { Err(TpmError::Argument(WireError::Selection("no such register"))) }
}

fn read_digest(reader: &mut Reader<'_>) -> Result<[u8; 32], WireError> {
    let digest = reader.sized("PCR value", HashAlg::Sha256.size())?;
    digest.try_into().map_err(|_| WireError::Length { field: "PCR value", max: 32, got: digest.len() })
}

/// `TPML_DIGEST_VALUES`: one digest for each bank, of which the SHA-256 one is returned.
fn read_sha256_of_all_banks(reader: &mut Reader<'_>) -> Result<Option<Vec<u8>>, WireError> {
    let count = reader.u32()?;
    if count > MAX_BANKS {
        return Err(WireError::Length { field: "digest list", max: MAX_BANKS as usize, got: count as usize });
    }
    let mut sha256 = None;
    for _ in 0..count {
        let id = reader.u16()?;
        let size = match id {
            0x0004 => 20,                         // SHA-1
            0x000b | 0x0012 | 0x0027 => 32,       // SHA-256, SM3-256, SHA3-256
            0x000c | 0x0028 => 48,                // SHA-384, SHA3-384
            0x000d | 0x0029 => HashAlg::MAX_SIZE, // SHA-512, SHA3-512
            got => return Err(WireError::Unsupported { field: "bank", got: got.into() }),
        };
        let digest = reader.bytes(size)?;
        if id == HashAlg::Sha256.id() {
            sha256 = Some(digest.to_vec());
        }
    }
    Ok(sha256)
}
