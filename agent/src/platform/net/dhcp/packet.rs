//! DHCP messages: bytes to values and back (RFC 2131 section 2, RFC 2132).

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use latchkey_node_config::{MAX_NAME_SERVERS, is_dns_name, is_unicast};

/// The largest message read; servers send 576 octets at most unless asked for more.
pub const MAX_MESSAGE: usize = 1500;
/// RFC 951 section 3: the smallest message relays take, with the vendor area of 64 octets.
const MIN_MESSAGE: usize = 300;
/// The fixed part and the magic cookie (RFC 2131 section 3: "99, 130, 83 and 99").
const FIXED: usize = 240;
const COOKIE: [u8; 4] = [99, 130, 83, 99];

const BOOT_REQUEST: u8 = 1;
const BOOT_REPLY: u8 = 2;
const ETHERNET: u8 = 1;
const BROADCAST: [u8; 2] = [0x80, 0];

mod option {
    pub(super) const PAD: u8 = 0;
    pub(super) const MASK: u8 = 1;
    pub(super) const ROUTERS: u8 = 3;
    pub(super) const NAME_SERVERS: u8 = 6;
    pub(super) const HOST_NAME: u8 = 12;
    pub(super) const DOMAIN: u8 = 15;
    pub(super) const REQUESTED_ADDRESS: u8 = 50;
    pub(super) const LEASE_TIME: u8 = 51;
    pub(super) const OVERLOAD: u8 = 52;
    pub(super) const MESSAGE_TYPE: u8 = 53;
    pub(super) const SERVER: u8 = 54;
    pub(super) const WANTED: u8 = 55;
    pub(super) const MAX_SIZE: u8 = 57;
    pub(super) const RENEWAL_TIME: u8 = 58;
    pub(super) const REBINDING_TIME: u8 = 59;
    pub(super) const END: u8 = 255;
}

/// What a server gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The address.
    pub address: Ipv4Addr,
    /// How many of its bits are the network.
    pub prefix: u8,
    /// The default gateway.
    pub router: Option<Ipv4Addr>,
    /// Name servers, at most three.
    pub name_servers: Vec<Ipv4Addr>,
    /// The name for this host: untrusted.
    pub host_name: Option<String>,
    /// The domain of the network: untrusted.
    pub domain: Option<String>,
    /// The server that gave it.
    pub server: Ipv4Addr,
    /// How long it is good.
    pub time: Duration,
    /// After how long to renew it (T1).
    pub renew: Duration,
}

/// A request to send.
#[derive(Debug, Clone, Copy)]
pub(super) enum Request<'a> {
    /// Who gives addresses?
    Discover,
    /// I take this offer.
    Take(&'a Lease),
    /// I want to keep this address.
    Renew(&'a Lease),
}

/// The bytes of a request.
pub(super) fn encode(request: Request<'_>, xid: u32, mac: [u8; 6], elapsed: Duration) -> Vec<u8> {
    let own = match request {
        Request::Renew(lease) => lease.address.octets(),
        _ => [0; 4],
    };
    let mut bytes = vec![BOOT_REQUEST, ETHERNET, 6, 0];
    bytes.extend(xid.to_be_bytes());
    bytes.extend(u16::try_from(elapsed.as_secs()).unwrap_or(u16::MAX).to_be_bytes());
    bytes.extend(BROADCAST);
    bytes.extend(own);
    bytes.resize(28, 0);
    bytes.extend(mac);
    bytes.resize(FIXED - COOKIE.len(), 0);
    bytes.extend(COOKIE);
    options(request, &mut bytes);
    bytes.resize(bytes.len().max(MIN_MESSAGE), option::PAD);
    bytes
}

fn options(request: Request<'_>, bytes: &mut Vec<u8>) {
    const DISCOVER: u8 = 1;
    const REQUEST: u8 = 3;
    let kind = if matches!(request, Request::Discover) { DISCOVER } else { REQUEST };
    bytes.extend([option::MESSAGE_TYPE, 1, kind]);
    if let Request::Take(lease) = request {
        // RFC 2131 section 4.3.2: exactly here both stand in the options.
        bytes.extend([option::REQUESTED_ADDRESS, 4]);
        bytes.extend(lease.address.octets());
        bytes.extend([option::SERVER, 4]);
        bytes.extend(lease.server.octets());
    }
    let [high, low] = 1500u16.to_be_bytes();
    bytes.extend([option::MAX_SIZE, 2, high, low]);
    bytes.extend([option::WANTED, 9]);
    bytes.extend(WANTED);
    bytes.push(option::END);
}

/// What servers are asked for.
const WANTED: [u8; 9] = [
    option::MASK,
    option::ROUTERS,
    option::NAME_SERVERS,
    option::HOST_NAME,
    option::DOMAIN,
    option::LEASE_TIME,
    option::SERVER,
    option::RENEWAL_TIME,
    option::REBINDING_TIME,
];

/// A server's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    Offer(Lease),
    Ack(Lease),
    /// This server does not give the address.
    Nak(Ipv4Addr),
}

