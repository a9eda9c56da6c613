//! What a response code means (part 2, section 6.6).

use std::fmt;

/// A `TPM_RC` other than success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseCode(pub u32);

/// What went wrong, as far as this crate or its callers react to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResponseReason {
    /// Too many failed authorisations.
    Lockout,
    /// The TPM asks for the command again.
    Repeat,
    /// The policy session does not satisfy the object's policy.
    PolicyFail,
    /// The authorisation value or session HMAC is wrong.
    AuthFail,
    /// A handle names nothing.
    Handle,
    /// No slot for another object or session.
    Memory,
    /// The command is not implemented.
    CommandCode,
    /// A hierarchy is disabled or wrong.
    Hierarchy,
    /// A credential is not for this key, or not from this protector.
    Integrity,
    /// A value is not acceptable.
    Value,
    /// The NV index was never written.
    NvUninitialized,
    /// NV is locked, or the authorisation does not allow to read it.
    NvDenied,
    /// NV memory is busy or rate limited.
    NvUnavailable,
    /// The TPM was not started up.
    NotStarted,
    /// The TPM is in failure mode.
    Failure,
    /// An algorithm, curve, scheme or key size is not supported.
    Algorithm,
    /// Anything else.
    Other,
}

impl ResponseCode {
    /// What it means.
    pub fn reason(self) -> ResponseReason {
        // Bit 7 tells format one, whose low six bits are the error; else bit 11 tells a warning from an error.
        match (self.0 & 0x80 != 0, self.0 & 0x900) {
            (true, _) => Self::format_one(self.0 & 0x3f),
            (false, 0x900) => Self::warning(self.0 & 0x7f),
            (false, _) => Self::version_two(self.0 & 0x7f),
        }
    }

    fn format_one(code: u32) -> ResponseReason {
        match code {
            0x01 | 0x03 | 0x07 | 0x08 | 0x09 | 0x0a | 0x0c | 0x12 | 0x16 | 0x26 => ResponseReason::Algorithm,
            0x04 | 0x0d | 0x15 | 0x1a | 0x1c | 0x27 => ResponseReason::Value,
            0x05 => ResponseReason::Hierarchy,
            0x0b => ResponseReason::Handle,
            0x0e | 0x22 => ResponseReason::AuthFail,
            0x1d | 0x24 => ResponseReason::PolicyFail,
            0x1f => ResponseReason::Integrity,
            _ => ResponseReason::Other,
        }
    }

    fn warning(code: u32) -> ResponseReason {
        match code {
            0x02..=0x06 => ResponseReason::Memory,
            // A handle or session that is not loaded any more: the TPM was reset behind our back.
            0x10..=0x16 | 0x18..=0x1e => ResponseReason::Handle,
            0x08 | 0x0a | 0x22 => ResponseReason::Repeat,
            0x20 | 0x23 => ResponseReason::NvUnavailable,
            0x21 => ResponseReason::Lockout,
            _ => ResponseReason::Other,
        }
    }

    fn version_two(code: u32) -> ResponseReason {
        match code {
            0x00 => ResponseReason::NotStarted,
            0x01 => ResponseReason::Failure,
            0x2f | 0x48 | 0x49 => ResponseReason::NvDenied,
            0x43 => ResponseReason::CommandCode,
            0x4a => ResponseReason::NvUninitialized,
            _ => ResponseReason::Other,
        }
    }

    /// Which argument the TPM complains about, if it says so.
    fn place(self) -> Option<(&'static str, u32)> {
        let format_one = self.0 & 0x80 != 0;
        match (self.0 & 0x40 != 0, self.0 & 0x800 != 0) {
            _ if !format_one => None,
            (true, _) => Some(("parameter", (self.0 >> 8) & 0xf)),
            (false, true) => Some(("session", (self.0 >> 8) & 0x7)),
            (false, false) => Some(("handle", (self.0 >> 8) & 0x7)),
        }
    }
}

impl fmt::Display for ResponseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.reason() {
            ResponseReason::Lockout => "TPM is in dictionary-attack lockout",
            ResponseReason::Repeat => "TPM kept asking to repeat the command",
            ResponseReason::PolicyFail => "policy not satisfied",
            ResponseReason::AuthFail => "authorisation refused: a hierarchy or key of this TPM has a password",
            ResponseReason::Handle => "no such object, session or NV index",
            ResponseReason::Memory => "no free slot in the TPM",
            ResponseReason::CommandCode => "command not implemented by this TPM",
            ResponseReason::Hierarchy => "hierarchy disabled or wrong",
            ResponseReason::Integrity => "credential was not made for this endorsement and attestation key",
            ResponseReason::Value => "a value was not acceptable",
            ResponseReason::NvUninitialized => "NV index was never written",
            ResponseReason::NvDenied => "NV index may not be read",
            ResponseReason::NvUnavailable => "NV memory is busy",
            ResponseReason::NotStarted => "TPM was not started by the firmware",
            ResponseReason::Failure => "TPM is in failure mode",
            ResponseReason::Algorithm => "algorithm, curve or key size not supported by this TPM",
            ResponseReason::Other => "refused",
        })?;
        if let Some((kind, number)) = self.place() {
            write!(f, " ({kind} {number})")?;
        }
        write!(f, " [TPM_RC {:#05x}]", self.0)
    }
}
