//! A port of one test.

use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

/// A TCP port that is the holder's while this lives: nobody is given it by chance, not as a listener's port and not as a
/// connection's. Connections to it are refused until the holder listens there, by [`std::net::TcpListener::bind`] or alike,
/// and again when it has stopped; both may happen any number of times.
///
/// The kernel never chooses a port that somebody is bound to. It lets two bind it all the same if both say `SO_REUSEADDR`,
/// as listeners of Rust's library do, and neither listens yet: socket(7), "a socket may bind, except when there is an
/// active listening socket bound to the address".
#[derive(Debug)]
pub struct Port {
    _reserved: OwnedFd,
    number: u16,
}

impl Port {
    /// One that nobody has, on all IPv4 addresses of this machine.
    ///
    /// # Panics
    /// If there is none.
    pub fn reserve() -> Self {
        let flags = SocketFlags::CLOEXEC;
        let reserved = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).expect("a socket");
        set_socket_reuseaddr(&reserved, true).expect("an option that every socket has");
        bind(&reserved, &SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))).expect("a free port");
        let name = getsockname(&reserved).expect("its address");
        let number = SocketAddr::try_from(name).expect("an IPv4 address").port();
        Self { _reserved: reserved, number }
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// It, on the loopback interface.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.number).into()
    }
}
