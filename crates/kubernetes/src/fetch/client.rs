//! Files from mirrors, continued where a connection broke.

use std::time::Instant;

use latchkey_mirror::{Answer, Broken, Client};

use super::Progress;
use super::error::FetchError;
use super::part::{Part, Stop};

/// Connections for one file: a mirror that breaks off is asked to continue, but not for ever.
const TRIES: u32 = 5;

/// What one connection came to.
enum End {
    /// The source came to its end.
    Ended,
    /// What is there cannot be continued; it was forgotten.
    Again,
    /// The connection broke.
    Cut(String),
}

/// Gets a file, continuing what is there.
pub(super) fn get(
    client: &Client,
    place: &str,
    part: &mut Part<'_>,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(), FetchError> {
    let begun = Instant::now();
    let mut cut = None;
    for _ in 0..TRIES {
        match once(client, place, begun, part, progress)? {
            // What an earlier connection left may have been of another file.
            End::Ended if !part.is_right() && part.is_resumed() => part.restart()?,
            End::Ended => return part.judge(place),
            End::Again => {}
            End::Cut(reason) => cut = Some(reason),
        }
    }
    match cut {
        Some(reason) => Err(FetchError::Interrupted { place: place.to_owned(), times: TRIES, got: part.len(), reason }),
        None => part.judge(place),
    }
}

fn once(
    client: &Client,
    place: &str,
    begun: Instant,
    part: &mut Part<'_>,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<End, FetchError> {
    let body = match client.ask(place, part.len(), begun)? {
        Answer::Whole(body) => {
            part.restart()?;
            body
        }
        Answer::Rest(body) => {
            part.continues();
            body
        }
        Answer::OtherPiece => return part.restart().map(|()| End::Again),
    };
    let of = body.length().and_then(|length| length.checked_add(part.len()));
    if of.is_some_and(|of| of > part.max()) {
        return Err(FetchError::TooLarge { place: place.to_owned(), max: part.max() });
    }
    match part.take(body, of, place, progress) {
        Ok(()) => Ok(End::Ended),
        Err(Stop::Final(error)) => Err(error),
        Err(Stop::Source(error)) => match client.broken(place, &error) {
            Broken::Slow(error) => Err(error.into()),
            Broken::Cut(reason) => Ok(End::Cut(reason)),
        },
    }
}
