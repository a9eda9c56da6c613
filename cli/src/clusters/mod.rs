//! `latchkey cluster …`: the edge clusters of a centre. Everything goes through the centre's public interfaces.

mod change;
mod charts;
mod link;
mod look;
mod reach;
mod register;
mod seal;

pub(crate) use change::{decommission, delete, new, wait};
pub(crate) use charts::import;
pub(crate) use link::{command, revoke};
pub(crate) use look::{list, show};
pub(crate) use reach::{CentreFile, failed};
pub(crate) use register::{admit, held, invite, uninvite};
pub(crate) use seal::seal;

/// The namespace at an edge where nobody says.
pub(crate) const NAMESPACE: &str = "fplus-edge";
