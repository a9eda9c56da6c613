//! The cluster manager on loopback, with the centre's other services in this process and stock git. Passwords are checked by a
//! fake, and the KDC's principals are a fake's.

#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

mod documents;
mod http;
mod life;
mod links;
mod many;
mod page;
mod redeem;
mod rig;
mod secrets;
