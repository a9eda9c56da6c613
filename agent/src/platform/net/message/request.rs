//! What the kernel is asked for.

use std::net::IpAddr;

use super::{
    ACK, ALIGN, CREATE, DUMP, INET, INET6, LIST_ADDRESSES, LIST_LINKS, NEW_ADDRESS, NEW_LINK, NEW_ROUTE, REPLACE,
    REQUEST, UP,
};

/// `IFA_F_NODAD`
const NO_DUPLICATE_DETECTION: u8 = 0x02;
/// A request to the kernel.
#[derive(Debug)]
pub struct Builder(Vec<u8>);

impl Builder {
    /// Begins a message; `body` is the fixed structure of its type.
    pub fn new(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Self {
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend((flags | REQUEST).to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(body);
        Self(bytes)
    }

    /// Adds an attribute.
    #[must_use]
    pub fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        self.0.resize(self.0.len().next_multiple_of(ALIGN), 0);
        // Values are addresses and numbers, 16 bytes at most.
        self.0.extend(u16::try_from(value.len() + 4).unwrap_or(u16::MAX).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self
    }

    /// The bytes to send.
    pub fn finish(mut self) -> Vec<u8> {
        let length = u32::try_from(self.0.len()).unwrap_or(u32::MAX).to_ne_bytes();
        self.0.iter_mut().zip(length).for_each(|(byte, value)| *byte = value);
        self.0
    }
}

/// The bytes of an address, in network order.
fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

fn family(address: IpAddr) -> u8 {
    if address.is_ipv4() { INET } else { INET6 }
}

/// Lists all links.
pub fn list_links(sequence: u32) -> Vec<u8> {
    Builder::new(LIST_LINKS, DUMP, sequence, &[0; 16]).finish()
}

/// Lists all IPv6 addresses.
pub fn list_addresses6(sequence: u32) -> Vec<u8> {
    Builder::new(LIST_ADDRESSES, DUMP, sequence, &[INET6, 0, 0, 0, 0, 0, 0, 0]).finish()
}

/// Switches a link on.
pub fn set_up(sequence: u32, index: u32) -> Vec<u8> {
    // struct ifinfomsg: family, padding, type, index, flags, mask of flags to change.
    let mut body = vec![0; 4];
    body.extend(index.to_ne_bytes());
    body.extend(UP.to_ne_bytes());
    body.extend(UP.to_ne_bytes());
    Builder::new(NEW_LINK, ACK, sequence, &body).finish()
}

/// Gives a link an address.
pub fn add_address(sequence: u32, index: u32, address: IpAddr, prefix: u8) -> Vec<u8> {
    // struct ifaddrmsg: family, prefix length, flags, scope, index.
    let mut body = vec![family(address), prefix, NO_DUPLICATE_DETECTION, 0];
    body.extend(index.to_ne_bytes());
    let bytes = octets(address);
    // IFA_LOCAL is the address itself, IFA_ADDRESS that of the other side, which is the same but on point-to-point links.
    Builder::new(NEW_ADDRESS, ACK | CREATE | REPLACE, sequence, &body)
        .attribute(2, &bytes)
        .attribute(1, &bytes)
        .finish()
}

/// Makes a gateway the default route.
pub fn add_default_route(sequence: u32, index: u32, gateway: IpAddr) -> Vec<u8> {
    const MAIN_TABLE: u8 = 254;
    const BOOT_PROTOCOL: u8 = 3;
    const UNIVERSE: u8 = 0;
    const UNICAST: u8 = 1;
    /// `RTNH_F_ONLINK`: the gateway is on this link even if no prefix says so, as clouds with /32 leases have it.
    const ON_LINK: u32 = 4;
    // struct rtmsg: family, destination and source length, TOS, table, protocol, scope, type, flags.
    let mut body = vec![family(gateway), 0, 0, 0, MAIN_TABLE, BOOT_PROTOCOL, UNIVERSE, UNICAST];
    body.extend(ON_LINK.to_ne_bytes());
    // RTA_GATEWAY, RTA_OIF
    Builder::new(NEW_ROUTE, ACK | CREATE | REPLACE, sequence, &body)
        .attribute(5, &octets(gateway))
        .attribute(4, &index.to_ne_bytes())
        .finish()
}
