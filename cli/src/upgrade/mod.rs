//! `latchkey upgrade`: what a cluster runs becomes what its files say.

mod changes;
mod charts;
mod check;
mod deprecated;

pub(crate) use charts::execute;
pub(crate) use check::check;
