//! Names to addresses, by the C library's own resolver.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::path::Path;
use std::time::{Duration, Instant};

use super::{Network, NetworkError, before, seconds};
use latchkey_node_config::{Endpoint, Host, MAX_NAME_SERVERS};

/// Writes `etc/resolv.conf` below this root.
pub(super) fn write_configuration(root: &Path, network: &Network) -> Result<(), NetworkError> {
    let write = || {
        std::fs::create_dir_all(root.join("etc"))?;
        std::fs::write(root.join("etc/resolv.conf"), render(network))
    };
    write().map_err(|source| NetworkError::Resolver { source })
}

fn render(network: &Network) -> String {
    let mut text = String::new();
    // Writing to a string does not fail. Domains were checked to be names, so no line can be smuggled in.
    if let Some(domain) = &network.domain {
        let _ = writeln!(text, "search {domain}");
    }
    for server in network.name_servers.iter().take(MAX_NAME_SERVERS) {
        let _ = match (server, &network.link) {
            // A link-local address means something only together with its link.
            (IpAddr::V6(v6), Some(link)) if v6.is_unicast_link_local() => {
                writeln!(text, "nameserver {v6}%{}", link.name)
            }
            _ => writeln!(text, "nameserver {server}"),
        };
    }
    text
}

/// The socket addresses of an endpoint, in the resolver's order.
pub async fn resolve(endpoint: &Endpoint, within: Duration) -> Result<Vec<SocketAddr>, NetworkError> {
    let (name, port) = match &endpoint.host {
        Host::Address(address) => return Ok(vec![SocketAddr::new(*address, endpoint.port)]),
        Host::Name(name) => (name.clone(), endpoint.port),
    };
    let failed = |reason: String| NetworkError::Unresolved { name: endpoint.to_string(), reason };
    // The C library's resolver blocks; it has its own, longer deadline and ends alone if nobody waits for it any more.
    let lookup = smol::unblock(move || (name.as_str(), port).to_socket_addrs().map(Vec::from_iter));
    let answer = before(Instant::now() + within, lookup).await;
    let addresses: Vec<_> = answer
        .ok_or_else(|| failed(format!("no answer for {} s", seconds(within))))?
        .map_err(|error| failed(error.to_string()))?;
    if addresses.is_empty() { Err(failed("no address".to_owned())) } else { Ok(addresses) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::net::Link;

    #[test]
    fn the_configuration_has_at_most_three_servers_and_scopes_local_ones() {
        let link = Link { index: 2, name: "eth0".into(), mac: [2; 6] };
        let servers = ["10.0.2.3", "fe80::1", "fd00::1", "9.9.9.9"].map(|server| server.parse().unwrap());
        let network = Network {
            name_servers: servers.into(),
            domain: Some("example.org".into()),
            ..Network::without(Some(link))
        };
        assert_eq!(
            render(&network),
            "search example.org\nnameserver 10.0.2.3\nnameserver fe80::1%eth0\nnameserver fd00::1\n"
        );
    }

    #[test]
    fn an_address_needs_no_resolver_and_a_name_without_address_is_named() {
        latchkey_test_support::block_on(async {
            let time = Duration::from_secs(30);
            let endpoint = Endpoint::parse("[fd00::1]:9").unwrap();
            assert_eq!(resolve(&endpoint, time).await.unwrap(), ["[fd00::1]:9".parse().unwrap()]);
            let endpoint = Endpoint::parse("localhost:9").unwrap();
            assert!(resolve(&endpoint, time).await.unwrap().iter().all(|address| address.ip().is_loopback()));
            // RFC 6761 section 6.4: never has an address.
            let error = resolve(&Endpoint::parse("name.invalid:9").unwrap(), time).await.unwrap_err();
            assert_eq!(error.code().as_str(), "name-unresolved");
            assert!(error.to_string().contains("name.invalid:9"));
        });
    }
}
