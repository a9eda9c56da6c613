//! Fields of messages.

use latchkey_factory_plus::Upn;
use thiserror::Error;
use zeroize::Zeroizing;

/// Why a message is none.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum WireError {
    /// It ends too early, goes on too long, or has a field over its limit.
    #[error("a message, or a field of it, has a length outside of its limits")]
    Length,
    /// A kind of message, code or choice that there is none of.
    #[error("a message is of no known kind")]
    Kind,
    /// A text that is no UTF-8, or no principal.
    #[error("a message has a text that is not one of its kind")]
    Text,
}

/// Takes fields from a message.
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn of(message: &'a [u8]) -> Self {
        Self(message)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(WireError::Length)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn byte(&mut self) -> Result<u8, WireError> {
        Ok(self.take(1)?[0])
    }

    pub(super) fn flag(&mut self) -> Result<bool, WireError> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(WireError::Kind),
        }
    }

    pub(super) fn number(&mut self) -> Result<u32, WireError> {
        let bytes = self.take(4)?.try_into().map_err(|_| WireError::Length)?;
        Ok(u32::from_be_bytes(bytes))
    }

    /// A time; 0 is none.
    pub(super) fn time(&mut self) -> Result<Option<u32>, WireError> {
        Ok(Some(self.number()?).filter(|time| *time != 0))
    }

    pub(super) fn bytes(&mut self, limit: usize) -> Result<&'a [u8], WireError> {
        let length = self.number()? as usize;
        if length > limit {
            return Err(WireError::Length);
        }
        self.take(length)
    }

    pub(super) fn secret(&mut self, limit: usize) -> Result<Zeroizing<Vec<u8>>, WireError> {
        Ok(Zeroizing::new(self.bytes(limit)?.to_vec()))
    }

    pub(super) fn text(&mut self, limit: usize) -> Result<&'a str, WireError> {
        std::str::from_utf8(self.bytes(limit)?).map_err(|_| WireError::Text)
    }

    pub(super) fn upn(&mut self) -> Result<Upn, WireError> {
        self.text(Upn::LONGEST)?.parse::<Upn>().map_err(|_| WireError::Text)
    }

    /// The number of items that follow, each of at least `least` bytes.
    pub(super) fn count(&mut self, limit: usize, least: usize) -> Result<usize, WireError> {
        let count = self.number()? as usize;
        let fits = count <= limit && count.checked_mul(least).is_some_and(|bytes| bytes <= self.0.len());
        fits.then_some(count).ok_or(WireError::Length)
    }

    /// Nothing may be left.
    pub(super) fn end(self) -> Result<(), WireError> {
        if self.0.is_empty() { Ok(()) } else { Err(WireError::Length) }
    }
}

/// Adds fields to a message. Made with room for all of them, so that no secret stays in a block that was outgrown.
pub(super) struct Message(Zeroizing<Vec<u8>>);

impl Message {
    pub(super) fn new(kind: u8, room: usize) -> Self {
        let mut bytes = Zeroizing::new(Vec::with_capacity(room + 64));
        bytes.push(kind);
        Self(bytes)
    }

    pub(super) fn byte(mut self, byte: u8) -> Self {
        self.0.push(byte);
        self
    }

    pub(super) fn number(mut self, number: u32) -> Self {
        self.0.extend_from_slice(&number.to_be_bytes());
        self
    }

    pub(super) fn time(self, time: Option<u32>) -> Self {
        self.number(time.unwrap_or(0))
    }

    pub(super) fn bytes(self, bytes: &[u8]) -> Self {
        // Whatever is as long is refused by the reader's limit.
        let mut message = self.number(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        message.0.extend_from_slice(bytes);
        message
    }

    pub(super) fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    pub(super) fn done(self) -> Zeroizing<Vec<u8>> {
        self.0
    }
}
