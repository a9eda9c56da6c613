//! The ioctls of block devices (`linux/fs.h`), as typed constants.
#![expect(unsafe_code, reason = "ioctl(2) takes pointers")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// "return device size in bytes (u64 *arg)": `_IOR(0x12, 114, size_t)`.
const BLKGETSIZE64: libc::Ioctl = libc::_IOR::<usize>(0x12, 114);

/// "get block device sector size" (int *arg): `_IO(0x12, 104)`.
const BLKSSZGET: libc::Ioctl = libc::_IO(0x12, 104);

pub(super) fn size(device: &File) -> io::Result<u64> {
    let mut bytes = 0_u64;
    // SAFETY: BLKGETSIZE64 writes one u64 through the pointer, which is valid for the whole call.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), BLKGETSIZE64, &raw mut bytes) };
    if result == 0 { Ok(bytes) } else { Err(io::Error::last_os_error()) }
}

pub(super) fn logical_block_size(device: &File) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: BLKSSZGET writes one int through the pointer, which is valid for the whole call.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), BLKSSZGET, &raw mut bytes) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    u32::try_from(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the type depends on the C library")]
    fn numbers_are_those_of_the_kernel_headers() {
        assert_eq!(BLKGETSIZE64 as u32, 0x8008_1272);
        assert_eq!(BLKSSZGET as u32, 0x1268);
    }
}