/// Reads an answer to our own request; the error says why it is ignored.
pub(super) fn decode(bytes: &[u8], xid: u32, mac: [u8; 6]) -> Result<Reply, &'static str> {
    const OFFER: u8 = 2;
    const ACK: u8 = 5;
    const NAK: u8 = 6;
    if bytes.len() > MAX_MESSAGE {
        return Err("it is too long");
    }
    let (fixed, rest) = bytes.split_first_chunk::<FIXED>().ok_or("it is too short")?;
    if fixed[..3] != [BOOT_REPLY, ETHERNET, 6] || fixed[236..] != COOKIE {
        return Err("it is no DHCP reply");
    }
    if fixed[4..8] != xid.to_be_bytes() || fixed[28..34] != mac {
        return Err("it is for somebody else");
    }
    let options = Options::parse(fixed, rest)?;
    let server = options.address(option::SERVER)?.filter(|server| is_unicast(IpAddr::V4(*server)));
    let server = server.ok_or("it does not name its server")?;
    let address = Ipv4Addr::new(fixed[16], fixed[17], fixed[18], fixed[19]);
    match options.find(option::MESSAGE_TYPE) {
        Some([OFFER]) => options.lease(address, server).map(Reply::Offer),
        Some([ACK]) => options.lease(address, server).map(Reply::Ack),
        Some([NAK]) => Ok(Reply::Nak(server)),
        _ => Err("it is no offer, acknowledgement or refusal"),
    }
}

/// The options that count here, each at most once.
struct Options<'a>(Vec<(u8, &'a [u8])>);

