//! Names and addresses that are no node's, whatever its record says: who trusts the cluster's authority would take
//! the node for something else.

use std::net::{IpAddr, Ipv4Addr};

/// Whether a host name means the cluster's services, or every machine itself. A node named `kubernetes.default.svc`
/// would be the API server to every pod.
pub(crate) fn is_reserved_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let name = name.trim_end_matches('.');
    let below = |domain: &str| name == domain || name.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
    matches!(name, "kubernetes" | "kubernetes.default")
        || ["localhost", "svc", "cluster.local"].into_iter().any(below)
        || name.contains(".svc.")
        || name.contains('*')
}

/// Whether an address is that of every machine itself, of several, or of none.
pub(crate) fn is_reserved_address(address: IpAddr) -> bool {
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
}
