//! Bounds the connections: in all, and for each peer, so that one host cannot shut out the others.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// The table of open connections.
#[derive(Clone, Debug)]
pub struct Slots(Arc<Mutex<Table>>);

#[derive(Debug)]
struct Table {
    total: u32,
    per_peer: u32,
    open: u32,
    peers: HashMap<IpAddr, u32>,
}

/// One connection's place; free again when dropped.
#[derive(Debug)]
pub struct Slot {
    table: Slots,
    peer: IpAddr,
}

impl Slots {
    /// At most `total` in all and `per_peer` for each peer.
    pub fn new(total: u32, per_peer: u32) -> Self {
        Self(Arc::new(Mutex::new(Table { total, per_peer, open: 0, peers: HashMap::new() })))
    }

    /// A place, or `None` if the table or the peer's part of it is full.
    pub fn take(&self, address: IpAddr) -> Option<Slot> {
        let peer = network_of(address);
        self.with(|table| {
            let of_peer = table.peers.get(&peer).copied().unwrap_or(0);
            if table.open >= table.total || of_peer >= table.per_peer {
                return None;
            }
            table.open += 1;
            table.peers.insert(peer, of_peer + 1);
            Some(Slot { table: self.clone(), peer })
        })
    }

    fn release(&self, peer: IpAddr) {
        self.with(|table| {
            table.open = table.open.saturating_sub(1);
            match table.peers.get_mut(&peer) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(table.peers.remove(&peer)),
            }
        });
    }

    fn with<T>(&self, act: impl FnOnce(&mut Table) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.table.release(self.peer);
    }
}

/// What counts as one peer: an IPv4 address, or the /64 that an IPv6 host chooses its addresses from.
pub(crate) fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn one_host_cannot_take_all_places() {
        let slots = Slots::new(3, 2);
        let first = slots.take(ip("192.0.2.1")).unwrap();
        let _second = slots.take(ip("::ffff:192.0.2.1")).unwrap();
        assert!(slots.take(ip("192.0.2.1")).is_none());
        let _other = slots.take(ip("192.0.2.2")).unwrap();
        assert!(slots.take(ip("192.0.2.3")).is_none(), "the table is full");
        drop(first);
        assert!(slots.take(ip("192.0.2.1")).is_some());
    }

    #[test]
    fn all_addresses_of_one_ipv6_network_are_one_peer() {
        let slots = Slots::new(9, 1);
        let _one = slots.take(ip("2001:db8::1")).unwrap();
        assert!(slots.take(ip("2001:db8::2")).is_none());
        assert!(slots.take(ip("2001:db8:0:1::1")).is_some());
    }

    #[test]
    fn the_table_forgets_peers_that_left() {
        let slots = Slots::new(9, 9);
        drop([slots.take(ip("192.0.2.1")), slots.take(ip("192.0.2.1")), slots.take(ip("192.0.2.2"))]);
        assert_eq!(slots.with(|table| (table.open, table.peers.len())), (0, 0));
    }
}
