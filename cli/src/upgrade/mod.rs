//! `latchkey upgrade`: what a cluster runs becomes what its files say.

mod changes;
mod charts;

pub(crate) use charts::execute;
