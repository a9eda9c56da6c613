//! Message framing: `Compressed-Flag (1 byte) Message-Length (4 bytes, big endian) Message` (gRPC over HTTP/2).
//!
//! Chunks come as the peer cut them. A length above the limit is refused before anything is allocated for it, and
//! memory grows with the bytes received, not with the length announced.

use bytes::{Buf, Bytes};
use zeroize::Zeroizing;

/// Bytes before each message.
const PREFIX: usize = 5;

/// First allocation for a message, whatever length it announces.
const FIRST_ALLOCATION: usize = 4096;

/// One message's bytes, wiped when dropped.
pub type Message = Zeroizing<Vec<u8>>;

/// What is wrong with a peer's message stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The flag says compressed, and no encoding was agreed on.
    #[error("a message is compressed without an agreed encoding")]
    Compressed,
    /// The flag is neither 0 nor 1.
    #[error("a message starts with {0:#04x}, which is no compressed-flag")]
    BadFlag(u8),
    /// The announced length is above the limit.
    #[error("a message of {length} bytes exceeds the limit of {limit}")]
    TooLarge {
        /// Bytes announced.
        length: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// The stream ended inside a prefix or message.
    #[error("the stream ends inside a message")]
    Truncated,
}

/// Cuts a stream of chunks into messages.
#[derive(Debug)]
pub struct Deframer {
    limit: usize,
    prefix: [u8; PREFIX],
    /// Bytes of `prefix` that are filled.
    prefixed: usize,
    message: Message,
    /// Length of the message, once the prefix is complete.
    length: Option<usize>,
}

impl Deframer {
    /// Accepts messages of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, prefix: [0; PREFIX], prefixed: 0, message: Message::default(), length: None }
    }

    /// Takes from `chunk` until a message is complete or the chunk is used up. Call again with the same chunk until it
    /// gives `None`.
    ///
    /// # Errors
    /// [`FrameError`]; the stream cannot be read on after it.
    pub fn feed(&mut self, chunk: &mut Bytes) -> Result<Option<Message>, FrameError> {
        let Some(length) = self.feed_prefix(chunk)? else { return Ok(None) };
        self.feed_message(length, chunk);
        if self.message.len() < length {
            return Ok(None);
        }
        self.prefixed = 0;
        self.length = None;
        Ok(Some(std::mem::take(&mut self.message)))
    }

    /// To be called when the stream ends.
    ///
    /// # Errors
    /// [`FrameError::Truncated`] if it ends inside a message.
    pub fn finish(&self) -> Result<(), FrameError> {
        if self.prefixed == 0 { Ok(()) } else { Err(FrameError::Truncated) }
    }

    fn feed_prefix(&mut self, chunk: &mut Bytes) -> Result<Option<usize>, FrameError> {
        if self.length.is_some() {
            return Ok(self.length);
        }
        let missing = self.prefix.get_mut(self.prefixed..).unwrap_or_default();
        let count = missing.len().min(chunk.len());
        let (filled, open) = missing.split_at_mut(count);
        chunk.copy_to_slice(filled);
        let complete = open.is_empty();
        self.prefixed += count;
        // The flag is judged as soon as it is there: a peer that speaks something else learns it at once.
        let [flag, length @ ..] = self.prefix;
        match flag {
            _ if self.prefixed == 0 => return Ok(None),
            0 => {}
            1 => return Err(FrameError::Compressed),
            other => return Err(FrameError::BadFlag(other)),
        }
        if !complete {
            return Ok(None);
        }
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > self.limit {
            return Err(FrameError::TooLarge { length, limit: self.limit });
        }
        self.length = Some(length);
        Ok(self.length)
    }

    fn feed_message(&mut self, length: usize, chunk: &mut Bytes) {
        let count = chunk.len().min(length - self.message.len());
        let needed = self.message.len() + count;
        if needed > self.message.capacity() {
            let capacity = needed.max(self.message.capacity() * 2).max(FIRST_ALLOCATION).min(length);
            // Not `reserve`, which would leave the old bytes behind in freed memory.
            let mut grown = Message::new(Vec::with_capacity(capacity));
            grown.extend_from_slice(&self.message);
            self.message = grown;
        }
        self.message.extend_from_slice(&chunk.split_to(count));
    }
}

