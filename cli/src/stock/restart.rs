//! A program of the operator that restarts a machine.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::call::{Call, Ended};
use super::interrupt::Interrupt;
use super::{Program, Stock, StockCode, StockError};

/// What it may print to standard output, which nobody reads.
const PRINTED: usize = 16 << 20;

/// The program. No shell is between.
#[derive(Clone, Debug)]
pub(crate) struct RestartProgram {
    file: PathBuf,
    interrupt: Arc<Interrupt>,
}

impl Stock {
    /// The program in this file; that it can be run is looked at now.
    pub(crate) fn restart_program(&self, file: &Path) -> Result<RestartProgram, StockError> {
        let file = Program::Restart.find(Some(file))?;
        Ok(RestartProgram { file, interrupt: self.interrupt.clone() })
    }
}

impl RestartProgram {
    /// Runs it to its end, which must be a good one. Each line of its standard error goes to `said`.
    pub(crate) async fn run(
        &self,
        arguments: [&str; 3],
        allowed: Duration,
        said: &mut dyn FnMut(&str),
    ) -> Result<(), StockError> {
        let arguments = arguments.map(OsString::from).to_vec();
        let (program, file, limit) = (Program::Restart, &self.file, PRINTED);
        let call = Call { program, file, arguments, input: &[], limit, allowed };
        let shown = call.shown();
        let Ended { status, said, .. } = call.run(Some(&self.interrupt), Some(said)).await?;
        if status.success() { Ok(()) } else { Err(StockError::Failed { call: shown, code: StockCode::Failed, said }) }
    }
}
