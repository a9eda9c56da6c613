//! The configuration as words of a command line: what a parser reads back as the same configuration.

use std::fmt;

use super::{ClusterStep, Config, Interface, NetworkSetup, SpkiHash, StateDisk, StaticNetwork};

impl fmt::Display for Config {
    /// Every key with its value, the defaults too, in the order of the documentation, separated by spaces.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Words(Vec::new());
        if let Some(root) = &self.root_verity {
            words.add("root_verity", root);
        }
        words.add("root_fs", self.root_fs.name());
        words.add("writable", &self.writable);
        words.add("init", self.init.display());
        words.add("state_disk", &self.state_disk);
        words.add("state_integrity", self.state_integrity.name());
        words.add("device_timeout", self.device_timeout.as_secs());
        words.add("network", &self.network);
        words.add("interface", &self.interface);
        words.add("network_timeout", self.network_timeout.as_secs());
        words.add("metadata", self.metadata.name());
        if !self.join_services.is_empty() {
            let services: Vec<_> = self.join_services.iter().map(ToString::to_string).collect();
            words.add("join_service", services.join(","));
        }
        if let Some(key) = &self.join_service_key {
            words.add("join_service_key", key);
        }
        if let Some(centre) = &self.centre {
            words.add("centre", &centre.service);
            words.add("centre_key", centre.key);
        }
        words.add("ek", self.ek.name());
        words.add("ak", self.ak.name());
        if let Some(role) = self.role_hint {
            words.add("role_hint", role.name());
        }
        words.add("listen_port", self.listen_port);
        match &self.cluster_step {
            Some(ClusterStep::Kubeadm) => words.add("cluster_step", "kubeadm"),
            Some(ClusterStep::Command(program)) => {
                words.add("cluster_step", "command");
                words.add("command", program.display());
            }
            None => {}
        }
        words.add("console_qr", self.console_qr.name());
        words.add("log", self.log.name());
        f.write_str(&words.0.join(" "))
    }
}

struct Words(Vec<String>);

impl Words {
    fn add(&mut self, key: &str, value: impl fmt::Display) {
        self.0.push(format!("latchkey.{key}={value}"));
    }
}

impl fmt::Display for StateDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Selected(selector) => selector.fmt(f),
        }
    }
}

impl fmt::Display for NetworkSetup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dhcp4 => f.write_str("dhcp4"),
            Self::Ipv6Ra => f.write_str("ipv6-ra"),
            Self::Static(network) => write!(f, "static:{network}"),
            Self::None => f.write_str("none"),
        }
    }
}

impl fmt::Display for StaticNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)?;
        self.gateway.iter().try_for_each(|gateway| write!(f, ",gw={gateway}"))?;
        self.dns.iter().try_for_each(|server| write!(f, ",dns={server}"))
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Name(name) => f.write_str(name),
            Self::Mac(mac) => f.write_str(&mac.map(|byte| format!("{byte:02x}")).join(":")),
        }
    }
}

impl fmt::Display for SpkiHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", hex::encode(self.0))
    }
}
