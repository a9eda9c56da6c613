//! The node's configuration: keys of its measured kernel command line, typed, read ([`Config::parse`]) and written
//! (`Display`). The agent boots by it; image builder and command line hold a command line against it before it is measured.
//!
//! The command line is measured into a PCR, so what stands here is part of the node's identity. Keys begin with
//! `latchkey.`; the set is closed: an unknown key, a key given twice or a value out of form refuses the boot, since
//! guessing what was meant could open a node its owner meant to close. Values are printable ASCII without spaces and
//! quotes. Other words of the command line are the kernel's and are not looked at.
//!
#![doc = ""]
#![doc = include_str!("../KEYS.md")]

mod error;
mod keys;
mod network;
mod render;
mod root;
mod value;
mod words;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

pub use error::{ConfigCode, ConfigError, reason_codes};
pub use keys::{KEYS, Key, table};
pub use network::{
    Endpoint, Host, Interface, MAX_NAME_SERVERS, NetworkSetup, StaticNetwork, is_dns_name, is_subdomain, is_unicast,
};
pub use root::{RootVerity, Writable};
pub use value::{
    AkChoice, ClusterStep, ConsoleQr, DiskSelector, EkChoice, LogLevel, MetadataSource, RoleHint, RootFs, SpkiHash,
    StateDisk, StateIntegrity,
};

/// The longest command line read. The kernel's own limit on x86 is 2048 (`COMMAND_LINE_SIZE`).
pub const MAX_COMMAND_LINE: usize = 16 * 1024;

/// Where the first node of a new cluster registers it: never from metadata, which the host writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Centre {
    /// `latchkey.centre`: the centre's enrol service.
    pub service: Endpoint,
    /// `latchkey.centre_key`: what it proves itself by.
    pub key: SpkiHash,
}

/// The measured configuration of this boot; the module's documentation lists the keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// `latchkey.root_verity`. Stage 1 asks with [`Config::root`].
    pub root_verity: Option<RootVerity>,
    /// `latchkey.root_fs`
    pub root_fs: RootFs,
    /// `latchkey.writable`
    pub writable: Writable,
    /// `latchkey.init`
    pub init: PathBuf,
    /// `latchkey.state_disk`
    pub state_disk: StateDisk,
    /// `latchkey.state_integrity`
    pub state_integrity: StateIntegrity,
    /// `latchkey.device_timeout`
    pub device_timeout: Duration,
    /// `latchkey.network`
    pub network: NetworkSetup,
    /// `latchkey.interface`
    pub interface: Interface,
    /// `latchkey.network_timeout`
    pub network_timeout: Duration,
    /// `latchkey.metadata`
    pub metadata: MetadataSource,
    /// `latchkey.join_service`; empty if this node cannot join by itself.
    pub join_services: Vec<Endpoint>,
    /// `latchkey.join_service_key`
    pub join_service_key: Option<SpkiHash>,
    /// `latchkey.centre` with `latchkey.centre_key`
    pub centre: Option<Centre>,
    /// `latchkey.ek`
    pub ek: EkChoice,
    /// `latchkey.ak`
    pub ak: AkChoice,
    /// `latchkey.role_hint`
    pub role_hint: Option<RoleHint>,
    /// `latchkey.listen_port`
    pub listen_port: u16,
    /// `latchkey.cluster_step` with `latchkey.command`. A boot asks with [`Config::cluster_step`].
    pub cluster_step: Option<ClusterStep>,
    /// `latchkey.console_qr`
    pub console_qr: ConsoleQr,
    /// `latchkey.log`
    pub log: LogLevel,
}

