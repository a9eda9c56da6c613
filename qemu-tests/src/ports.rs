//! Ports on loopback that nobody else takes between choosing and listening.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener};
use std::sync::Arc;

use crate::error::HarnessError;

/// Below the range from which the kernel picks ports for outgoing connections (32768 and up).
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// A free port on 127.0.0.1. As long as the value lives, no other run of the harness chooses it:
/// an abstract socket of its name is held, which the kernel gives back however the tests end. Clones are the same port.
#[derive(Debug, Clone)]
pub struct Port {
    number: u16,
    _claim: Arc<UnixListener>,
}

impl Port {
    /// Chooses a free port.
    pub fn choose() -> Result<Self, HarnessError> {
        let start = std::process::id();
        for step in 0..COUNT {
            let offset = (start + u32::from(step)) % u32::from(COUNT);
            let number = FIRST + u16::try_from(offset).unwrap_or(0);
            if let Some(port) = Self::claim(number) {
                return Ok(port);
            }
        }
        Err(HarnessError::Unusable(format!("no free port from {FIRST} on")))
    }

    /// The port's number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// `127.0.0.1:PORT`
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.number).into()
    }

    fn claim(number: u16) -> Option<Self> {
        let name = UnixAddress::from_abstract_name(format!("latchkey-port-{number}")).ok()?;
        let claim = UnixListener::bind_addr(&name).ok()?;
        // Others do not know of our claims, so see that the port is free in fact.
        TcpListener::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
        Some(Self { number, _claim: Arc::new(claim) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chosen_port_is_not_chosen_again_until_given_back_nor_one_in_use() {
        let one = Port::choose().unwrap();
        assert!(Port::claim(one.number()).is_none());
        let other = Port::choose().unwrap();
        assert_ne!(one.number(), other.number());
        let number = one.number();
        drop(one);
        let again = Port::claim(number).unwrap();
        assert_eq!(again.number(), number);

        // In use by somebody who knows nothing of claims.
        let _listener = TcpListener::bind(again.address()).unwrap();
        drop(again);
        assert!(Port::claim(number).is_none());
    }
}
