//! What the library and its helper say to each other, over the helper's standard input and output.
//!
//! A frame is its length (four bytes, big endian) and a message: one byte that says which, then its fields in order. A text
//! or a byte string is its length (four bytes) and its bytes. One request, one answer, in turn. Both sides hold the other to
//! the limits before they allocate; a frame that breaks a rule ends the helper.

mod answer;
mod fields;
mod request;

pub use answer::{Answer, Key, Shown};
pub use fields::WireError;
pub use request::{AdminKey, Change, Request};

use std::io::{self, Read, Write};
use zeroize::{Zeroize as _, Zeroizing};

/// The longest request: a Negotiate token with its reply's room, or a path and a password.
pub const MAX_REQUEST: usize = 128 * 1024;
/// The longest answer: a list of principals.
pub const MAX_ANSWER: usize = 4 * 1024 * 1024;
/// No Negotiate token is longer: Windows sends at most 65 535 bytes.
pub const MAX_TOKEN: usize = 64 * 1024;
/// No password is longer.
pub const MAX_PASSWORD: usize = 1024;
/// No keytab that travels is longer.
pub const MAX_KEYTAB: usize = 64 * 1024;
/// No path is longer (`PATH_MAX`).
pub const MAX_PATH: usize = 4096;
/// Names in a list, at most.
pub const MAX_NAMES: usize = 65_536;
/// Keys of one principal, at most: one for each type of encryption.
pub const MAX_KEYS: usize = 32;

/// A message with its length before it.
///
/// # Panics
/// Never: what is encoded is bounded far below 4 GiB.
pub fn framed(message: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut frame = Zeroizing::new(Vec::with_capacity(4 + message.len()));
    frame.extend_from_slice(&u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
    frame.extend_from_slice(message);
    frame
}

/// The length that a frame's first four bytes announce, if it is within `limit`.
///
/// # Errors
/// It is longer, or nothing.
pub fn announced(head: [u8; 4], limit: usize) -> Result<usize, WireError> {
    let length = u32::from_be_bytes(head) as usize;
    if (1..=limit).contains(&length) { Ok(length) } else { Err(WireError::Length) }
}

/// Reads one frame, blocking; `None` where the other side has closed the pipe between two frames.
///
/// # Errors
/// The pipe breaks inside of a frame, or its length is outside of the limits.
pub fn read_frame(pipe: &mut impl Read, limit: usize) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
    let mut head = [0; 4];
    match pipe.read(&mut head[..1])? {
        0 => return Ok(None),
        _ => pipe.read_exact(&mut head[1..])?,
    }
    let length = announced(head, limit).map_err(io::Error::other)?;
    let mut message = Zeroizing::new(vec![0; length]);
    pipe.read_exact(&mut message)?;
    Ok(Some(message))
}

/// Writes one frame, blocking.
///
/// # Errors
/// The pipe is broken.
pub fn write_frame(pipe: &mut impl Write, message: &[u8]) -> io::Result<()> {
    let mut frame = framed(message);
    let written = pipe.write_all(&frame).and_then(|()| pipe.flush());
    frame.zeroize();
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_goes_through_a_pipe() {
        let mut pipe = Vec::new();
        write_frame(&mut pipe, b"one").unwrap();
        write_frame(&mut pipe, b"two").unwrap();
        let mut pipe = &pipe[..];
        assert_eq!(read_frame(&mut pipe, 3).unwrap().unwrap().as_slice(), b"one");
        assert_eq!(read_frame(&mut pipe, 3).unwrap().unwrap().as_slice(), b"two");
        assert!(read_frame(&mut pipe, 3).unwrap().is_none());
    }

    #[test]
    fn a_frame_over_the_limit_is_refused_before_it_is_read() {
        assert!(read_frame(&mut &[0xff; 4][..], MAX_ANSWER).is_err());
        assert!(read_frame(&mut &[0, 0, 0, 4, 1, 2, 3, 4][..], 3).is_err());
        assert!(read_frame(&mut &[0; 4][..], 3).is_err());
        assert!(read_frame(&mut &[0, 0, 0, 3, 1][..], 3).is_err());
        assert!(read_frame(&mut &[0, 0][..], 3).is_err());
    }
}
