//! The life of an edge cluster, as a pure state machine.
//!
//! Nothing here reads a clock, sends a byte or draws a random number. A [`Machine`] takes an [`Event`] that a driver
//! saw and answers with [`Order`]s: effects that the driver carries out. [`Fleet`] holds one machine for each
//! cluster, and the names that are taken.
//!
//! ```text
//!              configuration written                     configuration deleted
//! (nothing) ──▶ accounts ──▶ repository ──▶ ready ──▶ deleting ──▶ deleted ──▶ decommissioning ──▶ decommissioned
//!                   ▲                       │   ▲                     │   decommission                     │ time
//!                   │                       │   │                     │                                    ▼
//!                   │                       │   │                     │                                (nothing)
//!                   │        roll-out of changed values               │
//!                   └────────── configuration written again ──────────┘
//! ```
//!
//! **Intent first.** Every UUID is in the cluster's setup status, durably, before anything is made by it; and what is
//! undone is marked so before it is undone. Effects can be repeated, so a machine that starts from a stored status,
//! at whatever point its predecessor died, ends at the same state. Every machine has at most one effect in progress.
//!
//! # What a driver promises
//!
//! * Each order is answered once, by its id; also when nothing answers in time. It was done, not done, or may have
//!   been done
//!   ([`Answer::Unreachable`]); it is not done *after* its answer.
//! * An effect that finds the world as it wants it is [`Answer::Done`]: an object that is there with that class, a
//!   grant that is
//!   there, a deletion of what is gone, a principal that is to be disabled and does not exist.
//! * [`Effect::Record`] and [`Effect::Forget`] are durable when they are answered, and nobody else writes the entry.
//! * A machine starts with the status that is stored then, and hears of the configuration that is stored then.

mod backoff;
mod checks;
mod cluster;
mod decide;
mod effect;
mod fleet;
mod names;
mod notes;
mod plan;
mod site;
mod status;
mod trouble;
mod world;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

pub use backoff::{CEILING_MS, FIRST_MS};
pub use checks::{MAX_CONFIGURATION, Refusal};
pub use cluster::{DecommissionError, Machine};
pub use effect::{Answer, Effect, Event, Moment, Order, RANDOM_BYTES, Service};
pub use fleet::{Fleet, FleetOrder};
pub use names::{NameRefusal, Names};
pub use site::{Classes, Site};
pub use status::{Account, Phase, SetupStatus, StatusError};
pub use trouble::Trouble;
pub use world::World;
