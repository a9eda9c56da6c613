//! A cluster's node on the MQTT broker: a Sparkplug B birth says that the cluster is there, a death that it is not.
//!
//! ```text
//! auth: whoami → account ─→ configuration database: its Sparkplug address, followed by change notification
//! directory: where the broker is ─→ TLS ─→ ConfigMap: the connection's number ─→ CONNECT with NDEATH as will → NBIRTH
//! ```
//!
//! 1. [`birth`]: what births and deaths say. [`node`]: one session as a machine without I/O and clock.
//! 2. [`mqtt`]: packets out of bytes, and the stream. [`number`]: numbers of connections, over restarts.
//! 3. [`broker`]: the way to the broker. [`Monitor`]: all of it at work.

pub mod birth;
pub mod broker;
mod config;
mod follow;
pub mod latest;
mod monitor;
pub mod mqtt;
pub mod node;
pub mod number;
mod run;
mod session;

pub use config::{BrokerSection, Config};
pub use monitor::Monitor;
pub use run::run;
