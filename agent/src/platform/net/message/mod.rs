//! Netlink messages: bytes to values and back, nothing else (netlink(7), rtnetlink(7), Linux `include/uapi`).
//!
//! All numbers are in the order of the processor. Readers stay inside of their slice and refuse what does not fit.

mod report;
mod request;

pub use report::{AddressInfo, LinkInfo, advertised_name_servers};
pub use request::{Builder, add_address, add_default_route, list_addresses6, list_links, set_up};

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
pub fn messages(mut bytes: &[u8]) -> Result<Vec<Message<'_>>, MessageError> {
    let mut messages = Vec::new();
    while !bytes.is_empty() {
        let length = u32_at(bytes, 0)? as usize;
        let body = bytes.get(HEADER..length).ok_or(MessageError("a length"))?;
        messages.push(Message { kind: u16_at(bytes, 4)?, sequence: u32_at(bytes, 8)?, body });
        bytes = bytes.get(length.next_multiple_of(ALIGN)..).unwrap_or_default();
    }
    Ok(messages)
}

/// The error number of an [`ERROR`] message; 0 is success.
pub fn error_number(body: &[u8]) -> Result<i32, MessageError> {
    array_at(body, 0).map(i32::from_ne_bytes).map(i32::saturating_neg)
}

/// The attributes behind a fixed structure of this length.
fn attributes(body: &[u8], from: usize) -> Result<Vec<(u16, &[u8])>, MessageError> {
    /// The two highest bits are flags (`NLA_TYPE_MASK`).
    const TYPE: u16 = 0x3fff;
    let mut rest = body.get(from..).ok_or(MessageError("a structure"))?;
    let mut attributes = Vec::new();
    while rest.len() >= ALIGN {
        let length = usize::from(u16_at(rest, 0)?);
        let value = rest.get(4..length).ok_or(MessageError("the length of an attribute"))?;
        attributes.push((u16_at(rest, 2)? & TYPE, value));
        rest = rest.get(length.next_multiple_of(ALIGN)..).unwrap_or_default();
    }
    Ok(attributes)
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], MessageError> {
    latchkey_boot_formats::array_at(bytes, at).ok_or(MessageError("its end"))
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, MessageError> {
    array_at(bytes, at).map(u16::from_ne_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, MessageError> {
    array_at(bytes, at).map(u32::from_ne_bytes)
}

/// A message that ends too early or contradicts itself; says in what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("in {0}")]
pub struct MessageError(pub &'static str);

#[cfg(test)]
mod tests;
