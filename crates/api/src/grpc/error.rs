//! Why a connection ended.

use std::time::Duration;

/// The end of a connection other than an orderly one. Calls that were open on it were cancelled.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The peer broke HTTP/2, closed the connection with an error, or the byte stream failed.
    #[error("HTTP/2: {0}")]
    Http2(#[from] h2::Error),
    /// The peer did not finish the HTTP/2 preface in time.
    #[error("no HTTP/2 preface within {0:?}")]
    Handshake(Duration),
    /// The peer did not answer a ping in time.
    #[error("a ping was not answered within {0:?}")]
    Unresponsive(Duration),
    /// Calls were still open when the time to finish them was over.
    #[error("calls were still open {0:?} after the stop")]
    Drain(Duration),
}

impl ConnectionError {
    /// Whether the byte stream failed below HTTP/2: the peer vanished rather than misbehaved.
    pub fn is_disconnect(&self) -> bool {
        matches!(self, Self::Http2(error) if error.is_io())
    }
}
