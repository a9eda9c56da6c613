//! `latchkey upgrade`: what a cluster runs becomes what its files say, or the next version.
//!
//! [`charts`] upgrades charts. [`kubernetes`] upgrades Kubernetes, node by node: [`cluster`] says how each stands, [`before`] whether
//! one may begin, and [`roll`] takes one after the other. [`store`] brings where a cluster is kept to what this release needs.

mod before;
mod changes;
mod charts;
mod check;
mod cluster;
mod deprecated;
mod kubernetes;
mod roll;
mod store;

use crate::arguments::Arguments;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::Output;

pub(crate) use check::check;
pub(crate) use kubernetes::resume;
pub(crate) use store::store;

/// `latchkey upgrade execute`: charts, or Kubernetes.
pub(crate) fn execute(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    match (arguments.has("helm"), arguments.has("kubernetes")) {
        (true, false) => charts::execute(arguments, output),
        (false, true) => kubernetes::execute(arguments, output),
        _ => {
            let error = CommandError::usage("what is to be upgraded is not said");
            Err(error.fix("say --helm for the charts, or --kubernetes VERSION; one after the other"))
        }
    }
}
