//! `latchkey collateral`: what vendors of confidential hardware publish for verifiers, as a directory.

mod fetch;
mod list;
mod report;

use std::sync::Arc;

use latchkey_attestation::verify::snp::SnpCollateral;
use latchkey_collateral::CollateralError;

use crate::arguments::Arguments;
use crate::error::CommandError;
use crate::exit::Exit;

pub(crate) use fetch::fetch;
pub(crate) use list::{check, show};
pub(crate) use report::KeptReport;

/// AMD's part of the directory that `--collateral` names.
pub(crate) fn snp(arguments: &Arguments) -> Result<Option<Arc<SnpCollateral>>, CommandError> {
    let collateral = arguments.path("collateral").map(latchkey_collateral::read_snp).transpose();
    collateral.map(|it| it.map(Arc::new)).map_err(|error| unusable(&error))
}

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
