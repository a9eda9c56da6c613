//! A centre as its operator has it: `latchkey centre up` in a directory of the test, on ports of its own.
//!
//! * [`Centre`]: made, started, stopped; its processes; its operator's command and client
//! * [`web`]: its services as curl and stock git see them
//! * [`realm`]: its KDC, and passwords for accounts that nobody has a password of
//! * [`clusters`]: clusters made past the command, and looked at; what an edge reports
//! * [`edge`]: an edge's programs, in a namespace of a real API server
//! * [`bootstrapped`]: an edge that has redeemed its link, with its operator of keys
//! * [`flux`]: a set of Flux, and stand-ins for two of its controllers
//! * [`images`]: the container images of an edge's programs
//! * [`registering`]: with it, a site of machines that register their clusters
//! * [`driven`]: such a machine's cluster, driven from its repository
//! * [`broker`]: its MQTT broker, as stock clients see it
//! * [`faults`]: a proxy that counts calls, and ends the caller before or after one of them
//! * [`browser`]: a real browser on its page

pub mod bootstrapped;
pub mod broker;
pub mod browser;
pub mod clusters;
pub mod driven;
pub mod edge;
pub mod faults;
pub mod flux;
pub mod images;
pub mod realm;
pub mod registering;
mod running;
pub mod web;

pub use running::{Centre, Child, children};
