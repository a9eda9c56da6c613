//! Why a file is no event log.

use std::fmt;

use crate::bank::AlgorithmId;

/// What is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogError {
    /// Byte of the log at which the wrong thing begins.
    pub offset: usize,
    /// What is wrong.
    pub fault: LogFault,
}

/// What can be wrong with an event log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogFault {
    /// Nothing, or nothing but padding.
    Empty,
    /// More bytes than are read.
    TooLarge {
        /// Bytes of the log.
        size: usize,
        /// Bytes that are read.
        limit: usize,
    },
    /// The log ends within this.
    Truncated {
        /// What is cut off.
        what: &'static str,
    },
    /// An event says that its data has more bytes than are read.
    EventTooLarge {
        /// Bytes it claims.
        size: u32,
        /// Bytes that are read.
        limit: u32,
    },
    /// More events than are read.
    TooManyEvents {
        /// Events that are read.
        limit: usize,
    },
    /// The crypto-agile header is not an event of PCR 0.
    HeaderPcr(u32),
    /// The log of a confidential machine: UEFI 2.10, section 38.4 (`EFI_CC_MEASUREMENT_PROTOCOL`), where TDX has measurement
    /// register 1 in the header's place of a PCR and no bank but SHA-384.
    ConfidentialMachine,
    /// The crypto-agile header has a digest, which must be zero.
    HeaderDigest,
    /// A `Spec ID` that no specification names.
    SpecIdUnknown,
    /// A specification version other than 2.x.
    SpecVersion {
        /// `specVersionMajor`.
        major: u8,
        /// `specVersionMinor`.
        minor: u8,
    },
    /// A platform class other than client (0) and server (1).
    PlatformClass(u32),
    /// A size of `UINTN` other than 1 (32 bits) and 2 (64 bits).
    UintnSize(u8),
    /// No bank, or more than any TPM has.
    AlgorithmCount(u32),
    /// A bank is listed twice.
    AlgorithmTwice(AlgorithmId),
    /// A bank's digest size is not that of its algorithm.
    DigestSize {
        /// The bank.
        algorithm: AlgorithmId,
        /// Bytes it claims.
        size: u16,
    },
    /// Bytes after the end of the header's structure.
    SpecIdTrailing(usize),
    /// An event for a PCR that no TPM has.
    PcrUnknown(u32),
    /// An event with more digests than there are banks.
    DigestCount {
        /// Banks of the header.
        expected: usize,
        /// Digests of the event.
        got: u32,
    },
    /// A digest of a bank that the header does not list.
    DigestUnlisted(AlgorithmId),
    /// Two digests of one bank in one event.
    DigestTwice(AlgorithmId),
    /// A `StartupLocality` event that is not 17 bytes for PCR 0 with locality 0, 3 or 4.
    LocalityMalformed,
    /// A `StartupLocality` event after PCR 0 was extended, or a second one.
    LocalityLate,
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no valid event log: at byte {}: {}", self.offset, self.fault)
    }
}

impl std::error::Error for LogError {}

impl fmt::Display for LogFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("there is no event"),
            Self::TooLarge { size, limit } => write!(f, "{size} bytes, at most {limit} are read"),
            Self::Truncated { what } => write!(f, "the log ends within {what}"),
            Self::EventTooLarge { size, limit } => write!(f, "an event of {size} bytes, at most {limit} are read"),
            Self::TooManyEvents { limit } => write!(f, "more than {limit} events"),
            Self::HeaderPcr(pcr) => write!(f, "the header is an event of PCR {pcr}, not of PCR 0"),
            Self::ConfidentialMachine => f.write_str(
                "the log of a confidential machine (CCEL, as of Intel TDX): its registers are MRTD and RTMR 0 to 3, not a TPM's PCRs; such logs are not read",
            ),
            Self::HeaderDigest => f.write_str("the header has a digest, which must be zero"),
            Self::SpecIdUnknown => f.write_str("a specification id that no specification names"),
            Self::SpecVersion { major, minor } => write!(f, "specification version {major}.{minor}, expected 2.x"),
            Self::PlatformClass(class) => write!(f, "platform class {class}, expected 0 or 1"),
            Self::UintnSize(size) => write!(f, "UINTN size {size}, expected 1 or 2"),
            Self::AlgorithmCount(count) => write!(f, "{count} banks, expected 1 to 8"),
            Self::AlgorithmTwice(algorithm) => write!(f, "bank {algorithm} is listed twice"),
            Self::DigestSize { algorithm, size } => write!(f, "bank {algorithm} with digests of {size} bytes"),
            Self::SpecIdTrailing(size) => write!(f, "{size} bytes after the end of the header"),
            Self::PcrUnknown(pcr) => write!(f, "there is no PCR {pcr}"),
            Self::DigestCount { expected, got } => write!(f, "{got} digests, and only {expected} banks"),
            Self::DigestUnlisted(algorithm) => write!(f, "a digest of {algorithm}, which the header does not list"),
            Self::DigestTwice(algorithm) => write!(f, "two digests of {algorithm}"),
            Self::LocalityMalformed => f.write_str("a malformed StartupLocality event"),
            Self::LocalityLate => f.write_str("a StartupLocality event after PCR 0 began, or a second one"),
        }
    }
}
