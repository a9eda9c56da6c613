//! Why a file is no canonical event log.

use crate::MeasurementCode;
use crate::bank::AlgorithmId;
use crate::error::LogErrorKind;

/// What is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no valid canonical event log: record {record}, at byte {offset}: {kind}")]
pub struct CelError {
    /// Position of the wrong record, from 0.
    pub record: usize,
    /// Byte of the file at which that record begins.
    pub offset: usize,
    /// What is wrong.
    pub kind: CelErrorKind,
}

impl CelError {
    /// The stable reason code.
    pub fn code(&self) -> MeasurementCode {
        MeasurementCode::EventLogMalformed
    }
}

/// What can be wrong with a canonical event log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CelErrorKind {
    /// Neither a JSON text sequence nor a JSON array.
    #[error("neither a JSON text sequence nor a JSON array")]
    NoForm,
    /// There is no record.
    #[error("there is no record")]
    Empty,
    /// More bytes than are read.
    #[error("{size} bytes, at most {limit} are read")]
    TooLarge {
        /// Bytes of the file.
        size: usize,
        /// Bytes that are read.
        limit: usize,
    },
    /// More records than are read.
    #[error("more than {limit} records")]
    TooManyRecords {
        /// Records that are read.
        limit: usize,
    },
    /// A record or the array is cut off.
    #[error("the log is cut off")]
    Truncated,
    /// Something between records, or after the last.
    #[error("something that belongs to no record")]
    Stray,
    /// A record that is no JSON object of the specified form.
    #[error("{0}")]
    Json(String),
    /// Neither a PCR nor an NV index, or both.
    #[error("expected either a PCR or an NV index")]
    Register,
    /// A PCR that no TPM has.
    #[error("there is no PCR {0}")]
    PcrUnknown(u64),
    /// No digest, or more than any TPM has banks.
    #[error("{0} digests, expected 1 to 8")]
    DigestCount(usize),
    /// A hash algorithm that is no TPM's.
    #[error("a digest of {0:?}, which is no hash of a TPM")]
    AlgorithmUnknown(String),
    /// Two digests of one bank.
    #[error("two digests of {0}")]
    DigestTwice(AlgorithmId),
    /// A digest that is not hexadecimal, or not as long as its algorithm's.
    #[error("a digest of {0} that is not as many hexadecimal digits")]
    Digest(AlgorithmId),
    /// A record number that is not above the last.
    #[error("record number {number} after {last}")]
    NumberOrder {
        /// The last.
        last: u64,
        /// This one.
        number: u64,
    },
    /// A content type that is no plain word.
    #[error("a content type that is no plain word")]
    ContentType,
    /// Content that is not of its type's form.
    #[error("content that is not {0}")]
    Content(&'static str),
    /// As [`LogErrorKind::LocalityMalformed`].
    #[error(transparent)]
    Locality(LogErrorKind),
}
