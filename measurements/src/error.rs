//! Why a file is no event log.

use crate::MeasurementCode;
use crate::bank::AlgorithmId;
use crate::mr::Mr;

/// What is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no valid event log: at byte {offset}: {kind}")]
pub struct LogError {
    /// Byte of the log at which the wrong thing begins.
    pub offset: usize,
    /// What is wrong.
    pub kind: LogErrorKind,
}

impl LogError {
    /// The stable reason code.
    pub fn code(&self) -> MeasurementCode {
        MeasurementCode::EventLogMalformed
    }
}

/// What can be wrong with an event log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogErrorKind {
    /// Nothing, or nothing but padding.
    #[error("there is no event")]
    Empty,
    /// More bytes than are read.
    #[error("{size} bytes, at most {limit} are read")]
    TooLarge {
        /// Bytes of the log.
        size: usize,
        /// Bytes that are read.
        limit: usize,
    },
    /// The log ends within this.
    #[error("the log ends within {what}")]
    Truncated {
        /// What is cut off.
        what: &'static str,
    },
    /// An event says that its data has more bytes than are read.
    #[error("an event of {size} bytes, at most {limit} are read")]
    EventTooLarge {
        /// Bytes it claims.
        size: u32,
        /// Bytes that are read.
        limit: u32,
    },
    /// More events than are read.
    #[error("more than {limit} events")]
    TooManyEvents {
        /// Events that are read.
        limit: usize,
    },
    /// The crypto-agile header is not an event of PCR 0.
    #[error("the header is an event of PCR {0}, not of PCR 0")]
    HeaderPcr(u32),
    /// The log of a confidential machine where a TPM's is read: UEFI 2.10, section 38 (`EFI_CC_MEASUREMENT_PROTOCOL`), where
    /// TDX has measurement register 1 in the header's place of a PCR and no bank but SHA-384. [`crate::cc`] reads it.
    #[error(
        "the log of a confidential machine (CCEL, as of Intel TDX): its registers are MRTD and RTMR0 to RTMR3, not a TPM's \
         PCRs; give the TPM's own log"
    )]
    ConfidentialMachine,
    /// Another log where a confidential machine's is read.
    #[error("not the log of a confidential machine (CCEL), which has a crypto-agile header that lists sha384 alone")]
    NoConfidentialMachine,
    /// The crypto-agile header has a digest, which must be zero.
    #[error("the header has a digest, which must be zero")]
    HeaderDigest,
    /// A `Spec ID` that no specification names.
    #[error("a specification id that no specification names")]
    SpecIdUnknown,
    /// A specification version other than 2.x.
    #[error("specification version {major}.{minor}, expected 2.x")]
    SpecVersion {
        /// `specVersionMajor`.
        major: u8,
        /// `specVersionMinor`.
        minor: u8,
    },
    /// A platform class other than client (0) and server (1).
    #[error("platform class {0}, expected 0 or 1")]
    PlatformClass(u32),
    /// A size of `UINTN` other than 1 (32 bits) and 2 (64 bits).
    #[error("UINTN size {0}, expected 1 or 2")]
    UintnSize(u8),
    /// No bank, or more than any TPM has.
    #[error("{0} banks, expected 1 to 8")]
    AlgorithmCount(u32),
    /// A bank is listed twice.
    #[error("bank {0} is listed twice")]
    AlgorithmTwice(AlgorithmId),
    /// A bank's digest size is not that of its algorithm.
    #[error("bank {algorithm} with digests of {size} bytes")]
    DigestSize {
        /// The bank.
        algorithm: AlgorithmId,
        /// Bytes it claims.
        size: u16,
    },
    /// Bytes after the end of the header's structure.
    #[error("{0} bytes after the end of the header")]
    SpecIdTrailing(usize),
    /// A first event for a PCR that no TPM has.
    #[error("there is no PCR {0}")]
    PcrUnknown(u32),
    /// An event for a measurement register that no confidential machine has.
    #[error("there is no measurement register {0}: 0 is MRTD, 1 to 4 are RTMR0 to RTMR3")]
    MrUnknown(u32),
    /// An event that extends MRTD, which is complete before anything of the machine runs.
    #[error("an event extends MRTD, which is complete before the machine's firmware runs")]
    MrtdExtended,
    /// An event of a confidential machine's log that extends a register, without a digest.
    #[error("an event extends {0} and has no digest")]
    DigestMissing(Mr),
    /// An event with more digests than there are banks.
    #[error("{got} digests, and only {expected} banks")]
    DigestCount {
        /// Banks of the header.
        expected: usize,
        /// Digests of the event.
        got: u32,
    },
    /// A digest of a bank that the header does not list.
    #[error("a digest of {0}, which the header does not list")]
    DigestUnlisted(AlgorithmId),
    /// Two digests of one bank in one event.
    #[error("two digests of {0}")]
    DigestTwice(AlgorithmId),
    /// A `StartupLocality` event for PCR 0 with another locality than 0, 3 or 4, or with none.
    #[error("a StartupLocality event without a locality that TPM2_Startup can come from: 0, 3 or 4")]
    LocalityMalformed,
}
