//! The life of a node, as pure state machines.
//!
//! Nothing here reads a clock, opens a file or sends a byte: [`Node`] takes an [`Event`] that a driver saw and answers
//! with the [`Effect`]s that are allowed now. The same machine runs at boot, in the property tests (many nodes, lost and
//! reordered messages, a crash at every step) and in [`replay`], which feeds it the events that a real boot recorded.
//!
//! The order of a boot is a chain of types, each made only from the one before and the witness of the last check:
//!
//! ```text
//! Measured ──disk──▶ Waiting ──grant──▶ Keyed ──PCR 15──▶ Locked ──disk opens──▶ Opened ──hand-over──▶ Left
//!     │                 │                 │                  │                      │
//!     └──────┬──────────┴─────────────────┴──────────────────┴──────────────────────┘
//!            ▼
//!   Refused(reason) or Reset(reason), then reboot
//! ```
//!
//! A driver that opens the disk must hold an [`OpenPermit`]; only [`states::Locked`] makes one. So no code can be written
//! that opens a disk before the lock.

pub mod bootstrap;
mod code;
mod event;
mod node;
mod replay;
mod states;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

pub use code::NodeCode;
pub use event::{Digest, DiskPhase, Effect, Event, Grant, NodeRole, OfferId, Source, Stop, Verdict};
pub use node::Node;
pub use replay::{Record, ReplayError, Replayed, replay};
pub use states::{LockOrder, OpenPermit};

/// How often a node starts anew after a first bootstrap that failed, before it waits for an operator.
pub const MAX_ATTEMPTS: u8 = 3;
