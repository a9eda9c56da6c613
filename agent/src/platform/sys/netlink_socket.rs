//! Sockets to talk with the kernel (netlink(7)).

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, Protocol, RecvFlags, SocketFlags, SocketType, bind, recvfrom, socket_with};

/// Opens a socket of a protocol (`None` is routing) that hears these multicast groups (a bit each).
pub(in crate::platform) fn open(protocol: Option<Protocol>, groups: u32) -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, protocol)?;
    bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

/// Receives one message of at most `N` bytes from the kernel. What other processes send is dropped.
pub(in crate::platform) fn receive<const N: usize>(socket: impl AsFd, flags: RecvFlags) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; N];
    loop {
        let (_, length, sender) = match recvfrom(&socket, &mut buffer[..], flags | RecvFlags::TRUNC) {
            Err(Errno::INTR) => continue,
            result => result?,
        };
        // Any process may send to a netlink socket; only the kernel's port is 0.
        let from_kernel =
            sender.and_then(|address| SocketAddrNetlink::try_from(address).ok()).is_some_and(|a| a.pid() == 0);
        if !from_kernel {
            continue;
        }
        if length > N {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the kernel's message is larger than any it sends"));
        }
        buffer.truncate(length);
        return Ok(buffer);
    }
}
