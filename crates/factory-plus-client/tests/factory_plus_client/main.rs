//! The client against small real servers on loopback, honest and hostile.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod calls;
mod followers;
mod hostile;
mod notify;
mod support;
mod tls;
