//! Who may do what at the MQTT broker.
//!
//! 1. [`Filter`]: MQTT's topics and filters, and whether one filter lies within another.
//! 2. [`Grants`]: what a client may publish, receive and subscribe to; nothing, where nothing is granted.
//! 3. [`template`]: the entries of the application *MQTT permission template*, filled with a Sparkplug address.
//! 4. [`protocol`]: what the Mosquitto plugin asks over a Unix socket, and the answers.
//! 5. `server` (feature): answers, for the auth service.

#![forbid(unsafe_code)]

mod filter;
mod grant;
pub mod protocol;
#[cfg(feature = "server")]
pub mod server;
pub mod template;

pub use filter::{Filter, FilterError, is_topic};
pub use grant::{Access, AccessError, Grant, Grants};
