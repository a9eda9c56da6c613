//! `latchkey charts`: the charts of a cluster, named in one file, installed with stock helm.
//!
//! [`file`] reads the charts file; [`situation`] decides what state a release is in; [`lock`] lets one operator at a time work;
//! [`work`] mends what was begun and not ended, and installs. Whatever was done here, helm by hand sees plain releases.

mod archive;
mod check;
mod file;
mod install;
mod list;
mod lock;
mod situation;
#[cfg(test)]
mod tests;
mod work;

pub(crate) use archive::Archive;
pub(crate) use check::check;
pub(crate) use file::{Chart, ChartsFile, Crds};
pub(crate) use install::{Done, install, into, present};
pub(crate) use list::list;
pub(crate) use lock::Lock;
pub(crate) use situation::Situation;
pub(crate) use work::{Options, Work, charts_file, not_to_mend};
