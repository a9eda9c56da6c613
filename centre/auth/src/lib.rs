//! The authorisation service of a Factory+ centre: who is who, and what each may do.
//!
//! The way of a request, in code order:
//!
//! 1. [`api`] reads path and body, closed and bounded, and says with which status it is answered.
//! 2. [`rights`] decides whether the caller may: every write needs a witness that only it makes.
//! 3. [`model`] holds identities and grants, and says what a write changes; [`dump`] is a write of many.
//! 4. [`objects`]: classes, their members and owners, as the configuration database tells them.
//! 5. [`expand`] makes the access list of a principal of both; [`lists`] keeps lists, and knows which a change touches.
//! 6. [`state`] holds all of it together.
//!
//! 7. [`config`], `run`: the program. [`keeper`]: the same for many callers, durably; [`server`] asks it, [`follow`] tells it of classes and owners.
//!
//! [`broker`] answers the MQTT broker's plugin.
//!
//! Up to [`state`] there is no I/O, no clock and no random number: fuzz target and model tests run the same code.

pub mod api;
pub mod broker;
pub mod config;
pub mod dump;
mod entries;
pub mod expand;
pub mod follow;
pub mod keeper;
pub mod lists;
pub mod model;
pub mod objects;
mod realms;
pub mod rights;
mod run;
pub mod server;
pub mod state;

pub use realms::{ForeignRealm, Realms};
pub use run::run;

/// Every reason code of this crate.
pub fn reason_codes() -> impl Iterator<Item = latchkey_reason::Reason> {
    latchkey_reason::reasons::<broker::BrokerCode>()
}