impl Config {
    /// Reads the kernel command line of this boot, `/proc/cmdline`.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn from_kernel() -> Result<Self, ConfigError> {
        let bytes = std::fs::read("/proc/cmdline").map_err(|source| ConfigError::Unreadable { source })?;
        Self::parse(&bytes)
    }

    /// Reads a command line.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn parse(command_line: &[u8]) -> Result<Self, ConfigError> {
        if command_line.len() > MAX_COMMAND_LINE {
            return Err(ConfigError::TooLong);
        }
        let mut keys = Keys::default();
        for word in words::latchkey_words(command_line) {
            let (key, value) = word?;
            keys.take(key, value)?;
        }
        keys.finish()
    }

    /// The operating system's root, which stage 1 cannot do without.
    ///
    /// # Errors
    /// [`ConfigError::Missing`].
    pub fn root(&self) -> Result<&RootVerity, ConfigError> {
        self.root_verity.as_ref().ok_or(ConfigError::Missing { key: "latchkey.root_verity" })
    }

    /// What makes the node a member, without which no boot has an end. There is no default: what would work is in the image.
    ///
    /// # Errors
    /// [`ConfigError::Missing`].
    pub fn cluster_step(&self) -> Result<&ClusterStep, ConfigError> {
        self.cluster_step.as_ref().ok_or(ConfigError::Missing { key: "latchkey.cluster_step" })
    }
}

/// The keys met so far, each at most once.
#[derive(Default)]
struct Keys {
    root_verity: Option<RootVerity>,
    root_fs: Option<RootFs>,
    writable: Option<Writable>,
    init: Option<PathBuf>,
    state_disk: Option<StateDisk>,
    state_integrity: Option<StateIntegrity>,
    device_timeout: Option<Duration>,
    network: Option<NetworkSetup>,
    interface: Option<Interface>,
    network_timeout: Option<Duration>,
    metadata: Option<MetadataSource>,
    join_services: Option<Vec<Endpoint>>,
    join_service_key: Option<SpkiHash>,
    centre: Option<Endpoint>,
    centre_key: Option<SpkiHash>,
    ek: Option<EkChoice>,
    ak: Option<AkChoice>,
    role_hint: Option<RoleHint>,
    listen_port: Option<u16>,
    cluster_step: Option<value::ClusterStepKind>,
    command: Option<PathBuf>,
    console_qr: Option<ConsoleQr>,
    log: Option<LogLevel>,
}

impl Keys {
    fn take(&mut self, key: &str, value: &str) -> Result<(), ConfigError> {
        match key.strip_prefix(words::PREFIX).unwrap_or(key) {
            "root_verity" => once(&mut self.root_verity, key, value, RootVerity::parse),
            "root_fs" => once(&mut self.root_fs, key, value, RootFs::parse),
            "writable" => once(&mut self.writable, key, value, Writable::parse),
            "init" => once(&mut self.init, key, value, value::absolute_path),
            "state_disk" => once(&mut self.state_disk, key, value, StateDisk::parse),
            "state_integrity" => once(&mut self.state_integrity, key, value, StateIntegrity::parse),
            "device_timeout" => once(&mut self.device_timeout, key, value, value::timeout),
            "network" => once(&mut self.network, key, value, NetworkSetup::parse),
            "interface" => once(&mut self.interface, key, value, Interface::parse),
            "network_timeout" => once(&mut self.network_timeout, key, value, value::timeout),
            "metadata" => once(&mut self.metadata, key, value, MetadataSource::parse),
            "join_service" => once(&mut self.join_services, key, value, network::endpoints),
            "join_service_key" => once(&mut self.join_service_key, key, value, SpkiHash::parse),
            "centre" => once(&mut self.centre, key, value, network::endpoint),
            "centre_key" => once(&mut self.centre_key, key, value, SpkiHash::parse),
            "ek" => once(&mut self.ek, key, value, EkChoice::parse),
            "ak" => once(&mut self.ak, key, value, AkChoice::parse),
            "role_hint" => once(&mut self.role_hint, key, value, RoleHint::parse),
            "listen_port" => once(&mut self.listen_port, key, value, value::port),
            "cluster_step" => once(&mut self.cluster_step, key, value, value::ClusterStepKind::parse),
            "command" => once(&mut self.command, key, value, value::absolute_path),
            "console_qr" => once(&mut self.console_qr, key, value, ConsoleQr::parse),
            "log" => once(&mut self.log, key, value, LogLevel::parse),
            _ => Err(ConfigError::UnknownKey { key: key.to_owned() }),
        }
    }

