//! Messages between the kernel and who serves a device or a file system for it (`include/uapi/linux/fuse.h`).

use std::fs::File;
use std::io::{self, Write as _};

use rustix::io::Errno;

/// The kernel wants room for its largest message.
pub(crate) const ROOM: usize = 256 * 1024;

/// A message of the kernel: a head of 40 bytes, then what its opcode says. What is missing is zero.
pub(crate) struct Request<'a>(pub(crate) &'a [u8]);

impl Request<'_> {
    pub(crate) fn opcode(&self) -> u32 {
        self.word(4)
    }

    pub(crate) fn word(&self, at: usize) -> u32 {
        self.0.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
    }

    pub(crate) fn long(&self, at: usize) -> u64 {
        self.0.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
    }

    pub(crate) fn bytes(&self, at: usize, length: usize) -> &[u8] {
        self.0.get(at..at + length).unwrap_or_default()
    }

    /// A name, which a zero ends.
    pub(crate) fn name(&self, at: usize) -> &[u8] {
        self.0.get(at..).and_then(|rest| rest.split(|byte| *byte == 0).next()).unwrap_or_default()
    }

    /// Answers it.
    pub(crate) fn answer(&self, mut kernel: &File, answer: Result<Vec<u8>, Errno>) -> io::Result<()> {
        let (error, body) = answer.map_or_else(|error| (-error.raw_os_error(), Vec::new()), |body| (0, body));
        let total = u32::try_from(16 + body.len()).map_err(io::Error::other)?;
        let head = [&total.to_le_bytes()[..], &error.to_le_bytes(), self.bytes(8, 8)].concat();
        let sent = kernel.write(&[head, body].concat())?;
        if u32::try_from(sent).ok() == Some(total) { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }
}
