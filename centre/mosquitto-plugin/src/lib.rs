//! Plugin for Mosquitto 2.0: who may connect, and what it may publish, subscribe to and receive.
//!
//! ```text
//! plugin /usr/lib/latchkey/liblatchkey_mosquitto_plugin.so
//! plugin_opt_latchkey_socket /run/latchkey-auth/broker.sock
//! ```
//!
//! It decides nothing: the auth service behind the socket verifies passwords in the KDC and knows the permissions
//! (`latchkey-broker`). The plugin asks it when a client connects, holds the client to the topics that the answer names, and asks
//! again every `plugin_opt_latchkey_refresh_seconds` (30), in a thread of its own. Whatever goes wrong is a refusal.
//!
//! Mosquitto has one thread, and waits while the plugin asks; so a question has `plugin_opt_latchkey_deadline_ms` (2000), and
//! after one that was missed clients are refused for a second without asking. Topics that could not be asked for again for
//! `plugin_opt_latchkey_stale_seconds` (300) are void. A principal whose rights have ended is disconnected.

mod api;
mod ask;
mod options;
mod sessions;