    fn finish(self) -> Result<Config, ConfigError> {
        let join_services = self.join_services.unwrap_or_default();
        if self.join_service_key.is_some() && join_services.is_empty() {
            return Err(ConfigError::MissingCompanion {
                key: "latchkey.join_service_key",
                needs: "latchkey.join_service",
            });
        }
        let cluster_step = cluster_step(self.cluster_step, self.command)?;
        let centre = centre(self.centre, self.centre_key, cluster_step.as_ref())?;
        let asks_a_server = self.metadata.is_some_and(MetadataSource::asks_a_server);
        if asks_a_server && matches!(self.network, Some(NetworkSetup::None)) {
            let needs = "a network; latchkey.network is none";
            return Err(ConfigError::MissingCompanion { key: "latchkey.metadata", needs });
        }
        Ok(Config {
            root_verity: self.root_verity,
            root_fs: self.root_fs.unwrap_or(RootFs::Squashfs),
            writable: self.writable.unwrap_or(Writable::Overlay),
            init: self.init.unwrap_or_else(|| PathBuf::from("/sbin/init")),
            state_disk: self.state_disk.unwrap_or(StateDisk::Auto),
            state_integrity: self.state_integrity.unwrap_or(StateIntegrity::None),
            device_timeout: self.device_timeout.unwrap_or(Duration::from_secs(30)),
            network: self.network.unwrap_or(NetworkSetup::Dhcp4),
            interface: self.interface.unwrap_or(Interface::Auto),
            network_timeout: self.network_timeout.unwrap_or(Duration::from_mins(1)),
            metadata: self.metadata.unwrap_or(MetadataSource::None),
            join_services,
            join_service_key: self.join_service_key,
            centre,
            ek: self.ek.unwrap_or(EkChoice::EccP256),
            ak: self.ak.unwrap_or(AkChoice::Own),
            role_hint: self.role_hint,
            listen_port: self.listen_port.unwrap_or(9000),
            cluster_step,
            console_qr: self.console_qr.unwrap_or(ConsoleQr::None),
            log: self.log.unwrap_or(LogLevel::Info),
        })
    }
}

fn once<T>(
    slot: &mut Option<T>,
    key: &str,
    value: &str,
    parse: impl FnOnce(&str) -> Result<T, &'static str>,
) -> Result<(), ConfigError> {
    if slot.is_some() {
        return Err(ConfigError::Duplicate { key: key.to_owned() });
    }
    let invalid = |expected| ConfigError::Value { key: key.to_owned(), value: value.to_owned(), expected };
    *slot = Some(parse(value).map_err(invalid)?);
    Ok(())
}

/// Both or neither; what the centre answers is for Kubernetes.
fn centre(
    service: Option<Endpoint>,
    key: Option<SpkiHash>,
    step: Option<&ClusterStep>,
) -> Result<Option<Centre>, ConfigError> {
    let needs = |key, needs| Err(ConfigError::MissingCompanion { key, needs });
    match (service, key) {
        (Some(_), _) if matches!(step, Some(ClusterStep::Command(_))) => {
            needs("latchkey.centre", "latchkey.cluster_step=kubeadm")
        }
        (Some(service), Some(key)) => Ok(Some(Centre { service, key })),
        (Some(_), None) => needs("latchkey.centre", "latchkey.centre_key"),
        (None, Some(_)) => needs("latchkey.centre_key", "latchkey.centre"),
        (None, None) => Ok(None),
    }
}

fn cluster_step(
    kind: Option<value::ClusterStepKind>,
    command: Option<PathBuf>,
) -> Result<Option<ClusterStep>, ConfigError> {
    match (kind, command) {
        (Some(value::ClusterStepKind::Command), Some(path)) => Ok(Some(ClusterStep::Command(path))),
        (Some(value::ClusterStepKind::Command), None) => Err(ConfigError::Missing { key: "latchkey.command" }),
        (Some(value::ClusterStepKind::Kubeadm), None) => Ok(Some(ClusterStep::Kubeadm)),
        (None, None) => Ok(None),
        (Some(value::ClusterStepKind::Kubeadm) | None, Some(_)) => {
            Err(ConfigError::MissingCompanion { key: "latchkey.command", needs: "latchkey.cluster_step=command" })
        }
    }
}
