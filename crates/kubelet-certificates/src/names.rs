//! Names and addresses that are no node's, whatever its record says: who trusts the cluster's authority would take
//! the node for something else.

use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

/// What is no node's in one cluster, beside what is none anywhere: the network of its services, and, for nodes that are no control
/// planes, the names and addresses by which its API server is found. A control plane may well be what they mean.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reserved {
    networks: Vec<Network>,
    names: Vec<String>,
    addresses: Vec<IpAddr>,
}

/// Whose name or address it is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A node that serves the API, and has the cluster's authority.
    ControlPlane,
    /// Any other.
    Worker,
}

impl Reserved {
    /// Of a cluster with these networks of services, and with these hosts, names or addresses, where its API server is found.
    pub fn new<'a>(networks: impl IntoIterator<Item = Network>, hosts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut reserved = Self { networks: networks.into_iter().collect(), ..Self::default() };
        for host in hosts {
            match host.parse() {
                Ok(address) => reserved.addresses.push(address),
                Err(_) => reserved.names.push(host.trim_end_matches('.').to_ascii_lowercase()),
            }
        }
        reserved
    }

    /// Whether this is no name for such a node.
    pub fn is_name(&self, name: &str, holder: Holder) -> bool {
        let plain = name.trim_end_matches('.').to_ascii_lowercase();
        is_reserved_name(name)
            || (holder == Holder::Worker && self.names.contains(&plain))
            || name.parse().is_ok_and(|address| self.is_address(address, holder))
    }

    /// Whether this is no address for such a node.
    pub fn is_address(&self, address: IpAddr, holder: Holder) -> bool {
        is_reserved_address(address)
            || self.networks.iter().any(|network| network.has(address))
            || (holder == Holder::Worker && self.addresses.contains(&address))
    }
}

/// A network in CIDR notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    length: u8,
}

impl Network {
    /// Whether the address is of this network.
    pub fn has(&self, address: IpAddr) -> bool {
        let bits = |address: IpAddr| match address {
            IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
            IpAddr::V6(address) => address.to_bits(),
        };
        let host_part = u128::MAX.checked_shr(self.length.into()).unwrap_or(0);
        address.is_ipv4() == self.address.is_ipv4() && bits(address) & !host_part == bits(self.address) & !host_part
    }
}

impl FromStr for Network {
    type Err = NoNetwork;

    fn from_str(text: &str) -> Result<Self, NoNetwork> {
        let (address, length) = text.split_once('/').ok_or(NoNetwork)?;
        let address: IpAddr = address.parse().map_err(|_| NoNetwork)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
        let length = length.parse().ok().filter(|length| digits && *length <= most).ok_or(NoNetwork)?;
        Ok(Self { address, length })
    }
}

/// A text is no network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoNetwork;

impl std::fmt::Display for NoNetwork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no network in CIDR notation, like 10.96.0.0/12")
    }
}

impl std::error::Error for NoNetwork {}

/// Whether a host name means the cluster's services, or every machine itself. A node named `kubernetes.default.svc`
/// would be the API server to every pod.
fn is_reserved_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let name = name.trim_end_matches('.');
    let below = |domain: &str| name == domain || name.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
    matches!(name, "kubernetes" | "kubernetes.default")
        || ["localhost", "svc", "cluster.local"].into_iter().any(below)
        || name.contains(".svc.")
        || name.contains('*')
}

/// Whether an address is that of every machine itself, of several, or of none.
fn is_reserved_address(address: IpAddr) -> bool {
    let mapped = |address: std::net::Ipv6Addr| address.to_ipv4_mapped().is_some();
    address.is_loopback()
        || address.is_unspecified()
        || address.is_multicast()
        || match address {
            IpAddr::V4(address) => address == Ipv4Addr::BROADCAST || address.octets()[0] == 0,
            // Others read it as the IPv4 address.
            IpAddr::V6(address) => mapped(address),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_and_every_machine_itself_are_no_nodes() {
        for reserved in [
            "kubernetes",
            "KUBERNETES.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            "kubernetes.default.svc.corp.example",
            "a.b.svc",
            "svc",
            "cluster.local",
            "x.cluster.local.",
            "localhost",
            "a.localhost",
            "*.example",
        ] {
            assert!(is_reserved_name(reserved), "{reserved}");
        }
        for free in ["edge-1", "kubernetes-1", "edge-1.plant.example", "svc.example", "mysvc", "localhost.example"] {
            assert!(!is_reserved_name(free), "{free}");
        }
        for reserved in ["127.0.0.1", "127.9.9.9", "0.0.0.0", "0.1.2.3", "224.0.0.1", "255.255.255.255", "::", "::1"] {
            assert!(is_reserved_address(reserved.parse().unwrap()), "{reserved}");
        }
        for reserved in ["ff02::1", "::ffff:127.0.0.1", "::ffff:192.0.2.1"] {
            assert!(is_reserved_address(reserved.parse().unwrap()), "{reserved}");
        }
        for free in ["192.0.2.1", "10.96.0.1", "2001:db8::1", "fe80::1"] {
            assert!(!is_reserved_address(free.parse().unwrap()), "{free}");
        }
    }
    #[test]
    fn what_is_the_api_server_s_or_a_service_s_is_no_worker_s() {
        let reserved = Reserved::new(
            ["10.96.0.0/12".parse().unwrap(), "fd00:20::/112".parse().unwrap()],
            ["Api.plant.example", "192.0.2.10", "2001:db8::10"],
        );
        for name in ["api.plant.example", "API.plant.example.", "192.0.2.10", "10.96.0.1", "kubernetes"] {
            assert!(reserved.is_name(name, Holder::Worker), "{name}");
        }
        for address in ["192.0.2.10", "2001:db8::10", "10.96.0.1", "10.111.255.255", "fd00:20::ffff", "127.0.0.1"] {
            assert!(reserved.is_address(address.parse().unwrap(), Holder::Worker), "{address}");
        }
        for name in ["api", "plant.example", "edge-1", "192.0.2.11"] {
            assert!(!reserved.is_name(name, Holder::Worker), "{name}");
        }
        for address in ["192.0.2.11", "10.112.0.0", "10.95.255.255", "fd00:20::1:0"] {
            assert!(!reserved.is_address(address.parse().unwrap(), Holder::Worker), "{address}");
        }
        // A control plane is where the API server is found, and never a service.
        assert!(!reserved.is_name("api.plant.example", Holder::ControlPlane));
        assert!(!reserved.is_address("192.0.2.10".parse().unwrap(), Holder::ControlPlane));
        assert!(reserved.is_address("10.96.0.1".parse().unwrap(), Holder::ControlPlane));
    }

    #[test]
    fn a_network_is_an_address_and_a_length() {
        for bad in ["", "10.0.0.0", "10.0.0.0/", "10.0.0.0/33", "::/129", "10.0.0.0/+8", "x/8", "/8", "10.0.0.0/8/8"] {
            assert_eq!(bad.parse::<Network>(), Err(NoNetwork), "{bad}");
        }
        let all: Network = "0.0.0.0/0".parse().unwrap();
        assert!(all.has("192.0.2.1".parse().unwrap()) && !all.has("2001:db8::1".parse().unwrap()));
        let one: Network = "192.0.2.1/32".parse().unwrap();
        assert!(one.has("192.0.2.1".parse().unwrap()) && !one.has("192.0.2.2".parse().unwrap()));
    }
}
