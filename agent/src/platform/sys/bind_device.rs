#![expect(unsafe_code, reason = "no safe interface has this socket option")]
//! Ties a socket to one network interface.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// From now on the socket sends and receives through this interface only (`SO_BINDTODEVICE`, socket(7)).
pub(in crate::platform) fn bind_device(socket: impl AsFd, interface: &str) -> io::Result<()> {
    let name = CString::new(interface)?;
    let bytes = name.as_bytes_with_nul();
    let length = libc::socklen_t::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the descriptor is open for as long as `socket` is borrowed, and the kernel only reads `length` bytes at
    // the pointer, which is the length of that very slice.
    let result = unsafe {
        let socket = socket.as_fd().as_raw_fd();
        libc::setsockopt(socket, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, bytes.as_ptr().cast(), length)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
