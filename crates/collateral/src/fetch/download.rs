//! One file from a mirror.

use std::io::Read as _;
use std::time::Instant;

use latchkey_mirror::{Answer, Broken, Client, MirrorError};

use super::error::FetchError;

/// A file, and what came with it.
pub(super) struct Download {
    pub(super) content: Vec<u8>,
    /// The header that was asked for, if the answer has it once.
    pub(super) header: Option<String>,
}

/// All of one file, if it has no more bytes than it may.
pub(super) fn get(client: &Client, place: &str, max: u64) -> Result<Download, FetchError> {
    get_with(client, place, max, None)
}

/// The same, and a header of the answer.
pub(super) fn get_with(client: &Client, place: &str, max: u64, header: Option<&str>) -> Result<Download, FetchError> {
    let body = match client.ask(place, 0, Instant::now()) {
        Ok(Answer::Whole(body) | Answer::Rest(body)) => body,
        Ok(Answer::OtherPiece) => {
            return Err(MirrorError::Status { place: place.to_owned(), status: 206, retry_after: None }.into());
        }
        Err(MirrorError::Status { place, status: 429, retry_after }) => {
            return Err(FetchError::Throttled { place, retry_after });
        }
        Err(error) => return Err(error.into()),
    };
    let too_large = || FetchError::TooLarge { place: place.to_owned(), max };
    if body.length().is_some_and(|length| length > max) {
        return Err(too_large());
    }
    let header = header.and_then(|name| body.header(name)).map(str::to_owned);
    let mut content = Vec::new();
    if let Err(error) = body.take(max + 1).read_to_end(&mut content) {
        return Err(match client.broken(place, &error) {
            Broken::Slow(error) => error.into(),
            Broken::Cut(reason) => FetchError::Interrupted { place: place.to_owned(), got: content.len(), reason },
        });
    }
    if content.len() as u64 > max {
        return Err(too_large());
    }
    Ok(Download { content, header })
}
