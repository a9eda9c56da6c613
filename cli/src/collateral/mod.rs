//! `latchkey collateral`: what vendors of confidential hardware publish for verifiers, as a directory.

mod fetch;
mod list;
mod quote;
mod report;

use latchkey_attestation::verify::snp::SnpCollateral;
use latchkey_attestation::verify::tdx::TdxCollateral;
use latchkey_collateral::{Collateral, CollateralError};

use crate::arguments::Arguments;
use crate::error::CommandError;
use crate::exit::Exit;

pub(crate) use fetch::fetch;
pub(crate) use list::{check, show};
pub(crate) use quote::KeptQuote;
pub(crate) use report::KeptReport;

/// The directory that `--collateral` names.
pub(crate) fn named(arguments: &Arguments) -> Result<Option<Collateral>, CommandError> {
    arguments.path("collateral").map(latchkey_collateral::read).transpose().map_err(|error| unusable(&error))
}

/// AMD's part of that directory.
pub(crate) fn snp(arguments: &Arguments) -> Result<Option<SnpCollateral>, CommandError> {
    Ok(named(arguments)?.and_then(|collateral| collateral.processors.snp))
}

/// Intel's part of that directory.
pub(crate) fn tdx(arguments: &Arguments) -> Result<Option<TdxCollateral>, CommandError> {
    Ok(named(arguments)?.and_then(|collateral| collateral.processors.tdx))
}

/// A directory that cannot be used as collateral.
pub(crate) fn unusable(error: &CollateralError) -> CommandError {
    match error {
        CollateralError::Refused(refusal) => {
            CommandError::refused(Exit::Usage, "the collateral cannot be used", refusal)
        }
        CollateralError::Unfit { .. } => CommandError::usage(error.to_string()),
        CollateralError::Unreadable { .. } | CollateralError::TooLarge { .. } => {
            let parts = "AMD's files in its `snp`, Intel's in its `tdx`, or lists of what authorities of TPMs revoked in its `tpm`";
            CommandError::usage(error.to_string()).fix(format!("give the directory that has {parts}"))
        }
    }
}
