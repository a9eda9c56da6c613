//! Big-endian reader and writer (part 1, section 4.2: "canonical form").

use super::WireError;

/// Takes fields off the front of a byte slice. Never reads past its end and never allocates.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Parses the whole of `bytes` with `parse`; bytes that are left over are an error.
    pub fn all<T>(bytes: &'a [u8], parse: impl FnOnce(&mut Self) -> Result<T, WireError>) -> Result<T, WireError> {
        let mut reader = Self::new(bytes);
        let value = parse(&mut reader)?;
        reader.finish()?;
        Ok(value)
    }

    /// The next `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], WireError> {
        let (head, tail) =
            self.rest.split_at_checked(len).ok_or(WireError::Truncated { expected: len, got: self.rest.len() })?;
        self.rest = tail;
        Ok(head)
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (head, tail) =
            self.rest.split_first_chunk::<N>().ok_or(WireError::Truncated { expected: N, got: self.rest.len() })?;
        self.rest = tail;
        Ok(*head)
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, WireError> {
        self.array::<1>().map(u8::from_be_bytes)
    }

    /// Two bytes, big-endian.
    pub fn u16(&mut self) -> Result<u16, WireError> {
        self.array().map(u16::from_be_bytes)
    }

    /// Four bytes, big-endian.
    pub fn u32(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_be_bytes)
    }

    /// Eight bytes, big-endian.
    pub fn u64(&mut self) -> Result<u64, WireError> {
        self.array().map(u64::from_be_bytes)
    }

    /// A `TPM2B`: two bytes of length, at most `max`, and so many bytes. `field` names it in the error.
    pub fn sized(&mut self, field: &'static str, max: usize) -> Result<&'a [u8], WireError> {
        let len = usize::from(self.u16()?);
        if len > max {
            return Err(WireError::Length { field, max, got: len });
        }
        self.bytes(len)
    }

    /// Everything that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Refuses bytes that are left over.
    pub fn finish(self) -> Result<(), WireError> {
        if self.rest.is_empty() { Ok(()) } else { Err(WireError::Trailing(self.rest.len())) }
    }
}

/// Appends fields to a growing buffer.
#[derive(Debug, Clone, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// An empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// One byte.
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes(&[value])
    }

    /// Two bytes, big-endian.
    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    /// Four bytes, big-endian.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    /// Eight bytes, big-endian.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    /// Bytes as they are.
    pub fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(value);
        self
    }

    /// A `TPM2B`: two bytes of length, then the bytes.
    ///
    /// # Panics
    /// If `value` is longer than 65535 bytes. No parser of this crate yields a field above 1024 bytes.
    pub fn sized(&mut self, value: &[u8]) -> &mut Self {
        let len = u16::try_from(value.len()).expect("every TPM2B of this crate is bounded far below 64 KiB");
        self.u16(len).bytes(value)
    }

    /// The buffer.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    /// Runs `write` on an empty buffer and returns it.
    pub fn build(write: impl FnOnce(&mut Self)) -> Vec<u8> {
        let mut writer = Self::new();
        write(&mut writer);
        writer.finish()
    }
}
