//! The fields of a log; one that is not there is an error with its place.

use latchkey_boot_formats::Cursor;

use crate::error::{LogError, LogErrorKind};

/// The rest of a log, and where in the log it begins.
pub(crate) struct Bytes<'a> {
    fields: Cursor<'a>,
    start: usize,
}

impl<'a> Bytes<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self::at(bytes, 0)
    }

    /// Bytes that begin at `offset` of the log, which errors name.
    pub(crate) fn at(bytes: &'a [u8], offset: usize) -> Self {
        Self { fields: Cursor::new(bytes), start: offset }
    }

    pub(crate) fn offset(&self) -> usize {
        self.start + self.fields.offset()
    }

    pub(crate) fn remaining(&self) -> usize {
        self.fields.remaining()
    }

    pub(crate) fn error(&self, kind: LogErrorKind) -> LogError {
        LogError { offset: self.offset(), kind }
    }

    pub(crate) fn take(&mut self, length: usize, what: &'static str) -> Result<&'a [u8], LogError> {
        self.fields.take(length).ok_or_else(|| self.error(LogErrorKind::Truncated { what }))
    }

    pub(crate) fn u8(&mut self, what: &'static str) -> Result<u8, LogError> {
        self.fields.u8().ok_or_else(|| self.error(LogErrorKind::Truncated { what }))
    }

    pub(crate) fn u16(&mut self, what: &'static str) -> Result<u16, LogError> {
        self.fields.u16().ok_or_else(|| self.error(LogErrorKind::Truncated { what }))
    }

    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32, LogError> {
        self.fields.u32().ok_or_else(|| self.error(LogErrorKind::Truncated { what }))
    }
}
