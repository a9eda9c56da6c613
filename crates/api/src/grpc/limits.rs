//! What a peer may take of this side's memory and time.

use std::time::Duration;

/// Bounds for one connection. The defaults suit services that exchange keys and tickets; raise what you must.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest message taken from the peer, in bytes.
    pub inbound_message: usize,
    /// Largest message sent to the peer, in bytes.
    pub outbound_message: usize,
    /// Largest header list taken from the peer, in bytes as HTTP/2 counts them (name + value + 32 for each).
    pub header_list: u32,
    /// Flow-control window of one stream, in bytes.
    pub stream_window: u32,
    /// Flow-control window of the connection, in bytes: unread bytes of all streams never exceed it.
    pub connection_window: u32,
    /// How long the peer may take for the HTTP/2 preface.
    pub handshake: Duration,
    /// Server: how long one message may take, in either direction, before the call ends.
    pub stall: Duration,
    /// Pings that notice a peer that is gone; `None` sends none.
    pub keepalive: Option<Keepalive>,
    /// Server: calls that one connection may have open.
    pub concurrent_calls: u32,
    /// Server: how long a connection may have no call open.
    pub idle: Duration,
    /// Server: how long a stopping connection waits for open calls.
    pub drain: Duration,
    /// Server: longest life of a call, whatever the caller's deadline; `None` is no bound.
    pub call: Option<Duration>,
}

/// When to ping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    /// From one answer to the next ping.
    pub interval: Duration,
    /// How long to wait for an answer before the connection is given up.
    pub timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            inbound_message: 1 << 20,
            outbound_message: 4 << 20,
            header_list: 8 << 10,
            stream_window: 64 << 10,
            connection_window: 256 << 10,
            handshake: Duration::from_secs(10),
            stall: Duration::from_secs(20),
            keepalive: Some(Keepalive { interval: Duration::from_secs(30), timeout: Duration::from_secs(20) }),
            concurrent_calls: 32,
            idle: Duration::from_mins(1),
            drain: Duration::from_secs(10),
            call: None,
        }
    }
}

/// Streams reset by the peer before this side looked at them (CVE-2023-44487, "rapid reset").
pub(crate) const PENDING_ACCEPT_RESET_STREAMS: usize = 16;

/// Streams this side reset because the peer broke the protocol on them, over the connection's life (CVE-2025-8671,
/// "made you reset").
pub(crate) const LOCAL_ERROR_RESET_STREAMS: usize = 64;

/// Reset streams remembered to tell late frames from wrong ones.
pub(crate) const REMEMBERED_RESET_STREAMS: usize = 32;

/// Client: what unread DATA frames below 256 bytes may fall short of 256 bytes, all together, for each byte of the
/// connection's window. h2's own choice, 1/2, ends the connection of a peer that streams a few hundred small events
/// faster than they are read; with 16, messages of 16 bytes may fill the whole window. A frame costs h2 some 200 bytes,
/// so the default window bounds them to 4 MiB. Servers keep h2's choice: requests are single messages.
pub(crate) const SMALL_FRAME_BUDGET_PER_WINDOW_BYTE: usize = 16;
