//! What the API server did not take: it is named, and the rest goes on.

use serde::Serialize;

use crate::error::CommandError;
use crate::output::printable;
use crate::stock::{StockCode, StockError};

/// What the API server did not take, and what it said.
#[derive(Debug, Serialize)]
pub(crate) struct Refused {
    pub(crate) what: String,
    pub(crate) because: String,
}

/// Whether it is what was sent that was not taken, so that others may be.
pub(super) fn is_refusal(error: &StockError) -> bool {
    let codes = [
        StockCode::Invalid,
        StockCode::Forbidden,
        StockCode::ObjectExists,
        StockCode::ObjectMissing,
        StockCode::Conflict,
        // An admission webhook, in its own words.
        StockCode::Failed,
    ];
    codes.contains(&error.code())
}

pub(super) fn refusal(what: String, error: StockError) -> Result<Refused, CommandError> {
    if !is_refusal(&error) {
        return Err(error.into());
    }
    let because = error.said().lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    Ok(Refused { what, because: printable(because) })
}
