//! Holds the documents to the code.
//!
//! A document names tests as `crate::test`, files as `path/file.rs` and constants as `path/file.rs::NAME`. Whether these
//! exist is checked by the tests of this crate, which know crates from cargo and names from the sources: nothing is kept by
//! hand. Two documents are made from the code, wholly or in part: `docs/reason-codes.md` and the values in `docs/limits.md`.
//! `./dev docs` writes them; a test compares.

pub mod codes;
mod error;
pub mod layers;
pub mod left_out;
pub mod limits;
pub mod names;
mod scan;
mod workspace;

pub use error::DocsError;
pub use workspace::{Package, Target, Workspace};
