//! Why a connection ended.

use std::{fmt, time::Duration};

/// The end of a connection other than an orderly one. Calls that were open on it were cancelled.
#[derive(Debug)]
pub enum ConnectionError {
    /// The peer broke HTTP/2, closed the connection with an error, or the byte stream failed.
    Http2(h2::Error),
    /// The peer did not finish the HTTP/2 preface in time.
    Handshake(Duration),
    /// The peer did not answer a ping in time.
    Unresponsive(Duration),
    /// Calls were still open when the time to finish them was over.
    Drain(Duration),
}

impl ConnectionError {
    /// Whether the byte stream failed below HTTP/2: the peer vanished rather than misbehaved.
    pub fn is_disconnect(&self) -> bool {
        matches!(self, Self::Http2(error) if error.is_io())
    }
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http2(error) => write!(f, "HTTP/2: {error}"),
            Self::Handshake(limit) => write!(f, "no HTTP/2 preface within {limit:?}"),
            Self::Unresponsive(limit) => write!(f, "a ping was not answered within {limit:?}"),
            Self::Drain(limit) => write!(f, "calls were still open {limit:?} after the stop"),
        }
    }
}

impl std::error::Error for ConnectionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Http2(error) => Some(error),
            _ => None,
        }
    }
}

impl From<h2::Error> for ConnectionError {
    fn from(error: h2::Error) -> Self {
        Self::Http2(error)
    }
}