/// A message that is larger than this side sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLargeToSend {
    pub(crate) length: usize,
    pub(crate) limit: usize,
}

/// Encodes a message with its prefix, in one allocation that is wiped when HTTP/2 is done with it.
pub(crate) fn encode<M: prost::Message>(message: &M, limit: usize) -> Result<Bytes, TooLargeToSend> {
    let length = message.encoded_len();
    let Some(announced) = u32::try_from(length).ok().filter(|_| length <= limit) else {
        return Err(TooLargeToSend { length, limit });
    };
    let mut framed = Message::new(Vec::with_capacity(PREFIX + length));
    framed.push(0);
    framed.extend_from_slice(&announced.to_be_bytes());
    message.encode_raw(&mut *framed);
    Ok(Bytes::from_owner(framed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn deframe(limit: usize, chunks: impl IntoIterator<Item = Bytes>) -> Result<Vec<Message>, FrameError> {
        let mut deframer = Deframer::new(limit);
        let mut messages = Vec::new();
        for mut chunk in chunks {
            while let Some(message) = deframer.feed(&mut chunk)? {
                messages.push(message);
            }
        }
        deframer.finish().map(|()| messages)
    }

    #[test]
    fn an_announced_length_allocates_nothing_by_itself() {
        let mut deframer = Deframer::new(usize::MAX);
        let mut chunk = Bytes::from_static(&[0, 0xff, 0xff, 0xff, 0xff, 7]);
        assert_eq!(deframer.feed(&mut chunk), Ok(None));
        assert!(deframer.message.capacity() <= FIRST_ALLOCATION);
    }

    #[test]
    fn an_oversized_length_is_refused_with_both_numbers() {
        let chunk = Bytes::from_static(&[0, 0, 0, 1, 1]);
        assert_eq!(deframe(256, [chunk]), Err(FrameError::TooLarge { length: 257, limit: 256 }));
    }

    #[test]
    fn the_flag_is_judged_before_the_length_arrives() {
        assert_eq!(deframe(9, [Bytes::from_static(&[1])]), Err(FrameError::Compressed));
        assert_eq!(deframe(9, [Bytes::from_static(b"G")]), Err(FrameError::BadFlag(b'G')));
    }

    #[test]
    fn a_stream_that_ends_inside_a_message_is_truncated() {
        for end in 1..7 {
            let whole = Bytes::from_static(&[0, 0, 0, 0, 2, 1, 2]);
            assert_eq!(deframe(9, [whole.slice(..end)]), Err(FrameError::Truncated));
        }
    }

    proptest! {
        #[test]
        fn any_cut_of_the_stream_gives_the_same_messages(
            messages in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..9000), 0..5),
            cut in 1_usize..3000,
        ) {
            let mut stream = Vec::new();
            for message in &messages {
                stream.push(0);
                stream.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
                stream.extend(message);
            }
            let chunks: Vec<_> = stream.chunks(cut).map(Bytes::copy_from_slice).collect();
            let read: Vec<Vec<u8>> = deframe(9000, chunks).unwrap().iter().map(|message| message.to_vec()).collect();
            prop_assert_eq!(read, messages);
        }

        #[test]
        fn any_bytes_are_taken_within_the_limit(chunks: Vec<Vec<u8>>, limit in 0_usize..64) {
            if let Ok(messages) = deframe(limit, chunks.into_iter().map(Bytes::from)) {
                prop_assert!(messages.iter().all(|message| message.len() <= limit));
            }
        }
    }
}
