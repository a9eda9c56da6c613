//! `latchkey init`: a fresh node becomes the first of a new cluster.
//!
//! [`job`] reads the arguments and holds the directory; [`drive`] connects, again and again, until it is done; [`follow`]
//! shows what the node reports; [`journal`] is what makes that safe; [`report`] prints the end.

mod drive;
mod follow;
mod job;
mod journal;
mod report;

use std::time::Duration;

use crate::arguments::Arguments;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::node::{self, Patience};
use crate::output::Output;
use drive::Drive;
use job::Job;
use journal::Stage;

const TIMEOUT: Duration = Duration::from_mins(30);

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let job = Job::from_arguments(arguments)?;
    let patience = Patience::new(arguments.timeout(TIMEOUT)?);
    let (_held, journal) = job.begin(arguments.has("resume"), output)?;
    if let Stage::Done { .. } = journal.stage {
        return report::done_before(&job, &journal, arguments.has("resume"), output);
    }
    job.check_admin_config()?;
    job.directory.adopt(&job.trust)?;
    let ending = node::block_on(Drive::new(&job, journal, output).run(patience))?;
    report::done(&job, &ending, output)
}
