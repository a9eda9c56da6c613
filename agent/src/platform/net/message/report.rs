//! What the kernel tells.

use std::net::IpAddr;

use super::{MessageError, array_at, attributes, u16_at, u32_at};

/// `IFA_F_TENTATIVE | IFA_F_DADFAILED`
const UNUSABLE: u32 = 0x40 | 0x08;

/// `RT_SCOPE_LINK`; those of wider validity are smaller: the whole net (0), and a site (200), in which QEMU's own router
/// announces its addresses.
const LINK_SCOPE: u8 = 253;

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
    pub fn parse(body: &[u8]) -> Result<Self, MessageError> {
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
    pub fn parse(body: &[u8]) -> Result<Self, MessageError> {
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
pub fn advertised_name_servers(body: &[u8]) -> Result<(u32, Vec<IpAddr>), MessageError> {
    const RDNSS: u8 = 25;
    // struct nduseroptmsg: family, padding, length of the options, index of the link, ICMP type and code, padding.
    let (length, index) = (usize::from(u16_at(body, 2)?), u32_at(body, 4)?);
    let mut options = body.get(16..16 + length).ok_or(MessageError("the length of an option"))?;
    let mut servers = Vec::new();
    while let [kind, eighths, ..] = *options {
        // RFC 4861 section 4.6: the length is in units of 8 octets, and zero must be discarded.
        let (option, rest) = options
            .split_at_checked(usize::from(eighths) * 8)
            .filter(|(option, _)| !option.is_empty())
            .ok_or(MessageError("the length of an option"))?;
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
