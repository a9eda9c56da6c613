//! Values that have to do with the network.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::value::{Parsed, decimal};

/// How the network is set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkSetup {
    /// By DHCPv4.
    Dhcp4,
    /// By the kernel, from IPv6 router advertisements.
    Ipv6Ra,
    /// As written here.
    Static(StaticNetwork),
    /// Only the loopback interface.
    None,
}

/// A fixed address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticNetwork {
    /// The address of this node.
    pub address: IpAddr,
    /// How many of its bits are the network.
    pub prefix: u8,
    /// The default gateway.
    pub gateway: Option<IpAddr>,
    /// Name servers.
    pub dns: Vec<IpAddr>,
}

/// resolv.conf(5): "Up to MAXNS (currently 3 \[…\]) name servers may be listed".
pub const MAX_NAME_SERVERS: usize = 3;

const STATIC_FORM: &str = "static:ADDRESS/PREFIX, then at most one ,gw=ADDRESS and three ,dns=ADDRESS, a usable address \
                           and a gateway of its kind";

impl NetworkSetup {
    pub(super) fn parse(value: &str) -> Parsed<Self> {
        match value {
            "dhcp4" => Ok(Self::Dhcp4),
            "ipv6-ra" => Ok(Self::Ipv6Ra),
            "none" => Ok(Self::None),
            _ => match value.strip_prefix("static:") {
                Some(rest) => StaticNetwork::parse(rest).map(Self::Static).ok_or(STATIC_FORM),
                None => Err("dhcp4, ipv6-ra, none or static:ADDRESS/PREFIX[,gw=ADDRESS][,dns=ADDRESS]"),
            },
        }
    }
}

impl StaticNetwork {
    fn parse(value: &str) -> Option<Self> {
        let mut parts = value.split(',');
        let (address, prefix) = parts.next()?.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let prefix = decimal(prefix).and_then(|prefix| u8::try_from(prefix).ok())?;
        let widest = if address.is_ipv4() { 32 } else { 128 };
        if prefix == 0 || prefix > widest || !is_unicast(address) {
            return None;
        }
        let mut network = Self { address, prefix, gateway: None, dns: Vec::new() };
        for part in parts {
            match part.split_once('=')? {
                ("gw", gateway) if network.gateway.is_none() => network.gateway = Some(gateway.parse().ok()?),
                ("dns", server) if network.dns.len() < MAX_NAME_SERVERS => network.dns.push(server.parse().ok()?),
                _ => return None,
            }
        }
        let gateway_fits =
            network.gateway.is_none_or(|gateway| gateway.is_ipv4() == address.is_ipv4() && is_unicast(gateway));
        (gateway_fits && network.dns.iter().copied().all(is_reachable)).then_some(network)
    }
}

/// An address a machine can have on a network.
pub fn is_unicast(address: IpAddr) -> bool {
    !address.is_loopback() && is_reachable(address)
}

/// An address one can send to.
fn is_reachable(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.octets()[0] == 0 || v4.octets()[0] >= 240);
    !address.is_unspecified() && !address.is_multicast() && !broadcast
}

/// Which network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interface {
    /// By the rule of the agent's `platform::net`.
    Auto,
    /// The one with this name.
    Name(String),
    /// The one with this MAC address.
    Mac([u8; 6]),
}

impl Interface {
    pub(super) fn parse(value: &str) -> Parsed<Self> {
        // IFNAMSIZ is 16 with the final zero (Linux `if.h`).
        let is_name = (1..16).contains(&value.len())
            && value.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
            && value.starts_with(|c: char| c.is_ascii_alphanumeric());
        match mac(value) {
            Some(mac) => Ok(Self::Mac(mac)),
            None if value == "auto" => Ok(Self::Auto),
            None if is_name => Ok(Self::Name(value.to_owned())),
            None => Err("auto, the name of an interface, or a MAC address like 52:54:00:12:34:56"),
        }
    }
}

fn mac(value: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    hex::decode_to_slice(value.replace(':', ""), &mut mac).ok()?;
    let colons = value.len() == 17 && value.bytes().skip(2).step_by(3).all(|byte| byte == b':');
    colons.then_some(mac)
}

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The host.
    pub host: Host,
    /// The TCP port.
    pub port: u16,
}

/// A host, by name or address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// Its address.
    Address(IpAddr),
    /// Its DNS name.
    Name(String),
}

impl Endpoint {
    /// Reads `NAME:PORT`, `1.2.3.4:PORT` or `[::1]:PORT`.
    pub fn parse(value: &str) -> Option<Self> {
        let (host, port) = value.rsplit_once(':')?;
        let port = super::value::port(port).ok()?;
        let host = if let Some(v6) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Host::Address(v6.parse::<Ipv6Addr>().ok()?.into())
        } else if host.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
            Host::Address(IpAddr::V4(host.parse().ok()?))
        } else {
            Host::Name(is_dns_name(host).then(|| host.to_owned())?)
        };
        Some(Self { host, port })
    }

    /// Reads where an API server is, as nodes are told: what [`Self::parse`] does, with a name in lower case ([`is_subdomain`]).
    pub fn of_api_server(value: &str) -> Option<Self> {
        Self::parse(value).filter(|endpoint| match &endpoint.host {
            Host::Address(_) => true,
            Host::Name(name) => is_subdomain(name),
        })
    }

    /// The same as an operator says it: the port may be left out, and an IPv6 address without one has no brackets.
    pub fn of_api_server_or(value: &str, port: u16) -> Option<Self> {
        match value.parse() {
            Ok(address) => Some(Self { host: Host::Address(address), port }),
            Err(_) if value.contains(':') => Self::of_api_server(value),
            Err(_) => Self::of_api_server(&format!("{value}:{port}")),
        }
    }

    /// Its address; of a name, none.
    pub fn address(&self) -> Option<IpAddr> {
        match self.host {
            Host::Address(address) => Some(address),
            Host::Name(_) => None,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Address(address) => SocketAddr::new(*address, self.port).fmt(f),
            Host::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

/// A name of letters, digits and hyphens (RFC 1123 section 2.1, RFC 1035 section 2.3.4 for the lengths).
pub fn is_dns_name(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

/// What Kubernetes calls a lowercase RFC 1123 subdomain: [`is_dns_name`] without capitals.
pub fn is_subdomain(name: &str) -> bool {
    is_dns_name(name) && !name.bytes().any(|byte| byte.is_ascii_uppercase())
}

const MAX_ENDPOINTS: usize = 8;

pub(super) fn endpoint(value: &str) -> Parsed<Endpoint> {
    Endpoint::parse(value).ok_or("HOST:PORT, an IPv6 address in brackets")
}

pub(super) fn endpoints(value: &str) -> Parsed<Vec<Endpoint>> {
    let endpoints: Option<Vec<_>> = value.split(',').take(MAX_ENDPOINTS + 1).map(Endpoint::parse).collect();
    let few = endpoints.filter(|endpoints| endpoints.len() <= MAX_ENDPOINTS);
    few.ok_or("HOST:PORT, separated by commas, at most eight, IPv6 addresses in brackets")
}
