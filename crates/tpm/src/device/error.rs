//! The error of everything in this module.

use super::{ResponseCode, ResponseReason as Cause};
use crate::wire::WireError;
use latchkey_reason::{Reason, reason_codes, reasons};
use std::io;

/// Why a TPM command did not give what was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TpmError {
    /// The device or socket failed.
    #[error("TPM device: {0}")]
    Io(#[from] io::Error),
    /// The TPM answered with an error.
    #[error("{command}: {code}")]
    Refused {
        /// The command.
        command: &'static str,
        /// The TPM's code.
        code: ResponseCode,
    },
    /// The answer is not of the form the specification gives it.
    #[error("{command}: malformed answer: {source}")]
    Malformed {
        /// The command.
        command: &'static str,
        /// What is wrong.
        source: WireError,
    },
    /// The answer's HMAC is missing or wrong: somebody between here and the TPM changed command or answer.
    #[error("{command}: answer is not authentic; something between CPU and TPM changed it")]
    Tampered {
        /// The command.
        command: &'static str,
    },
    /// The answer is well formed but not one to this question.
    #[error("{command}: TPM answered with {what}")]
    Unexpected {
        /// The command.
        command: &'static str,
        /// What does not fit.
        what: &'static str,
    },
    /// The bank that quotes and locks are of is off, or lacks registers.
    #[error("the TPM has no SHA-256 PCR bank with registers 0 to 23; its banks are {}", in_words(banks))]
    NoSha256Bank {
        /// The banks that have registers, as `TPM_ALG_ID`; at most 16.
        banks: Vec<u16>,
    },
    /// PCRs kept changing while they were quoted or extended.
    #[error("PCRs changed while they were read; something else extends them")]
    PcrRaced,
    /// The key cannot take a session salt: not a key on P-256 or P-384, or its point is not on the curve.
    #[error("session salt key is not a valid key on P-256 or P-384")]
    SaltKey,
    /// A cloud's attestation key, or what it is made from, is not there.
    #[error("no attestation key of a cloud: no {what} at {handle:#010x}")]
    AttestationKeyMissing {
        /// Key, template or certificate.
        what: &'static str,
        /// Where it was looked for.
        handle: u32,
    },
    /// A cloud's attestation key is there and cannot be one.
    #[error("the attestation key `{key}` cannot be used: {why}")]
    AttestationKeyUnfit {
        /// Its name in `latchkey.ak`.
        key: &'static str,
        /// What is wrong.
        why: &'static str,
    },
    /// An argument is out of bounds.
    #[error("argument out of bounds: {0}")]
    Argument(#[source] WireError),
    /// The system's random source failed.
    #[error("no random numbers from the system")]
    Random,
}

reason_codes! {
    /// Why a TPM command did not give what was asked for.
    pub enum TpmCode {
        /// The device or socket failed.
        Unreachable = "tpm-unreachable": "check that the TPM is enabled and its kernel driver is there";
        /// The TPM is in dictionary-attack lockout.
        Lockout = "tpm-lockout": "wait, or clear the lockout";
        /// An authorisation is refused.
        Authorisation = "tpm-authorisation": "clear the TPM: a hierarchy or key of it has a password";
        /// A policy is not satisfied.
        Policy = "tpm-policy": "report this: the TPM does not follow the policy of its own key";
        /// A credential was made for other keys.
        CredentialNotOurs = "tpm-credential-not-ours":
            "connect again; if it stays, something between the two sides changes what they send";
        /// An object, a session or an NV index is not there.
        Handle = "tpm-handle": "reboot the machine: the TPM was reset while it was in use";
        /// The TPM has no free slot.
        Full = "tpm-full": "flush objects and sessions that other programs left in the TPM, or reboot";
        /// A hierarchy is disabled, or the wrong one.
        HierarchyDisabled = "tpm-hierarchy-disabled": "enable the hierarchy in the firmware set-up";
        /// The TPM was not started, or is in failure mode.
        NotWorking = "tpm-not-working": "power-cycle the machine";
        /// The TPM does not have a command, an algorithm or a key size.
        NotCapable = "tpm-not-capable": "use a TPM 2.0 with ECC P-256, or another `latchkey.ek`";
        /// The TPM or its NV memory is busy.
        Busy = "tpm-busy": "try again";
        /// The TPM refuses for another reason.
        Refused = "tpm-refused": "look up the TPM_RC of the message";
        /// The answer is not of the form the specification gives it.
        Answer = "tpm-answer": "update the TPM's firmware, or report this";
        /// The answer's HMAC is missing or wrong.
        Tampered = "tpm-tampered": "look for what stands between CPU and TPM: it changes what passes";
        /// The SHA-256 bank is off, or lacks registers.
        NoSha256Bank = "tpm-no-sha256-bank":
            "switch the TPM's SHA-256 bank on in the firmware set-up (of a virtual machine, `tpm2_pcrallocate sha256:all` does it, too), and restart";
        /// PCRs kept changing while they were quoted or extended.
        PcrRaced = "tpm-pcr-raced": "try again; if it stays, find what extends PCRs";
        /// The key cannot take a session salt.
        SaltKey = "tpm-salt-key": "use a TPM whose ECC keys are on their curve";
        /// A cloud's attestation key, its template or its certificate is not there.
        AttestationKeyMissing = "tpm-attestation-key-missing":
            "use a machine type whose TPM has a certified attestation key (docs/clouds.md), or another `latchkey.ak` in the image";
        /// A cloud's attestation key is of another kind than it must be, or its certificate is another key's.
        AttestationKeyUnfit = "tpm-attestation-key-unfit":
            "create the machine anew: something in it, or on the way to its TPM, replaced the key or its certificate";
        /// An argument is out of bounds.
        Argument = "tpm-argument": "report this: it is a defect of Latchkey";
        /// The system's random source failed.
        Random = "no-randomness": "check that getrandom(2) works here";
    }
}

impl TpmError {
    /// The stable reason code.
    pub fn code(&self) -> TpmCode {
        match self {
            Self::Io(_) => TpmCode::Unreachable,
            // The specification's answer to a size of RSA keys that it does not have.
            Self::Refused { command: "TPM2_CreatePrimary", code } if code.reason() == Cause::Value => {
                TpmCode::NotCapable
            }
            Self::Refused { code, .. } => match code.reason() {
                Cause::Lockout => TpmCode::Lockout,
                Cause::AuthFail => TpmCode::Authorisation,
                Cause::PolicyFail => TpmCode::Policy,
                Cause::Integrity => TpmCode::CredentialNotOurs,
                Cause::Handle => TpmCode::Handle,
                Cause::Memory => TpmCode::Full,
                Cause::Hierarchy => TpmCode::HierarchyDisabled,
                Cause::NotStarted | Cause::Failure => TpmCode::NotWorking,
                Cause::Algorithm | Cause::CommandCode => TpmCode::NotCapable,
                Cause::Repeat | Cause::NvUnavailable => TpmCode::Busy,
                Cause::Value | Cause::NvUninitialized | Cause::NvDenied | Cause::Other => TpmCode::Refused,
            },
            Self::Malformed { .. } | Self::Unexpected { .. } => TpmCode::Answer,
            Self::Tampered { .. } => TpmCode::Tampered,
            Self::NoSha256Bank { .. } => TpmCode::NoSha256Bank,
            Self::PcrRaced => TpmCode::PcrRaced,
            Self::SaltKey => TpmCode::SaltKey,
            Self::AttestationKeyMissing { .. } => TpmCode::AttestationKeyMissing,
            Self::AttestationKeyUnfit { .. } => TpmCode::AttestationKeyUnfit,
            Self::Argument(_) => TpmCode::Argument,
            Self::Random => TpmCode::Random,
        }
    }
}

/// Banks as tpm2-tools call them.
fn in_words(banks: &[u16]) -> String {
    let name = |bank: &u16| match bank {
        0x0004 => "sha1".to_owned(),
        0x000b => "sha256".to_owned(),
        0x000c => "sha384".to_owned(),
        0x000d => "sha512".to_owned(),
        0x0012 => "sm3_256".to_owned(),
        other => format!("{other:#06x}"),
    };
    match banks {
        [] => "none".to_owned(),
        some => some.iter().map(name).collect::<Vec<_>>().join(", "),
    }
}

/// Every reason code of this crate.
pub fn reason_codes() -> impl Iterator<Item = Reason> {
    reasons::<TpmCode>()
}
