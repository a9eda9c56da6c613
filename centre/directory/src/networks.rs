//! Networks whose hosts are trusted proxies.

use std::net::IpAddr;
use std::str::FromStr;

use serde::Deserialize;

/// A network: `10.0.0.0/8`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Network {
    address: u128,
    mask: u128,
    is_v6: bool,
}

/// Why a text is no network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no network; write an address such as 127.0.0.1, or a network such as 10.0.0.0/8 whose other bits are 0"
)]
pub struct NetworkError(String);

impl Network {
    /// Whether an address is in it. An IPv4 address that came over IPv6 is an IPv4 address.
    pub fn has(&self, address: IpAddr) -> bool {
        let (bits, is_v6) = bits(address.to_canonical());
        self.is_v6 == is_v6 && bits & self.mask == self.address
    }
}

/// An address as a number, whose highest bits are its first.
fn bits(address: IpAddr) -> (u128, bool) {
    match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, false),
        IpAddr::V6(address) => (address.to_bits(), true),
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let bad = || NetworkError(text.into());
        let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let longest = if address.is_ipv6() { 128 } else { 32 };
        let length: u32 = length.map_or(Ok(longest), str::parse).map_err(|_| bad())?;
        let (address, is_v6) = bits(address);
        let mask = u128::MAX.checked_shl(128 - length.min(128)).unwrap_or(0);
        if length > longest || address & !mask != 0 { Err(bad()) } else { Ok(Self { address, mask, is_v6 }) }
    }
}

impl TryFrom<String> for Network {
    type Error = NetworkError;

    fn try_from(text: String) -> Result<Self, NetworkError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_its_hosts_and_no_others() {
        let has = |network: &str, address: &str| network.parse::<Network>().unwrap().has(address.parse().unwrap());
        assert!(has("127.0.0.1", "127.0.0.1") && !has("127.0.0.1", "127.0.0.2"));
        assert!(has("10.0.0.0/8", "10.255.0.1") && !has("10.0.0.0/8", "11.0.0.0"));
        assert!(has("10.0.0.0/8", "::ffff:10.1.1.1"));
        assert!(has("0.0.0.0/0", "1.2.3.4") && !has("0.0.0.0/0", "::1"));
        assert!(has("fd00::/8", "fd12::1") && !has("fd00::/8", "fe80::1") && has("::/0", "::1"));
        for bad in ["", "x", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "::/129"] {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
    }
}
