//! Building commands and taking answers apart (part 1, section 18), and the TPM they go to.

use super::session::{Grant, Session};
use super::{MAX_RESPONSE, ResponseCode, ResponseReason, TpmError, Transport};
use crate::wire::{HashAlg, Reader, WireError, Writer};
use std::fmt;
use zeroize::Zeroizing;

const ST_NO_SESSIONS: u16 = 0x8001;
const ST_SESSIONS: u16 = 0x8002;
const HEADER: usize = 10;
/// How often a command is sent when the TPM asks to repeat it. swtpm wants it once; the kernel does it by itself.
const MAX_ATTEMPTS: u32 = 16;

/// A TPM and the objects and sessions opened in it, which are flushed when this is dropped.
pub struct Tpm {
    transport: Box<dyn Transport + Send>,
    loaded: Vec<u32>,
}

/// What a command is made of. Names belong to handles: they enter the HMAC in the handles' place.
pub(super) struct Command<'a> {
    pub(super) name: &'static str,
    pub(super) code: u32,
    pub(super) handles: &'a [(u32, &'a [u8])],
    pub(super) parameters: &'a [u8],
    pub(super) returns_handle: bool,
}

/// How a command is authorised, in the order of its handles; sessions that only guard it follow.
pub(super) enum Auth<'a> {
    /// An empty password.
    Empty,
    /// A policy session, to be authorised by nothing but its policy. Ends with the command.
    Policy(u32),
    /// An HMAC session that authorises with an empty value.
    Hmac(&'a mut Session),
    /// The same, in which the TPM encrypts the first parameter of its answer: for secrets.
    Encrypting(&'a mut Session),
    /// An HMAC session that guards a command without authorising it.
    Audit(&'a mut Session),
}

/// The answer to a command that succeeded.
pub(super) struct Response {
    pub(super) handle: Option<u32>,
    pub(super) parameters: Zeroizing<Vec<u8>>,
}

impl Tpm {
    /// The TPM behind `transport`.
    pub fn new(transport: impl Transport + Send + 'static) -> Self {
        Self { transport: Box::new(transport), loaded: Vec::new() }
    }

    /// Runs a command: authorises it, repeats it as often as the TPM asks (within bounds), and verifies the
    /// answer's HMACs.
    pub(super) fn run(&mut self, command: &Command<'_>, auths: &mut [Auth<'_>]) -> Result<Response, TpmError> {
        let (bytes, grants) = command.build(auths)?;
        // Some answers are secrets.
        let mut answer = Zeroizing::new(Vec::new());
        let mut attempt = 1;
        loop {
            self.transport.transmit(&bytes, &mut answer)?;
            match command.check_header(&answer, !auths.is_empty()) {
                Err(TpmError::Refused { code, .. })
                    if code.reason() == ResponseReason::Repeat && attempt < MAX_ATTEMPTS =>
                {
                    attempt += 1;
                }
                Err(error) => return Err(error),
                Ok(()) => break,
            }
        }
        let response = command.read_response(&answer, auths, &grants)?;
        if let Some(handle) = response.handle {
            self.loaded.push(handle);
        }
        Ok(response)
    }

    /// Ends a session or removes a transient object (`TPM2_FlushContext`).
    pub fn flush(&mut self, handle: u32) -> Result<(), TpmError> {
        self.forget(handle);
        let parameters = handle.to_be_bytes();
        let command = Command {
            name: "TPM2_FlushContext",
            code: 0x165,
            handles: &[],
            parameters: &parameters,
            returns_handle: false,
        };
        self.run(&command, &mut []).map(drop)
    }

    /// Notes that `handle` is gone without a flush: the TPM ended the session itself.
    pub(super) fn forget(&mut self, handle: u32) {
        self.loaded.retain(|loaded| *loaded != handle);
    }
}

impl Drop for Tpm {
    fn drop(&mut self) {
        // Objects before the sessions they may have been made in; a TPM that is gone needs no flush.
        while let Some(handle) = self.loaded.last().copied() {
            if self.flush(handle).is_err() {
                self.forget(handle);
            }
        }
    }
}

impl fmt::Debug for Tpm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tpm").field("loaded", &self.loaded).finish_non_exhaustive()
    }
}

