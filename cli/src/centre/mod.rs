//! `latchkey centre up`: a centre on one machine: stock KDC and broker, and our services, each a process of its own.
//!
//! In the order of a run: [`site`] reads or makes the directory; [`certificates`], [`realm`] and [`enrol`] what is made once;
//! [`processes`] start and end; [`setup`] loads what a new centre has.
//!
//! [`backup`] and [`units`] work on a directory that is there: [`existing`].

pub(crate) mod admin;
mod backup;
mod certificates;
mod enrol;
mod existing;
mod processes;
mod programs;
mod realm;
mod setup;
mod site;
mod units;
mod up;

pub(crate) use backup::{backup, restore};
pub(crate) use units::units;
pub(crate) use up::up;
