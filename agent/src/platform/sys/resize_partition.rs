#![expect(unsafe_code, reason = "no safe interface has this ioctl")]
//! Tells the kernel that a partition has grown.
//!
//! Source: the kernel's `include/uapi/linux/blkpg.h`.

use std::ffi::{c_char, c_int, c_longlong, c_void};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

/// `_IO(0x12, 105)`
const BLKPG: libc::Ioctl = libc::_IO(0x12, 105);
/// `BLKPG_RESIZE_PARTITION`
const RESIZE: c_int = 3;

/// `struct blkpg_ioctl_arg`
#[repr(C)]
struct Argument {
    op: c_int,
    flags: c_int,
    length: c_int,
    data: *mut c_void,
}

/// `struct blkpg_partition`
#[repr(C)]
struct Partition {
    start: c_longlong,
    length: c_longlong,
    number: c_int,
    device_name: [c_char; 64],
    volume_name: [c_char; 64],
}

/// From now on this partition of the disk, which begins at byte `start`, has `length` bytes. Other partitions may be in
/// use meanwhile; the kernel refuses one that would overlap them, or that begins elsewhere.
pub(crate) fn resize_partition(disk: &File, number: u32, start: u64, length: u64) -> io::Result<()> {
    let invalid = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let mut partition = Partition {
        start: start.try_into().map_err(invalid)?,
        length: length.try_into().map_err(invalid)?,
        number: number.try_into().map_err(invalid)?,
        device_name: [0; 64],
        volume_name: [0; 64],
    };
    let size = c_int::try_from(size_of::<Partition>()).map_err(invalid)?;
    let mut argument = Argument { op: RESIZE, flags: 0, length: size, data: (&raw mut partition).cast() };
    // SAFETY: both structures have the kernel's layout and live until the call returns; the kernel only reads them.
    let result = unsafe { libc::ioctl(disk.as_raw_fd(), BLKPG, &raw mut argument) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the type depends on the C library")]
    fn numbers_and_layouts_are_those_of_the_kernel_headers() {
        assert_eq!(BLKPG as u32, 0x1269);
        assert_eq!((size_of::<Argument>(), size_of::<Partition>()), (24, 152));
    }

    #[test]
    fn what_is_no_disk_is_refused() {
        let file = tempfile::tempfile().unwrap();
        assert!(resize_partition(&file, 1, 0, 4096).is_err());
        assert!(resize_partition(&file, 1, u64::MAX, 4096).is_err());
    }
}
