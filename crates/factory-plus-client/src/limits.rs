//! What a service may cost its client.

use std::time::Duration;

/// What a service may cost its client, in time and memory. The defaults fit a program of 20 MB.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Until there is a connection, TLS included.
    pub connect: Duration,
    /// Until the head of an answer, or the next piece of its body; and until a frame is written.
    pub read: Duration,
    /// Until a whole answer, with waiting for a connection and for a token.
    pub whole: Duration,
    /// Connections to one service at once, without that of change notification.
    pub connections: usize,
    /// How long a connection is kept that nobody uses.
    pub idle: Duration,
    /// Bytes of an answer's body.
    pub answer: usize,
    /// Bytes of an answer's head; no less than 8192.
    pub head: usize,
    /// How long an answer of the directory is believed.
    pub directory: Duration,
    /// Bytes of a frame of change notification.
    pub frame: usize,
    /// Subscriptions of one service at once; services allow so many on one connection.
    pub subscriptions: usize,
    /// Children of a search.
    pub children: usize,
    /// Bytes of all children of a search, as JSON without spaces.
    pub children_bytes: usize,
    /// How often a silent connection of change notification is asked whether it lives; it is given up after two and a half times that.
    pub ping: Duration,
    /// The longest wait before a lost connection or a refused subscription is tried again.
    pub back_off: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            read: Duration::from_secs(15),
            whole: Duration::from_mins(1),
            connections: 4,
            idle: Duration::from_secs(30),
            answer: 4 << 20,
            head: 16 << 10,
            directory: Duration::from_mins(5),
            frame: 4 << 20,
            subscriptions: 1024,
            children: 20_000,
            children_bytes: 8 << 20,
            ping: Duration::from_secs(20),
            back_off: Duration::from_secs(30),
        }
    }
}
