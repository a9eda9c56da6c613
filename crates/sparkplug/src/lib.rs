//! Sparkplug B, as far as a node needs it that sends text, numbers and UUIDs.
//!
//! 1. [`NodeAddress`], [`Topic`]: where messages go, and what a received topic means.
//! 2. [`Payload`], [`Metric`], [`Value`]: what they say, in protobuf. Reading is bounded: see [`Payload::decode`].
//! 3. [`Sequence`], [`BirthDeath`]: numbers that let a host application see what it missed.
//!
//! Source: Eclipse Sparkplug Specification 3.0.0. No I/O.

mod bounds;
mod number;
mod payload;
mod topic;
mod wire;

pub use number::{BirthDeath, Sequence};
pub use payload::{MAX_METRICS, MAX_PAYLOAD, Metric, Payload, PayloadError, Value};
pub use topic::{AddressError, MessageType, NodeAddress, Topic};
