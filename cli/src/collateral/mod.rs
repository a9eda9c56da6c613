//! `latchkey collateral`: what vendors of confidential hardware publish for verifiers, as a directory.

mod fetch;
mod list;

use latchkey_collateral::CollateralError;

use crate::error::CommandError;
use crate::exit::Exit;

pub(crate) use fetch::fetch;
pub(crate) use list::{check, show};

/// A directory that cannot be used as collateral.
pub(crate) fn unusable(error: &CollateralError) -> CommandError {
    match error {
        CollateralError::Refused(refusal) => {
            CommandError::refused(Exit::Usage, "the collateral cannot be used", refusal)
        }
        CollateralError::Unreadable { .. } | CollateralError::TooLarge { .. } => {
            CommandError::usage(error.to_string()).fix("give the directory that has AMD's files in its `snp`")
        }
    }
}