impl Command<'_> {
    pub(super) fn malformed(&self, source: WireError) -> TpmError {
        TpmError::Malformed { command: self.name, source }
    }

    fn build(&self, auths: &mut [Auth<'_>]) -> Result<(Vec<u8>, Vec<Grant>), TpmError> {
        let cp_hash = self.cp_hash();
        let grants = auths.iter_mut().map(|auth| auth.grant(&cp_hash)).collect::<Result<Vec<_>, _>>()?;
        let body = Writer::build(|out| {
            for (handle, _) in self.handles {
                out.u32(*handle);
            }
            if !grants.is_empty() {
                let area = Writer::build(|area| grants.iter().for_each(|grant| grant.write(area)));
                out.u32(u32::try_from(area.len()).unwrap_or(u32::MAX)).bytes(&area);
            }
            out.bytes(self.parameters);
        });
        let size = HEADER + body.len();
        if size > MAX_RESPONSE {
            return Err(TpmError::Argument(WireError::Length { field: "command", max: MAX_RESPONSE, got: size }));
        }
        let bytes = Writer::build(|out| {
            out.u16(if grants.is_empty() { ST_NO_SESSIONS } else { ST_SESSIONS });
            out.u32(u32::try_from(size).unwrap_or(u32::MAX)).u32(self.code).bytes(&body);
        });
        Ok((bytes, grants))
    }

    /// "cpHash ≔ H(commandCode ‖ Name1 ‖ Name2 ‖ Name3 ‖ parameters)": part 1, section 18.7.
    fn cp_hash(&self) -> Vec<u8> {
        let code = self.code.to_be_bytes();
        let mut parts: Vec<&[u8]> = vec![&code];
        parts.extend(self.handles.iter().map(|(_, name)| *name));
        parts.push(self.parameters);
        HashAlg::Sha256.digest(&parts)
    }

    /// "rpHash ≔ H(responseCode ‖ commandCode ‖ parameters)": part 1, section 18.8.
    fn rp_hash(&self, parameters: &[u8]) -> Vec<u8> {
        HashAlg::Sha256.digest(&[&[0; 4], &self.code.to_be_bytes(), parameters])
    }

    fn check_header(&self, answer: &[u8], sessions: bool) -> Result<(), TpmError> {
        let mut reader = Reader::new(answer);
        let header = |reader: &mut Reader<'_>| Ok((reader.u16()?, reader.u32()?, reader.u32()?));
        let (tag, size, code) = header(&mut reader).map_err(|error| self.malformed(error))?;
        if size as usize != answer.len() || answer.len() > MAX_RESPONSE {
            let source = WireError::Length { field: "response", max: answer.len(), got: size as usize };
            return Err(self.malformed(source));
        }
        if code != 0 {
            return Err(TpmError::Refused { command: self.name, code: ResponseCode(code) });
        }
        let expected = if sessions { ST_SESSIONS } else { ST_NO_SESSIONS };
        if tag == expected {
            Ok(())
        } else {
            Err(self.malformed(WireError::Unsupported { field: "tag", got: tag.into() }))
        }
    }

    fn read_response(&self, answer: &[u8], auths: &mut [Auth<'_>], grants: &[Grant]) -> Result<Response, TpmError> {
        let mut reader = Reader::new(answer.get(HEADER..).unwrap_or_default());
        let failed = |error| self.malformed(error);
        let handle = if self.returns_handle { Some(reader.u32().map_err(failed)?) } else { None };
        if auths.is_empty() {
            return Ok(Response { handle, parameters: Zeroizing::new(reader.rest().to_vec()) });
        }
        let size = reader.u32().map_err(failed)?;
        let mut parameters = Zeroizing::new(reader.bytes(size as usize).map_err(failed)?.to_vec());
        let rp_hash = self.rp_hash(&parameters);
        for (auth, grant) in auths.iter_mut().zip(grants) {
            let nonce = reader.sized("session nonce", HashAlg::MAX_SIZE).map_err(failed)?;
            let attributes = reader.u8().map_err(failed)?;
            let hmac = reader.sized("session HMAC", HashAlg::MAX_SIZE).map_err(failed)?;
            if !auth.accepts(&rp_hash, grant, nonce, attributes, hmac) {
                return Err(TpmError::Tampered { command: self.name });
            }
        }
        reader.finish().map_err(failed)?;
        // What the HMACs are about is the parameters as they were on the bus.
        for (auth, grant) in auths.iter().zip(grants) {
            auth.decrypt(grant, &mut parameters).map_err(failed)?;
        }
        Ok(Response { handle, parameters })
    }
}
