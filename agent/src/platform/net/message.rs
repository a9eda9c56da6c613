//! Netlink messages: bytes to values and back, nothing else (netlink(7), rtnetlink(7), Linux `include/uapi`).
//!
//! All numbers are in the order of the processor. Readers stay inside of their slice and refuse what does not fit.

use std::fmt;
use std::net::IpAddr;

/// `struct nlmsghdr`: length, type, flags, sequence, port.
const HEADER: usize = 16;
/// `NLMSG_ALIGNTO` and `RTA_ALIGNTO`.
const ALIGN: usize = 4;

/// `NLM_F_REQUEST`
pub const REQUEST: u16 = 0x1;
/// `NLM_F_ACK`
pub const ACK: u16 = 0x4;
/// `NLM_F_DUMP`
pub const DUMP: u16 = 0x300;
/// `NLM_F_REPLACE`
pub const REPLACE: u16 = 0x100;
/// `NLM_F_CREATE`
pub const CREATE: u16 = 0x400;

/// `NLMSG_ERROR`, also the acknowledgement.
pub const ERROR: u16 = 2;
/// `NLMSG_DONE`
pub const DONE: u16 = 3;
/// `RTM_NEWLINK`
pub const NEW_LINK: u16 = 16;
/// `RTM_GETLINK`
pub const LIST_LINKS: u16 = 18;
/// `RTM_NEWADDR`
pub const NEW_ADDRESS: u16 = 20;
/// `RTM_GETADDR`
pub const LIST_ADDRESSES: u16 = 22;
/// `RTM_NEWROUTE`
pub const NEW_ROUTE: u16 = 24;
/// `RTM_NEWNDUSEROPT`
pub const NEW_ND_OPTION: u16 = 68;

/// `AF_INET`
pub const INET: u8 = 2;
/// `AF_INET6`
pub const INET6: u8 = 10;

/// `IFF_UP`
pub const UP: u32 = 0x1;
/// `IFF_LOOPBACK`
pub const LOOPBACK: u32 = 0x8;
/// `IFF_LOWER_UP`: the driver has a carrier.
pub const CARRIER: u32 = 0x1_0000;
/// `ARPHRD_ETHER`
pub const ETHERNET: u16 = 1;

/// `IFA_F_NODAD`
const NO_DUPLICATE_DETECTION: u8 = 0x02;
/// `IFA_F_TENTATIVE | IFA_F_DADFAILED`
const UNUSABLE: u32 = 0x40 | 0x08;

/// `RT_SCOPE_LINK`; those of wider validity are smaller: the whole net (0), and a site (200), in which QEMU's own router
/// announces its addresses.
const LINK_SCOPE: u8 = 253;

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

/// A message of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its type.
    pub kind: u16,
    /// The number of the request it answers; 0 for an announcement.
    pub sequence: u32,
    /// What follows the header.
    pub body: &'a [u8],
}

/// Splits what one call received into its messages.
pub fn messages(mut bytes: &[u8]) -> Result<Vec<Message<'_>>, MalformedMessage> {
    let mut messages = Vec::new();
    while !bytes.is_empty() {
        let length = u32_at(bytes, 0)? as usize;
        let body = bytes.get(HEADER..length).ok_or(MalformedMessage("a length"))?;
        messages.push(Message { kind: u16_at(bytes, 4)?, sequence: u32_at(bytes, 8)?, body });
        bytes = bytes.get(length.next_multiple_of(ALIGN)..).unwrap_or_default();
    }
    Ok(messages)
}

/// The error number of an [`ERROR`] message; 0 is success.
pub fn error_number(body: &[u8]) -> Result<i32, MalformedMessage> {
    array_at(body, 0).map(i32::from_ne_bytes).map(i32::saturating_neg)
}

/// `RTM_NEWLINK`, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkInfo {
    /// Its number.
    pub index: u32,
    /// `ARPHRD_…`
    pub kind: u16,
    /// `IFF_…`
    pub flags: u32,
    /// Its name.
    pub name: String,
    /// Its hardware address.
    pub address: Vec<u8>,
}

