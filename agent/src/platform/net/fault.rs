//! Why the network is not up.

use std::fmt;
use std::io;

use super::message::MalformedMessage;

/// The network did not come up.
#[derive(Debug)]
pub enum NetFault {
    /// A socket can not be had or used.
    Socket {
        /// What for.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel did not do what was asked by netlink.
    Refused {
        /// What was asked.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel's answer could not be read.
    Malformed(MalformedMessage),
    /// There is no such network interface.
    NoInterface {
        /// Which one was looked for.
        wanted: String,
    },
    /// No interface has a carrier.
    NoCarrier {
        /// Those that were tried.
        tried: String,
    },
    /// No DHCP server gave an address.
    NoLease {
        /// The interface.
        interface: String,
    },
    /// The address was not given again.
    LeaseLost,
    /// No router announced a network.
    NoAdvertisement {
        /// The interface.
        interface: String,
    },
    /// `/etc/resolv.conf` can not be written.
    Resolver {
        /// What the kernel said.
        source: io::Error,
    },
    /// A name has no address.
    Unresolved {
        /// The name.
        name: String,
        /// What the resolver said.
        reason: String,
    },
}

impl NetFault {
    /// The stable reason code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Socket { .. } => "network-socket-failed",
            Self::Refused { .. } => "network-setup-refused",
            Self::Malformed(_) => "netlink-malformed",
            Self::NoInterface { .. } => "no-interface",
            Self::NoCarrier { .. } => "no-carrier",
            Self::NoLease { .. } => "no-dhcp-lease",
            Self::LeaseLost => "dhcp-lease-lost",
            Self::NoAdvertisement { .. } => "no-router-advertisement",
            Self::Resolver { .. } => "resolver-not-written",
            Self::Unresolved { .. } => "name-unresolved",
        }
    }
}

impl fmt::Display for NetFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket { what, source } => {
                write!(f, "no socket for {what} ({source}): boot a kernel that has it built in")
            }
            Self::Refused { what, source } => {
                write!(
                    f,
                    "the kernel does not {what} ({source}): check latchkey.network against the network of this machine"
                )
            }
            Self::Malformed(fault) => {
                write!(f, "the kernel's netlink message is malformed ({fault}): report this as a bug")
            }
            Self::NoInterface { wanted } => write!(
                f,
                "there is no network interface for {wanted}: put its driver into the initramfs or correct latchkey.interface"
            ),
            Self::NoCarrier { tried } => write!(
                f,
                "no network interface has a carrier (tried {tried}): connect the cable or the virtual network, or name \
                 another one by latchkey.interface"
            ),
            Self::NoLease { interface } => write!(
                f,
                "no DHCP server gave an address on {interface}: start one there, or use latchkey.network=static:…"
            ),
            Self::LeaseLost => write!(f, "the DHCP server did not renew the address: check it, the node boots again"),
            Self::NoAdvertisement { interface } => write!(
                f,
                "no router announced an IPv6 network with addresses on {interface}: switch its announcements on, or use \
                 latchkey.network=dhcp4"
            ),
            Self::Resolver { source } => {
                write!(f, "/etc/resolv.conf can not be written ({source}): the initramfs must be writable")
            }
            Self::Unresolved { name, reason } => {
                write!(f, "{name} has no address ({reason}): check the name and the name server, or use an address")
            }
        }
    }
}

impl From<MalformedMessage> for NetFault {
    fn from(fault: MalformedMessage) -> Self {
        Self::Malformed(fault)
    }
}