impl<'a> Options<'a> {
    fn parse(fixed: &'a [u8; FIXED], rest: &'a [u8]) -> Result<Self, &'static str> {
        let mut options = Self(Vec::new());
        options.add(rest)?;
        // RFC 2132 section 9.3: a server without room for them goes on where the boot file's name stands, then where its own does.
        let (in_file, in_name) = match options.find(option::OVERLOAD) {
            None => (false, false),
            Some([1]) => (true, false),
            Some([2]) => (false, true),
            Some([3]) => (true, true),
            Some(_) => return Err("it does not say where its options are"),
        };
        for area in [in_file.then_some(&fixed[108..236]), in_name.then_some(&fixed[44..108])].into_iter().flatten() {
            options.add(area)?;
        }
        Ok(options)
    }

    fn add(&mut self, mut bytes: &'a [u8]) -> Result<(), &'static str> {
        while let Some((&code, rest)) = bytes.split_first() {
            match code {
                option::PAD => bytes = rest,
                option::END => break,
                _ => {
                    let (&length, rest) = rest.split_first().ok_or("an option is cut off")?;
                    let (value, rest) = rest.split_at_checked(length.into()).ok_or("an option is cut off")?;
                    bytes = rest;
                    if !WANTED.contains(&code) && !matches!(code, option::MESSAGE_TYPE | option::OVERLOAD) {
                        continue;
                    }
                    // RFC 3396 joins long options that are split; none that counts here is that long, so a second one can only
                    // contradict the first.
                    if self.find(code).is_some() {
                        return Err("an option is there twice");
                    }
                    self.0.push((code, value));
                }
            }
        }
        Ok(())
    }

    fn find(&self, code: u8) -> Option<&'a [u8]> {
        self.0.iter().find(|(seen, _)| *seen == code).map(|(_, value)| *value)
    }

    fn address(&self, code: u8) -> Result<Option<Ipv4Addr>, &'static str> {
        let bytes = self.find(code).map(<[u8; 4]>::try_from).transpose();
        bytes.map(|octets| octets.map(Ipv4Addr::from)).map_err(|_| "an address does not have four octets")
    }

    /// A list of addresses; those nobody can have are left out.
    fn addresses(&self, code: u8) -> Result<impl Iterator<Item = Ipv4Addr>, &'static str> {
        let bytes = self.find(code).unwrap_or_default();
        if !bytes.len().is_multiple_of(4) {
            return Err("an address does not have four octets");
        }
        let all = bytes.chunks_exact(4).filter_map(|octets| <[u8; 4]>::try_from(octets).ok()).map(Ipv4Addr::from);
        Ok(all.filter(|address| is_unicast(IpAddr::V4(*address))))
    }

    fn seconds(&self, code: u8) -> Result<Option<Duration>, &'static str> {
        let bytes =
            self.find(code).map(<[u8; 4]>::try_from).transpose().map_err(|_| "a time does not have four octets")?;
        Ok(bytes.map(|bytes| Duration::from_secs(u32::from_be_bytes(bytes).into())))
    }

    /// A name of letters, digits, hyphens and dots. Anything else would end up in files and logs.
    fn name(&self, code: u8) -> Option<String> {
        let text = std::str::from_utf8(self.find(code)?).ok()?;
        let text = text.trim_end_matches('\0');
        is_dns_name(text).then(|| text.to_owned())
    }

    fn lease(&self, address: Ipv4Addr, server: Ipv4Addr) -> Result<Lease, &'static str> {
        if !is_unicast(IpAddr::V4(address)) {
            return Err("its address is none that a host can have");
        }
        let mask = self.address(option::MASK)?.ok_or("it has no network mask")?;
        let time =
            self.seconds(option::LEASE_TIME)?.filter(|time| *time >= MIN_LEASE).ok_or("its lease is too short")?;
        // RFC 2131 section 4.4.5: T1 defaults to half the time; a server's own must come before the end.
        let renew =
            self.seconds(option::RENEWAL_TIME)?.filter(|t1| *t1 > MIN_LEASE / 4 && *t1 < time).unwrap_or(time / 2);
        Ok(Lease {
            address,
            prefix: prefix_of(mask).ok_or("its network mask has holes")?,
            router: self.addresses(option::ROUTERS)?.next(),
            name_servers: self.addresses(option::NAME_SERVERS)?.take(MAX_NAME_SERVERS).collect(),
            host_name: self.name(option::HOST_NAME),
            domain: self.name(option::DOMAIN),
            server,
            time,
            renew,
        })
    }
}

/// A shorter lease would be over before anything is done with it.
const MIN_LEASE: Duration = Duration::from_secs(30);

fn prefix_of(mask: Ipv4Addr) -> Option<u8> {
    let bits = u32::from(mask);
    let prefix = u8::try_from(bits.leading_ones()).ok()?;
    (prefix > 0 && bits.count_ones() == u32::from(prefix)).then_some(prefix)
}

#[cfg(test)]
#[path = "packet_tests.rs"]
pub(super) mod tests;
