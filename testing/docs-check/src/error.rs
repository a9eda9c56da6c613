//! Why documents and code cannot be compared.

use std::path::PathBuf;

/// A failure of the comparison itself. What is found wrong is no failure, but a list of sentences.
#[derive(Debug, thiserror::Error)]
pub enum DocsError {
    /// A file of the checkout.
    #[error("{path}: {source}")]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// `cargo metadata` did not run or said something else than packages.
    #[error("cargo metadata: {0}")]
    Cargo(String),
    /// A `reason_codes!` block is not of the form that is read.
    #[error("{path}: {what}")]
    Codes {
        /// The source file.
        path: PathBuf,
        /// What was expected, and found.
        what: String,
    },
    /// A document lacks the marks between which something is written.
    #[error("{document} has no `{mark}`")]
    Mark {
        /// The document.
        document: String,
        /// The mark.
        mark: String,
    },
}
