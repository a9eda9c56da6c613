//! Talks with the kernel about links, addresses and routes.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::net::{RecvFlags, SendFlags, send};
use smol::Async;

use super::message::{self, AddressInfo, LinkInfo, Message};
use super::{NetworkError, before};
use crate::platform::sys::netlink_socket;

/// The kernel fills at most this much per call (`NLMSG_GOODSIZE` and 32 KiB for lists).
const MAX_RECEIVE: usize = 64 * 1024;
/// More calls than any list needs.
const MAX_PARTS: usize = 256;

/// Requests; the kernel answers each within the call that sends it.
pub(super) struct Routing {
    socket: OwnedFd,
    sequence: u32,
}

impl Routing {
    pub(super) fn open() -> Result<Self, NetworkError> {
        let socket =
            netlink_socket::open(None, 0).map_err(|source| NetworkError::Socket { what: "netlink", source })?;
        Ok(Self { socket, sequence: 0 })
    }

    pub(super) fn links(&mut self) -> Result<Vec<LinkInfo>, NetworkError> {
        let mut links = Vec::new();
        self.ask("list network interfaces", message::list_links, |message| {
            if message.kind == message::NEW_LINK {
                links.push(LinkInfo::parse(message.body)?);
            }
            Ok(())
        })?;
        Ok(links)
    }

    pub(super) fn addresses6(&mut self) -> Result<Vec<AddressInfo>, NetworkError> {
        let mut addresses = Vec::new();
        self.ask("list addresses", message::list_addresses6, |message| {
            if message.kind == message::NEW_ADDRESS {
                addresses.push(AddressInfo::parse(message.body)?);
            }
            Ok(())
        })?;
        Ok(addresses)
    }

    pub(super) fn loopback_up(&mut self) -> Result<(), NetworkError> {
        for link in self.links()?.iter().filter(|link| link.flags & message::LOOPBACK != 0) {
            self.set_up(link.index)?;
        }
        Ok(())
    }

    pub(super) fn set_up(&mut self, index: u32) -> Result<(), NetworkError> {
        self.ask("switch the interface on", |sequence| message::set_up(sequence, index), |_| Ok(()))
    }

    pub(super) fn add_address(&mut self, index: u32, address: IpAddr, prefix: u8) -> Result<(), NetworkError> {
        let request = |sequence| message::add_address(sequence, index, address, prefix);
        self.ask("take the address", request, |_| Ok(()))
    }

    pub(super) fn add_default_route(&mut self, index: u32, gateway: IpAddr) -> Result<(), NetworkError> {
        let request = |sequence| message::add_default_route(sequence, index, gateway);
        self.ask("take the gateway", request, |_| Ok(()))
    }

    /// Sends a request and reads the answer to its end: an acknowledgement, an error, or the end of a list.
    fn ask(
        &mut self,
        what: &'static str,
        request: impl FnOnce(u32) -> Vec<u8>,
        mut each: impl FnMut(Message<'_>) -> Result<(), NetworkError>,
    ) -> Result<(), NetworkError> {
        self.sequence = self.sequence.wrapping_add(1).max(1);
        let refused = |source| NetworkError::Refused { what, source };
        send(&self.socket, &request(self.sequence), SendFlags::empty()).map_err(|e| refused(e.into()))?;
        for _ in 0..MAX_PARTS {
            let bytes = netlink_socket::receive::<MAX_RECEIVE>(&self.socket, RecvFlags::empty()).map_err(refused)?;
            for message in message::messages(&bytes)?.into_iter().filter(|m| m.sequence == self.sequence) {
                match message.kind {
                    message::DONE => return Ok(()),
                    message::ERROR => {
                        return match message::error_number(message.body)? {
                            0 => Ok(()),
                            number => Err(refused(io::Error::from_raw_os_error(number))),
                        };
                    }
                    _ => each(message)?,
                }
            }
        }
        Err(refused(io::ErrorKind::InvalidData.into()))
    }
}

/// Announcements: links, IPv6 addresses, options of router advertisements.
pub(super) struct Events {
    socket: Async<OwnedFd>,
    /// Name servers that routers announced, with the number of the link.
    pub(super) name_servers: Vec<(u32, IpAddr)>,
}

impl Events {
    pub(super) fn open() -> Result<Self, NetworkError> {
        /// `RTNLGRP_LINK` (1), `RTNLGRP_IPV6_IFADDR` (9) and `RTNLGRP_ND_USEROPT` (20), a bit each.
        const GROUPS: u32 = 1 | 1 << 8 | 1 << 19;
        let open = || Async::new(netlink_socket::open(None, GROUPS)?);
        let socket = open().map_err(|source| NetworkError::Socket { what: "netlink", source })?;
        Ok(Self { socket, name_servers: Vec::new() })
    }

    /// Waits until anything changes. `false` when the time is over.
    pub(super) async fn change(&mut self, deadline: Instant) -> Result<bool, NetworkError> {
        let receive = |socket: &OwnedFd| netlink_socket::receive::<MAX_RECEIVE>(socket, RecvFlags::DONTWAIT);
        match before(deadline, self.socket.read_with(receive)).await {
            None => Ok(false),
            Some(Ok(bytes)) => self.keep_name_servers(&bytes).map(|()| true),
            // Some announcements were lost, so something changed.
            Some(Err(error)) if error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()) => Ok(true),
            Some(Err(source)) => Err(NetworkError::Socket { what: "netlink", source }),
        }
    }

    fn keep_name_servers(&mut self, bytes: &[u8]) -> Result<(), NetworkError> {
        for message in message::messages(bytes)?.iter().filter(|message| message.kind == message::NEW_ND_OPTION) {
            // What a router sends may be malformed; that is no reason to stop.
            if let Ok((index, servers)) = message::advertised_name_servers(message.body) {
                self.name_servers.extend(servers.into_iter().map(|server| (index, server)));
                self.name_servers.truncate(MAX_KEPT);
            }
        }
        Ok(())
    }
}

/// A router that announces name servers without end must not fill the memory.
const MAX_KEPT: usize = 16;
