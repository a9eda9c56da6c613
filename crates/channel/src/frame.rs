//! Frames: a big-endian u32 length, then that many bytes of JSON. Nothing is allocated before its bound is checked,
//! and then only as bytes arrive.

use std::fmt;
use std::io;

use smol::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::codes::ChannelCode;
use crate::message::Message;

/// The place in the handshake that a frame is for; each has its own bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// The client's hello.
    Hello,
    /// The server's challenge.
    Challenge,
    /// The client's proof.
    Proof,
    /// The server's verdict, with its evidence.
    ServerVerdict,
    /// The client's verdict.
    ClientVerdict,
}

impl Slot {
    /// The most bytes of JSON in this slot.
    pub const fn limit(self) -> usize {
        match self {
            // Six certificates of 4 KiB and two public areas of 1 KiB, in base64.
            Self::Hello => 38 * 1024,
            // The same and a credential of 1 KiB.
            Self::Challenge => 40 * 1024,
            // An event log of 128 KiB in base64, certificates of 16 KiB, a report, a quote, and a credential.
            Self::Proof => 216 * 1024,
            Self::ServerVerdict => 212 * 1024,
            Self::ClientVerdict => 256,
        }
    }

    /// The name for logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hello => "hello",
            Self::Challenge => "challenge",
            Self::Proof => "proof",
            Self::ServerVerdict => "server's verdict",
            Self::ClientVerdict => "client's verdict",
        }
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a frame could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The length is beyond the slot's bound.
    #[error("expected at most {limit} bytes, {got} were announced")]
    TooLong {
        /// The bound, bytes.
        limit: usize,
        /// The announced length, bytes.
        got: u32,
    },
    /// The connection ended inside a frame, or where one was due.
    #[error("the connection ended before the frame did")]
    Truncated,
    /// Not the JSON of a message.
    #[error("not a message of version {}: {detail}", crate::message::VERSION)]
    Malformed {
        /// The parser's sentence, escaped and cut.
        detail: String,
    },
    /// The transport failed.
    #[error("the connection failed: {0}")]
    Io(io::Error),
}

impl FrameError {
    /// The stable reason code.
    pub const fn code(&self) -> ChannelCode {
        match self {
            Self::TooLong { .. } => ChannelCode::FrameTooLong,
            Self::Truncated => ChannelCode::FrameTruncated,
            Self::Malformed { .. } => ChannelCode::FrameMalformed,
            Self::Io(_) => ChannelCode::Transport,
        }
    }
}

/// Reads the announced length of a frame for `slot`.
pub fn announced_len(header: [u8; 4], slot: Slot) -> Result<usize, FrameError> {
    let got = u32::from_be_bytes(header);
    match usize::try_from(got) {
        Ok(len) if len <= slot.limit() => Ok(len),
        _ => Err(FrameError::TooLong { limit: slot.limit(), got }),
    }
}

/// Reads a frame's JSON.
pub fn decode(json: &[u8]) -> Result<Message, FrameError> {
    serde_json::from_slice(json).map_err(|error| FrameError::Malformed { detail: shown(&error.to_string()) })
}

/// Writes header and JSON of `message`.
pub fn encode(message: &Message) -> Result<Vec<u8>, EncodeError> {
    let mut frame = vec![0; HEADER];
    serde_json::to_writer(&mut frame, message).map_err(|_| EncodeError)?;
    let length = u32::try_from(frame.len() - HEADER).map_err(|_| EncodeError)?;
    frame.splice(..HEADER, length.to_be_bytes());
    Ok(frame)
}

/// A message that cannot be written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message that cannot be written down")]
pub struct EncodeError;

/// Receives the message for `slot`.
pub(crate) async fn receive(stream: &mut (impl AsyncRead + Unpin), slot: Slot) -> Result<Message, FrameError> {
    let mut header = [0; HEADER];
    stream.read_exact(&mut header).await.map_err(ended)?;
    let len = announced_len(header, slot)?;
    let mut json = Vec::new();
    let read = (&mut *stream).take(len as u64).read_to_end(&mut json).await.map_err(ended)?;
    if read < len {
        return Err(FrameError::Truncated);
    }
    decode(&json)
}

/// Sends a message.
pub(crate) async fn send(stream: &mut (impl AsyncWrite + Unpin), message: &Message) -> io::Result<()> {
    let frame = encode(message).map_err(|EncodeError| io::Error::from(io::ErrorKind::InvalidInput))?;
    stream.write_all(&frame).await?;
    stream.flush().await
}

fn ended(error: io::Error) -> FrameError {
    if error.kind() == io::ErrorKind::UnexpectedEof { FrameError::Truncated } else { FrameError::Io(error) }
}

/// The parser quotes what the peer sent: it must not write into our log as it likes.
fn shown(text: &str) -> String {
    latchkey_reason::printable(text).take(MAX_DETAIL).collect()
}

const HEADER: usize = 4;
const MAX_DETAIL: usize = 160;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer_reason::PeerReason;

    #[test]
    fn oversized_frames_are_refused_by_their_header_alone() {
        for slot in [Slot::Hello, Slot::Challenge, Slot::Proof, Slot::ServerVerdict, Slot::ClientVerdict] {
            let limit = u32::try_from(slot.limit()).unwrap();
            assert_eq!(announced_len(limit.to_be_bytes(), slot).unwrap(), slot.limit());
            for got in [limit + 1, u32::MAX] {
                let error = announced_len(got.to_be_bytes(), slot).unwrap_err();
                assert!(matches!(error, FrameError::TooLong { got: announced, .. } if announced == got));
            }
        }
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let frame = encode(&Message::refused(PeerReason::PurposeRefused)).unwrap();
        assert_eq!(frame, b"\0\0\0\x26{\"refused\":{\"code\":\"purpose-refused\"}}");
        assert!(
            matches!(decode(&frame[4..]).unwrap(), Message::Refused(body) if body.code == PeerReason::PurposeRefused)
        );
    }

    #[test]
    fn unknown_fields_variants_and_trailing_bytes_are_refused() {
        for json in [
            r#"{"refused":{"code":"purpose-refused","extra":1}}"#,
            r#"{"refused":{"code":"purpose-refused"},"admitted":{"evidence":"none"}}"#,
            r#"{"refused":{"code":"because"}}"#,
            r#"{"refused":{"code":"purpose-refused","code":"purpose-refused"}}"#,
            r#"{"refused":{}}"#,
            r#"{"welcome":{}}"#,
            r#"{"admitted":{"evidence":"none"}} "x""#,
            r#""hello""#,
            "",
            "null",
        ] {
            assert!(matches!(decode(json.as_bytes()), Err(FrameError::Malformed { .. })), "{json}");
        }
    }

    #[test]
    fn a_peer_cannot_write_into_the_log() {
        let json = format!(r#"{{"\n\u001b[2J{}":1}}"#, "x".repeat(10_000));
        let Err(FrameError::Malformed { detail }) = decode(json.as_bytes()) else { panic!("accepted") };
        assert!(!detail.contains(latchkey_reason::misleads) && detail.chars().count() <= MAX_DETAIL);
    }
}
