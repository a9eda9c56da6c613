//! Why collateral was not got.

use std::io;
use std::path::PathBuf;

use latchkey_attestation::Refusal;
use latchkey_mirror::MirrorError;
use latchkey_reason::Reason;

use super::code::CollateralCode;
use crate::CollateralError;

/// Why collateral was not got. Texts name the address or path.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// Where files come from is neither a directory nor an address.
    #[error("{0}")]
    Origin(String),
    /// The report's `CHIP_ID` is masked.
    #[error("the report does not say which chip made it (MASK_CHIP_ID)")]
    ChipHidden,
    /// The report has no processor in it.
    #[error("the report does not say of which product its processor is")]
    ProductUnsaid,
    /// The mirror did not give it.
    #[error(transparent)]
    Mirror(#[from] MirrorError),
    /// The server wants fewer requests.
    #[error("{place}: the server answers 429{}", retry(*.retry_after))]
    Throttled {
        /// The address.
        place: String,
        /// How many seconds it wants to be left alone, if it says so.
        retry_after: Option<u64>,
    },
    /// The directory does not have it.
    #[error("{0} is not there")]
    Missing(String),
    /// The connection broke.
    #[error("{place}: interrupted after {got} bytes: {reason}")]
    Interrupted {
        /// The address.
        place: String,
        /// How much came.
        got: usize,
        /// What went wrong.
        reason: String,
    },
    /// A header of the answer does not give what belongs to the file.
    #[error("{place}: the header {header} {what}")]
    Header {
        /// The address.
        place: String,
        /// Its name.
        header: &'static str,
        /// What is wrong with it.
        what: &'static str,
    },
    /// It is longer than what vendors publish.
    #[error("{place}: more than {max} bytes")]
    TooLarge {
        /// The address or path.
        place: String,
        /// What it may have.
        max: u64,
    },
    /// It is another file of the vendor's.
    #[error("{place}: {found}, and {wanted} was asked for")]
    NotAsAsked {
        /// The address or path.
        place: String,
        /// What it holds.
        found: String,
        /// What was asked for.
        wanted: String,
    },
    /// It does not verify.
    #[error("{place}: {refusal}")]
    Refused {
        /// The address or path.
        place: String,
        /// Why.
        refusal: Refusal,
    },
    /// The directory that is to be filled cannot be used.
    #[error(transparent)]
    Directory(CollateralError),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
}

impl FetchError {
    /// The stable reason code, with what to do.
    pub fn reason(&self) -> Reason {
        let code = match self {
            Self::Refused { refusal, .. } => {
                let code = refusal.code();
                return Reason { code: code.as_str(), remedy: code.remedy() };
            }
            Self::Origin(_) => CollateralCode::OriginRefused,
            Self::ChipHidden => CollateralCode::ChipHidden,
            Self::ProductUnsaid => CollateralCode::ProductUnsaid,
            Self::Mirror(error) => match error {
                MirrorError::NoAuthorities => CollateralCode::NoAuthorities,
                MirrorError::Missing(_) => CollateralCode::Missing,
                MirrorError::Request { .. } => CollateralCode::Unreachable,
                MirrorError::Status { .. } => CollateralCode::AnswerRefused,
                MirrorError::Slow { .. } => CollateralCode::TooSlow,
            },
            Self::Throttled { .. } => CollateralCode::Throttled,
            Self::Header { .. } => CollateralCode::AnswerRefused,
            Self::Missing(_) => CollateralCode::Missing,
            Self::Interrupted { .. } => CollateralCode::Interrupted,
            Self::TooLarge { .. } => CollateralCode::TooLarge,
            Self::NotAsAsked { .. } => CollateralCode::NotAsAsked,
            Self::Directory(_) | Self::Io { .. } => CollateralCode::FileUnusable,
        };
        code.into()
    }
}

fn retry(after: Option<u64>) -> String {
    after.map(|seconds| format!(", and wants to be left alone for {seconds} seconds")).unwrap_or_default()
}
