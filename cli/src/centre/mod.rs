//! `latchkey centre up`: a centre on one machine: stock KDC and broker, and our services, each a process of its own.
//!
//! In the order of a run: [`site`] reads or makes the directory; [`certificates`] and [`realm`] what is made once; [`processes`]
//! start and end; [`setup`] loads what a new centre has.

mod certificates;
mod processes;
mod programs;
mod realm;
mod setup;
mod site;
mod up;

pub(crate) use up::up;
