//! What counts as one peer.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// A network that a peer comes from: a host, or the site that the host belongs to.
///
/// | | IPv4 | IPv6 | why |
/// |---|---|---|---|
/// | host | the address | /64 | one host has a whole /64 to choose its addresses from (RFC 4291, section 2.5.4) |
/// | site | /24 | /48 | what one customer is usually given: the smallest that is routed (RFC 6177, section 2, for IPv6) |
///
/// An IPv4 address in IPv6 form (`::ffff:192.0.2.1`) is that IPv4 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerNetwork {
    /// The prefix; an IPv4 address in its IPv6 form.
    bits: u128,
    /// Bits of `bits` that count.
    length: u8,
}

/// The first 96 bits of an IPv4 address in IPv6 form.
const MAPPED: u128 = 0xffff << 32;

impl PeerNetwork {
    /// The host of an address.
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(four) => Self { bits: four.to_ipv6_mapped().to_bits(), length: 128 },
            IpAddr::V6(six) => Self { bits: six.to_bits(), length: 64 }.cut(64),
        }
    }

    /// The site of the host; of a site, the site itself.
    #[must_use]
    pub fn site(self) -> Self {
        self.cut(if self.is_ipv4() { 96 + 24 } else { 48 })
    }

    fn is_ipv4(self) -> bool {
        self.length >= 96 && self.bits >> 32 == MAPPED >> 32
    }

    fn cut(self, length: u8) -> Self {
        let host_part = u128::MAX.checked_shr(length.into()).unwrap_or(0);
        Self { bits: self.bits & !host_part, length }
    }
}

impl fmt::Display for PeerNetwork {
    /// In CIDR notation.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = IpAddr::V6(Ipv6Addr::from_bits(self.bits)).to_canonical();
        write!(f, "{address}/{}", if self.is_ipv4() { self.length - 96 } else { self.length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> PeerNetwork {
        PeerNetwork::of(text.parse().unwrap())
    }

    #[test]
    fn a_host_with_a_whole_64_is_one_peer_and_a_mapped_address_is_its_ipv4() {
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }

    #[test]
    fn hosts_of_one_24_or_one_48_are_one_site() {
        assert_eq!(of("192.0.2.1").site(), of("192.0.2.200").site());
        assert_ne!(of("192.0.2.1").site(), of("192.0.3.1").site());
        assert_eq!(of("2001:db8:1:2::1").site(), of("2001:db8:1:3::1").site());
        assert_ne!(of("2001:db8:1:2::1").site(), of("2001:db8:2:2::1").site());
        assert_eq!(of("192.0.2.1").site().site(), of("192.0.2.1").site());
        assert_ne!(of("0.0.0.1").site(), of("::1").site(), "IPv6 with the same last bits is another network");
    }

    #[test]
    fn networks_are_shown_in_cidr_notation() {
        let shown = |text: &str| (of(text).to_string(), of(text).site().to_string());
        assert_eq!(shown("192.0.2.1"), ("192.0.2.1/32".into(), "192.0.2.0/24".into()));
        assert_eq!(shown("2001:db8:1:2::9"), ("2001:db8:1:2::/64".into(), "2001:db8:1::/48".into()));
    }
}
