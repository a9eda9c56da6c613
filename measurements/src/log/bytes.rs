//! Reads little-endian fields and never beyond the end.

use crate::error::{LogError, LogFault};

/// The rest of a log, and where in the log it begins.
pub(crate) struct Bytes<'a> {
    rest: &'a [u8],
    offset: usize,
}

impl<'a> Bytes<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self::at(bytes, 0)
    }

    /// Bytes that begin at `offset` of the log, which errors name.
    pub(crate) fn at(bytes: &'a [u8], offset: usize) -> Self {
        Self { rest: bytes, offset }
    }

    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn error(&self, fault: LogFault) -> LogError {
        LogError { offset: self.offset, fault }
    }

    pub(crate) fn take(&mut self, length: usize, what: &'static str) -> Result<&'a [u8], LogError> {
        let (taken, rest) =
            self.rest.split_at_checked(length).ok_or_else(|| self.error(LogFault::Truncated { what }))?;
        self.rest = rest;
        self.offset += length;
        Ok(taken)
    }

    pub(crate) fn u8(&mut self, what: &'static str) -> Result<u8, LogError> {
        self.array::<1>(what).map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self, what: &'static str) -> Result<u16, LogError> {
        self.array(what).map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32, LogError> {
        self.array(what).map(u32::from_le_bytes)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], LogError> {
        let (taken, rest) =
            self.rest.split_first_chunk::<N>().ok_or_else(|| self.error(LogFault::Truncated { what }))?;
        self.rest = rest;
        self.offset += N;
        Ok(*taken)
    }
}