impl LinkInfo {
    /// Reads the body of a message.
    pub fn parse(body: &[u8]) -> Result<Self, MalformedMessage> {
        let mut link = Self {
            index: u32_at(body, 4)?,
            kind: u16_at(body, 2)?,
            flags: u32_at(body, 8)?,
            name: String::new(),
            address: Vec::new(),
        };
        for (kind, value) in attributes(body, 16)? {
            match kind {
                1 => link.address = value.to_vec(),
                3 => link.name = String::from_utf8_lossy(value.strip_suffix(b"\0").unwrap_or(value)).into_owned(),
                _ => {}
            }
        }
        Ok(link)
    }
}

/// `RTM_NEWADDR`, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressInfo {
    /// The number of its link.
    pub index: u32,
    /// The address.
    pub address: Option<IpAddr>,
    /// How many of its bits are the network.
    pub prefix: u8,
    /// Whether it is valid beyond its link and no duplicate was found or is still looked for.
    pub usable: bool,
}

impl AddressInfo {
    /// Reads the body of a message.
    pub fn parse(body: &[u8]) -> Result<Self, MalformedMessage> {
        let [_, prefix, flags, scope] = array_at(body, 0)?;
        let (mut address, mut flags) = (None, u32::from(flags));
        for (kind, value) in attributes(body, 8)? {
            match kind {
                1 if address.is_none() => address = address_of(value),
                2 => address = address_of(value),
                // IFA_FLAGS: more bits than the structure has room for.
                8 => flags = u32_at(value, 0)?,
                _ => {}
            }
        }
        Ok(Self { index: u32_at(body, 4)?, address, prefix, usable: scope < LINK_SCOPE && flags & UNUSABLE == 0 })
    }
}

/// Name servers of a router advertisement: `RTM_NEWNDUSEROPT` with the option of RFC 8106 section 5.1.
pub fn advertised_name_servers(body: &[u8]) -> Result<(u32, Vec<IpAddr>), MalformedMessage> {
    const RDNSS: u8 = 25;
    // struct nduseroptmsg: family, padding, length of the options, index of the link, ICMP type and code, padding.
    let (length, index) = (usize::from(u16_at(body, 2)?), u32_at(body, 4)?);
    let mut options = body.get(16..16 + length).ok_or(MalformedMessage("the length of an option"))?;
    let mut servers = Vec::new();
    while let [kind, eighths, ..] = *options {
        // RFC 4861 section 4.6: the length is in units of 8 octets, and zero must be discarded.
        let (option, rest) = options
            .split_at_checked(usize::from(eighths) * 8)
            .filter(|(option, _)| !option.is_empty())
            .ok_or(MalformedMessage("the length of an option"))?;
        let lifetime: [u8; 4] = array_at(option, 4)?;
        if kind == RDNSS && lifetime != [0; 4] {
            servers.extend(option.get(8..).unwrap_or_default().chunks_exact(16).filter_map(address_of));
        }
        options = rest;
    }
    Ok((index, servers))
}

fn address_of(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

/// The attributes behind a fixed structure of this length.
fn attributes(body: &[u8], from: usize) -> Result<Vec<(u16, &[u8])>, MalformedMessage> {
    /// The two highest bits are flags (`NLA_TYPE_MASK`).
    const TYPE: u16 = 0x3fff;
    let mut rest = body.get(from..).ok_or(MalformedMessage("a structure"))?;
    let mut attributes = Vec::new();
    while rest.len() >= ALIGN {
        let length = usize::from(u16_at(rest, 0)?);
        let value = rest.get(4..length).ok_or(MalformedMessage("the length of an attribute"))?;
        attributes.push((u16_at(rest, 2)? & TYPE, value));
        rest = rest.get(length.next_multiple_of(ALIGN)..).unwrap_or_default();
    }
    Ok(attributes)
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], MalformedMessage> {
    bytes.get(at..at + N).and_then(|slice| slice.try_into().ok()).ok_or(MalformedMessage("its end"))
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, MalformedMessage> {
    array_at(bytes, at).map(u16::from_ne_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, MalformedMessage> {
    array_at(bytes, at).map(u32::from_ne_bytes)
}

/// A message that ends too early or contradicts itself; says in what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MalformedMessage(pub &'static str);

impl fmt::Display for MalformedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "in {}", self.0)
    }
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
