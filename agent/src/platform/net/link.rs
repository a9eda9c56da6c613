//! Which network interface.

use std::time::Instant;

use super::NetworkError;
use super::message::{CARRIER, ETHERNET, LOOPBACK, LinkInfo, UP};
use super::route::{Events, Routing};
use latchkey_node_config::Interface;

/// A network interface that was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its number in the kernel.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its Ethernet address.
    pub mac: [u8; 6],
}

/// Switches interfaces on and waits until one has a carrier.
pub(super) async fn wait_for_carrier(
    routing: &mut Routing,
    events: &mut Events,
    wanted: &Interface,
    deadline: Instant,
) -> Result<Link, NetworkError> {
    loop {
        let links = routing.links()?;
        for link in candidates(&links, wanted).filter(|link| link.flags & UP == 0) {
            solicit_at_once(&link.name);
            routing.set_up(link.index)?;
        }
        if let Some(link) = choose(&links, wanted) {
            return Ok(link);
        }
        if !events.change(deadline).await? {
            return Err(nothing(&links, wanted));
        }
    }
}

/// Takes away the random second before the kernel looks for duplicates and asks for routers: many hosts that start
/// together are its reason (RFC 4861 section 6.3.7), and machines do not start within a second of each other.
fn solicit_at_once(name: &str) {
    // A kernel without IPv6 has no such file, and needs none.
    let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/router_solicitation_delay"), "0");
}

/// Ethernet interfaces that match the configured choice.
fn candidates<'a>(links: &'a [LinkInfo], wanted: &Interface) -> impl Iterator<Item = &'a LinkInfo> {
    links.iter().filter(move |link| {
        link.kind == ETHERNET
            && link.flags & LOOPBACK == 0
            && match wanted {
                Interface::Auto => true,
                Interface::Name(name) => link.name == *name,
                Interface::Mac(mac) => link.address == mac,
            }
    })
}

/// The rule of the module above: the lowest number among those with a carrier.
fn choose(links: &[LinkInfo], wanted: &Interface) -> Option<Link> {
    let ready = candidates(links, wanted).filter(|link| link.flags & (UP | CARRIER) == UP | CARRIER);
    let first = ready.min_by_key(|link| link.index)?;
    Some(Link { index: first.index, name: first.name.clone(), mac: first.address.as_slice().try_into().ok()? })
}

fn nothing(links: &[LinkInfo], wanted: &Interface) -> NetworkError {
    let tried: Vec<_> = candidates(links, wanted).map(|link| link.name.as_str()).collect();
    if tried.is_empty() {
        let wanted = match wanted {
            Interface::Auto => "any network".to_owned(),
            Interface::Name(name) => name.clone(),
            Interface::Mac(mac) => hex::encode(mac),
        };
        return NetworkError::NoInterface { wanted };
    }
    NetworkError::NoCarrier { tried: tried.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, flags: u32) -> LinkInfo {
        let last = u8::try_from(index).unwrap();
        LinkInfo { index, kind: ETHERNET, flags, name: format!("eth{index}"), address: vec![2, 0, 0, 0, 0, last] }
    }

    #[test]
    fn the_lowest_number_with_a_carrier_is_taken() {
        let loopback = LinkInfo { kind: 772, ..link(1, UP | CARRIER | LOOPBACK) };
        let tunnel = LinkInfo { kind: 768, ..link(2, UP | CARRIER) };
        let links = [loopback, tunnel, link(5, UP | CARRIER), link(4, UP | CARRIER), link(3, UP)];
        assert_eq!(choose(&links, &Interface::Auto).unwrap().name, "eth4");
        assert_eq!(choose(&links, &Interface::Name("eth5".into())).unwrap().index, 5);
        assert_eq!(choose(&links, &Interface::Mac([2, 0, 0, 0, 0, 5])).unwrap().index, 5);
        assert_eq!(choose(&links, &Interface::Name("eth3".into())), None);
    }

    #[test]
    fn a_missing_interface_is_told_from_a_missing_cable() {
        let links = [link(3, UP)];
        assert_eq!(nothing(&links, &Interface::Auto).code().as_str(), "no-carrier");
        assert_eq!(nothing(&links, &Interface::Name("eth9".into())).code().as_str(), "no-interface");
        assert_eq!(nothing(&[], &Interface::Auto).code().as_str(), "no-interface");
    }

    #[test]
    fn an_interface_with_a_strange_hardware_address_is_not_taken() {
        let strange = LinkInfo { address: vec![1, 2, 3], ..link(1, UP | CARRIER) };
        assert_eq!(choose(&[strange], &Interface::Auto), None);
    }
}
