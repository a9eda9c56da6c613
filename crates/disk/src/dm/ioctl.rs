//! All ioctls of `/dev/mapper/control`, as typed constants, and the one call that issues them.
//!
//! Source: the kernel's `include/uapi/linux/dm-ioctl.h`, interface version 4.
#![expect(unsafe_code, reason = "ioctl(2) takes a pointer")]

use super::request::HEADER;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// One command: `_IOWR(DM_IOCTL, number, struct dm_ioctl)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Command(libc::Ioctl);

impl Command {
    pub(super) const VERSION: Self = Self::numbered(0);
    pub(super) const DEV_CREATE: Self = Self::numbered(3);
    pub(super) const DEV_REMOVE: Self = Self::numbered(4);
    /// Suspends, or without `DM_SUSPEND_FLAG` resumes: the loaded table becomes the live one.
    pub(super) const DEV_SUSPEND: Self = Self::numbered(6);
    pub(super) const TABLE_LOAD: Self = Self::numbered(9);
    pub(super) const TABLE_STATUS: Self = Self::numbered(12);
    pub(super) const LIST_VERSIONS: Self = Self::numbered(13);

    const fn numbered(number: u32) -> Self {
        const DM_IOCTL: u32 = 0xfd;
        Self(libc::_IOWR::<[u8; HEADER]>(DM_IOCTL, number))
    }
}

/// Flags of `struct dm_ioctl`.
pub(super) mod flag {
    /// `DM_READONLY_FLAG`.
    pub(in super::super) const READ_ONLY: u32 = 1;
    /// `DM_STATUS_TABLE_FLAG`: "return table information instead of current status".
    pub(in super::super) const STATUS_TABLE: u32 = 1 << 4;
    /// `DM_BUFFER_FULL_FLAG`: "the results ... were too large to fit".
    pub(in super::super) const BUFFER_FULL: u32 = 1 << 8;
    /// `DM_SECURE_DATA_FLAG`: "request that all ... buffers are wiped after use".
    pub(in super::super) const SECURE_DATA: u32 = 1 << 15;
}

/// Issues `command`; the kernel reads its request from `buffer` and writes its answer there.
pub(super) fn issue(control: &File, command: Command, buffer: &mut [u8]) -> io::Result<()> {
    debug_assert!(buffer.len() >= HEADER, "a request is at least its header");
    // SAFETY: every request made by `super::request` holds its own length in `data_size`, and the kernel reads and
    // writes no further than that; the buffer is exclusively ours for the call.
    let result = unsafe { libc::ioctl(control.as_raw_fd(), command.0, buffer.as_mut_ptr()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the type depends on the C library")]
    fn numbers_are_those_of_the_kernel_headers() {
        for (command, number) in [
            (Command::VERSION, 0xc138_fd00),
            (Command::DEV_CREATE, 0xc138_fd03),
            (Command::DEV_REMOVE, 0xc138_fd04),
            (Command::DEV_SUSPEND, 0xc138_fd06),
            (Command::TABLE_LOAD, 0xc138_fd09),
            (Command::TABLE_STATUS, 0xc138_fd0c),
            (Command::LIST_VERSIONS, 0xc138_fd0d),
        ] {
            assert_eq!(command.0 as u32, number);
        }
    }
}
