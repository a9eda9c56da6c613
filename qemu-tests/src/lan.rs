//! A network between the machines of a site, beside the one on which each of them is alone with this machine.
//!
//! Frames are datagrams to a multicast group on loopback: any number of machines, switched on and off in any order. Without it each
//! machine would have the same address, and its API server's would be everybody's own.

use std::sync::Arc;

use crate::error::HarnessError;
use crate::ports::Port;

/// The machines' addresses are 10.1.0.1 and up.
const PREFIX: &str = "10.1.0";
/// How many machines have one.
const MACHINES: u8 = 5;
/// A group that routers keep to this machine's own links.
const GROUP: &str = "239.255.0.1";
/// The interface's name, after the one of the other network: images for it have `net.ifnames=0` on their command line.
pub const INTERFACE: &str = "eth1";
/// Words of the command line: names that do not depend on what else is in a machine, and which of both networks stage 1 takes.
pub(crate) const WORDS: &str = "net.ifnames=0 latchkey.interface=eth0";
/// Where systemd looks for what is in a root.
const NETWORKS: &str = "usr/lib/systemd/network";

/// The network. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Lan(Arc<Port>);

/// A machine's place in it, from 1 on.
#[derive(Debug, Clone)]
pub(crate) struct Socket {
    lan: Lan,
    number: u8,
}

impl Lan {
    /// A network without machines.
    pub fn new() -> Result<Self, HarnessError> {
        Ok(Self(Arc::new(Port::choose()?)))
    }

    pub(crate) fn socket(&self, number: u8) -> Socket {
        Socket { lan: self.clone(), number }
    }
}

/// The address of a machine.
pub fn address(number: u8) -> String {
    format!("{PREFIX}.{number}")
}

fn hardware_address(number: u8) -> String {
    format!("52:54:01:00:00:{number:02x}")
}

impl Socket {
    pub(crate) fn arguments(&self) -> [String; 4] {
        let group = format!("socket,id=lan,mcast={GROUP}:{},localaddr=127.0.0.1", self.lan.0.number());
        // An option ROM would be measured into PCR 2, and is of no use.
        let device = format!("virtio-net-pci,netdev=lan,romfile=,mac={}", hardware_address(self.number));
        ["-netdev".into(), group, "-device".into(), device]
    }
}

/// What gives every machine its address, in a root of systemd: path and content.
pub(crate) fn files() -> Vec<(String, String)> {
    let file = |number| {
        let (mac, address) = (hardware_address(number), address(number));
        let network = format!(
            "[Match]\nMACAddress={mac}\n[Network]\nAddress={address}/24\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n"
        );
        (format!("{NETWORKS}/10-lan-{number}.network"), network)
    };
    (1..=MACHINES).map(file).collect()
}

/// Units that a root with these files starts: link, and what it points to.
pub(crate) const LINKS: [(&str, &str); 2] = [
    ("usr/lib/systemd/system/multi-user.target.wants/systemd-networkd.service", "../systemd-networkd.service"),
    (
        "usr/lib/systemd/system/network-online.target.wants/systemd-networkd-wait-online.service",
        "../systemd-networkd-wait-online.service",
    ),
];
