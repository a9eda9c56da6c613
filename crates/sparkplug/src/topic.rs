//! Topics: `spBv1.0/GROUP/TYPE/NODE[/DEVICE]` (section 4.1).

use std::fmt;

/// The namespace of Sparkplug B's topics.
const NAMESPACE: &str = "spBv1.0";

/// Longest group, node or device, bytes: a topic of three of them stays far below what MQTT allows (65 535).
const LONGEST: usize = 255;

/// A node: its group, and its name in it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct NodeAddress {
    group: String,
    node: String,
}

/// Why a text is no part of an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the {part} {shown:?} is none: it has 1 to {LONGEST} bytes, no control characters and none of / + #; correct the Sparkplug \
     address in the configuration database"
)]
pub struct AddressError {
    part: &'static str,
    shown: String,
}

impl NodeAddress {
    /// A node of a group.
    ///
    /// # Errors
    /// One of them cannot stand in a topic.
    pub fn new(group: &str, node: &str) -> Result<Self, AddressError> {
        Ok(Self { group: level("Sparkplug group", group)?, node: level("Sparkplug node", node)? })
    }

    /// Its group.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// Its name in the group.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// The topic of its messages of a type.
    pub fn topic(&self, kind: MessageType) -> String {
        format!("{NAMESPACE}/{}/{}/{}", self.group, kind.word(), self.node)
    }

    /// The filter for commands to any of its devices.
    pub fn device_commands(&self) -> String {
        format!("{}/+", self.topic(MessageType::DeviceCommand))
    }
}

impl fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.group, self.node)
    }
}

impl fmt::Debug for NodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn level(part: &'static str, text: &str) -> Result<String, AddressError> {
    let wrong = |c: char| c.is_control() || matches!(c, '/' | '+' | '#');
    if text.is_empty() || text.len() > LONGEST || text.contains(wrong) {
        return Err(AddressError { part, shown: text.chars().take(60).collect() });
    }
    Ok(text.to_owned())
}

/// What kind of message it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MessageType {
    /// NBIRTH.
    NodeBirth,
    /// NDEATH.
    NodeDeath,
    /// NDATA.
    NodeData,
    /// NCMD.
    NodeCommand,
    /// DBIRTH.
    DeviceBirth,
    /// DDEATH.
    DeviceDeath,
    /// DDATA.
    DeviceData,
    /// DCMD.
    DeviceCommand,
}

impl MessageType {
    const ALL: [Self; 8] = [
        Self::NodeBirth,
        Self::NodeDeath,
        Self::NodeData,
        Self::NodeCommand,
        Self::DeviceBirth,
        Self::DeviceDeath,
        Self::DeviceData,
        Self::DeviceCommand,
    ];

    /// The word for it in topics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::NodeBirth => "NBIRTH",
            Self::NodeDeath => "NDEATH",
            Self::NodeData => "NDATA",
            Self::NodeCommand => "NCMD",
            Self::DeviceBirth => "DBIRTH",
            Self::DeviceDeath => "DDEATH",
            Self::DeviceData => "DDATA",
            Self::DeviceCommand => "DCMD",
        }
    }

    /// Whether its topic names a device.
    const fn of_device(self) -> bool {
        matches!(self, Self::DeviceBirth | Self::DeviceDeath | Self::DeviceData | Self::DeviceCommand)
    }
}

/// A topic, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// The node that the message is of or for.
    pub address: NodeAddress,
    /// What it is.
    pub kind: MessageType,
    /// The device, where it is of or for one.
    pub device: Option<String>,
}

impl Topic {
    /// Reads a topic; `None` where it is none of Sparkplug B's messages of nodes and devices.
    pub fn parse(text: &str) -> Option<Self> {
        let mut levels = text.strip_prefix(NAMESPACE)?.strip_prefix('/')?.splitn(5, '/');
        let (group, word, node, device) = (levels.next()?, levels.next()?, levels.next()?, levels.next());
        let kind = MessageType::ALL.into_iter().find(|kind| kind.word() == word)?;
        if levels.next().is_some() || kind.of_device() != device.is_some() {
            return None;
        }
        let device = device.map(|device| level("device", device)).transpose().ok()?;
        Some(Self { address: NodeAddress::new(group, node).ok()?, kind, device })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_read_as_they_are_written() {
        let address = NodeAddress::new("ACME-Bolt", "Monitor").unwrap();
        assert_eq!(address.topic(MessageType::NodeBirth), "spBv1.0/ACME-Bolt/NBIRTH/Monitor");
        assert_eq!(address.device_commands(), "spBv1.0/ACME-Bolt/DCMD/Monitor/+");
        for kind in MessageType::ALL.into_iter().filter(|kind| !kind.of_device()) {
            let read = Topic::parse(&address.topic(kind)).unwrap();
            assert_eq!(read, Topic { address: address.clone(), kind, device: None });
            assert_eq!(Topic::parse(&format!("{}/x", address.topic(kind))), None);
        }
        let read = Topic::parse("spBv1.0/ACME-Bolt/DCMD/Monitor/Press").unwrap();
        assert_eq!((read.kind, read.device.as_deref()), (MessageType::DeviceCommand, Some("Press")));
        for other in
            ["", "spBv1.0", "spBv1.0/G/NCMD", "spBv1.0/G/XCMD/N", "spBv1.0//NCMD/N", "spBv1.0/G/DCMD/N", "STATE/x"]
        {
            assert_eq!(Topic::parse(other), None, "{other}");
        }
        assert_eq!(Topic::parse("spBv1.0/G/DCMD/N/D/E"), None);
    }

    #[test]
    fn what_means_something_in_topics_is_no_name() {
        for bad in ["", "a/b", "+", "a#", "a\n", "a\0", &"a".repeat(256)] {
            assert!(NodeAddress::new(bad, "Monitor").is_err(), "{bad:?}");
            assert!(NodeAddress::new("G", bad).is_err(), "{bad:?}");
        }
        assert!(NodeAddress::new("Größe 1", "Monitor").is_ok());
    }
}
