//! Why a file is no canonical event log.

use std::fmt;

use crate::bank::AlgorithmId;
use crate::error::LogFault;

/// What is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CelError {
    /// Position of the wrong record, from 0.
    pub record: usize,
    /// Byte of the file at which that record begins.
    pub offset: usize,
    /// What is wrong.
    pub fault: CelFault,
}

/// What can be wrong with a canonical event log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CelFault {
    /// Neither a JSON text sequence nor a JSON array.
    NoForm,
    /// There is no record.
    Empty,
    /// More bytes than are read.
    TooLarge {
        /// Bytes of the file.
        size: usize,
        /// Bytes that are read.
        limit: usize,
    },
    /// More records than are read.
    TooManyRecords {
        /// Records that are read.
        limit: usize,
    },
    /// A record or the array is cut off.
    Truncated,
    /// Something between records, or after the last.
    Stray,
    /// A record that is no JSON object of the specified form.
    Json(String),
    /// Neither a PCR nor an NV index, or both.
    Register,
    /// A PCR that no TPM has.
    PcrUnknown(u64),
    /// No digest, or more than any TPM has banks.
    DigestCount(usize),
    /// A hash algorithm that is no TPM's.
    AlgorithmUnknown(String),
    /// Two digests of one bank.
    DigestTwice(AlgorithmId),
    /// A digest that is not hexadecimal, or not as long as its algorithm's.
    Digest(AlgorithmId),
    /// A record number that is not above the last.
    NumberOrder {
        /// The last.
        last: u64,
        /// This one.
        number: u64,
    },
    /// A content type that is no plain word.
    ContentType,
    /// Content that is not of its type's form.
    Content(&'static str),
    /// As [`LogFault::LocalityMalformed`] and [`LogFault::LocalityLate`].
    Locality(LogFault),
}

impl fmt::Display for CelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { record, offset, fault } = self;
        write!(f, "no valid canonical event log: record {record}, at byte {offset}: {fault}")
    }
}

impl std::error::Error for CelError {}

impl fmt::Display for CelFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoForm => f.write_str("neither a JSON text sequence nor a JSON array"),
            Self::Empty => f.write_str("there is no record"),
            Self::TooLarge { size, limit } => write!(f, "{size} bytes, at most {limit} are read"),
            Self::TooManyRecords { limit } => write!(f, "more than {limit} records"),
            Self::Truncated => f.write_str("the log is cut off"),
            Self::Stray => f.write_str("something that belongs to no record"),
            Self::Json(why) => write!(f, "{why}"),
            Self::Register => f.write_str("expected either a PCR or an NV index"),
            Self::PcrUnknown(pcr) => write!(f, "there is no PCR {pcr}"),
            Self::DigestCount(count) => write!(f, "{count} digests, expected 1 to 8"),
            Self::AlgorithmUnknown(name) => write!(f, "a digest of {name:?}, which is no hash of a TPM"),
            Self::DigestTwice(algorithm) => write!(f, "two digests of {algorithm}"),
            Self::Digest(algorithm) => write!(f, "a digest of {algorithm} that is not as many hexadecimal digits"),
            Self::NumberOrder { last, number } => write!(f, "record number {number} after {last}"),
            Self::ContentType => f.write_str("a content type that is no plain word"),
            Self::Content(what) => write!(f, "content that is not {what}"),
            Self::Locality(fault) => fault.fmt(f),
        }
    }
}
