//! Why the network is not up.

use std::io;

use super::message::MessageError;
use latchkey_reason::reason_codes;

/// The network did not come up.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// A socket cannot be had or used.
    #[error("no socket for {what} ({source})")]
    Socket {
        /// What for.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel did not do what was asked by netlink.
    #[error("the kernel does not {what} ({source})")]
    Refused {
        /// What was asked.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel's answer could not be read.
    #[error("the kernel's netlink message is malformed ({0})")]
    Malformed(#[from] MessageError),
    /// There is no such network interface.
    #[error("there is no network interface for {wanted}")]
    NoInterface {
        /// Which one was looked for.
        wanted: String,
    },
    /// No interface has a carrier.
    #[error("no network interface has a carrier (tried {tried})")]
    NoCarrier {
        /// Those that were tried.
        tried: String,
    },
    /// No DHCP server gave an address.
    #[error("no DHCP server gave an address on {interface}")]
    NoLease {
        /// The interface.
        interface: String,
    },
    /// The address was not given again.
    #[error("the DHCP server did not renew the address")]
    LeaseLost,
    /// No router announced a network.
    #[error("no router announced an IPv6 network with addresses on {interface}")]
    NoAdvertisement {
        /// The interface.
        interface: String,
    },
    /// `/etc/resolv.conf` cannot be written.
    #[error("/etc/resolv.conf cannot be written ({source})")]
    Resolver {
        /// What the kernel said.
        source: io::Error,
    },
    /// A name has no address.
    #[error("{name} has no address ({reason})")]
    Unresolved {
        /// The name.
        name: String,
        /// What the resolver said.
        reason: String,
    },
}

reason_codes! {
    /// The network did not come up.
    pub enum NetworkCode {
        /// A socket cannot be had or used.
        Socket = "network-socket-failed":
            "boot a kernel that has such sockets built in";
        /// The kernel did not do what was asked by netlink.
        Refused = "network-setup-refused":
            "check latchkey.network against the network of this machine";
        /// The kernel's answer could not be read.
        Malformed = "netlink-malformed":
            "report this as a bug";
        /// There is no such network interface.
        NoInterface = "no-interface":
            "put its driver into the initramfs, or correct latchkey.interface";
        /// No interface has a carrier.
        NoCarrier = "no-carrier":
            "connect the cable or the virtual network, or name another interface by latchkey.interface";
        /// No DHCP server gave an address.
        NoLease = "no-dhcp-lease":
            "start a DHCP server there, or use latchkey.network=static:…";
        /// The address was not given again.
        LeaseLost = "dhcp-lease-lost":
            "check the DHCP server; the node boots again";
        /// No router announced a network.
        NoAdvertisement = "no-router-advertisement":
            "switch the router's announcements on, or use latchkey.network=dhcp4";
        /// `/etc/resolv.conf` cannot be written.
        Resolver = "resolver-not-written":
            "use an initramfs that is writable";
        /// A name has no address.
        Unresolved = "name-unresolved":
            "check the name and the name server, or use an address";
    }
}

impl NetworkError {
    /// The stable reason code.
    pub fn code(&self) -> NetworkCode {
        match self {
            Self::Socket { .. } => NetworkCode::Socket,
            Self::Refused { .. } => NetworkCode::Refused,
            Self::Malformed(_) => NetworkCode::Malformed,
            Self::NoInterface { .. } => NetworkCode::NoInterface,
            Self::NoCarrier { .. } => NetworkCode::NoCarrier,
            Self::NoLease { .. } => NetworkCode::NoLease,
            Self::LeaseLost => NetworkCode::LeaseLost,
            Self::NoAdvertisement { .. } => NetworkCode::NoAdvertisement,
            Self::Resolver { .. } => NetworkCode::Resolver,
            Self::Unresolved { .. } => NetworkCode::Unresolved,
        }
    }
}
