//! The values of the configuration and their forms.
//!
//! Every parser returns the expected form as its error: [`super::ConfigFault::Value`] shows it beside what was given.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Component, PathBuf};
use std::time::Duration;

use tracing::metadata::LevelFilter;

use crate::platform::devices::Guid;

type Parsed<T> = Result<T, &'static str>;

/// Which disk or partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskSelector {
    /// The partition with this label in its GPT.
    PartLabel(String),
    /// The partition of this type in its GPT.
    PartType(Guid),
    /// This device of `/dev`, a whole disk or a partition; the name without `/dev/`.
    Device(String),
}

/// The longest label a GPT holds: 72 bytes of UTF-16 (UEFI 2.10 section 5.3.3, `PartitionName`).
const MAX_PARTITION_LABEL: usize = 36;

impl DiskSelector {
    pub(super) fn parse(value: &str) -> Parsed<Self> {
        match value.split_once(':') {
            Some(("partlabel", label)) if !label.is_empty() && label.len() <= MAX_PARTITION_LABEL => {
                Ok(Self::PartLabel(label.to_owned()))
            }
            Some(("parttype", guid)) => Guid::parse(guid)
                .map(Self::PartType)
                .ok_or("parttype: and a GUID like 0fc63daf-8483-4772-8e79-3d69d8477de4"),
            Some(("device", path)) => {
                let name = path.strip_prefix("/dev/").filter(|name| is_device_name(name));
                name.map(|name| Self::Device(name.to_owned())).ok_or("device: and a path like /dev/vda")
            }
            _ => Err("partlabel:NAME (at most 36 characters), parttype:GUID or device:/dev/NAME"),
        }
    }
}

impl fmt::Display for DiskSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PartLabel(label) => write!(f, "partlabel:{label}"),
            Self::PartType(guid) => write!(f, "parttype:{guid}"),
            Self::Device(name) => write!(f, "device:/dev/{name}"),
        }
    }
}

/// A name right below `/dev`, as block devices have it.
fn is_device_name(name: &str) -> bool {
    !name.is_empty() && name.len() < 32 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// Where the node keeps its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateDisk {
    /// By the rule of [`crate::platform::devices`].
    Auto,
    /// This one.
    Selected(DiskSelector),
}

impl StateDisk {
    pub(super) fn parse(value: &str) -> Parsed<Self> {
        if value == "auto" { Ok(Self::Auto) } else { DiskSelector::parse(value).map(Self::Selected) }
    }
}

/// Declares an enum whose variants are words.
macro_rules! words {
    ($(#[$doc:meta])* pub enum $name:ident, $expected:literal { $($(#[$inner:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$inner])* $variant,)* }

        impl $name {
            pub(super) fn parse(value: &str) -> Parsed<Self> {
                match value { $($word => Ok(Self::$variant),)* _ => Err($expected) }
            }

            /// The word it is written as.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }
    };
}

words! {
    /// The file system of the operating system's root.
    pub enum RootFs, "squashfs, erofs or ext4" {
        /// `SquashFS`.
        Squashfs = "squashfs",
        /// EROFS.
        Erofs = "erofs",
        /// ext4, mounted read-only.
        Ext4 = "ext4",
    }
}

words! {
    /// Where instance metadata comes from.
    pub enum MetadataSource, "qemu or none" {
        /// QEMU's `fw_cfg`, else its SMBIOS strings.
        Qemu = "qemu",
        /// There is none.
        None = "none",
    }
}

words! {
    /// The endorsement key the node identifies itself with.
    pub enum EkChoice, "auto, ecc-p256, ecc-p384 or rsa-2048" {
        /// The first the TPM has a certificate for.
        Auto = "auto",
        /// ECC NIST P-256.
        EccP256 = "ecc-p256",
        /// ECC NIST P-384.
        EccP384 = "ecc-p384",
        /// RSA 2048.
        Rsa2048 = "rsa-2048",
    }
}

words! {
    /// The role a node asks for. The join service decides.
    pub enum RoleHint, "control-plane or worker" {
        /// Runs the control plane.
        ControlPlane = "control-plane",
        /// Runs workloads only.
        Worker = "worker",
    }
}

words! {
    /// How much the console shows.
    pub enum LogLevel, "error, warn, info or debug" {
        /// Failures.
        Error = "error",
        /// What an operator should look at, too.
        Warn = "warn",
        /// What happens, too.
        Info = "info",
        /// Why it happens, too.
        Debug = "debug",
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum ClusterStepKind {
    Command,
    Kubeadm,
}

impl ClusterStepKind {
    pub(super) fn parse(value: &str) -> Parsed<Self> {
        match value {
            "command" => Ok(Self::Command),
            "kubeadm" => Ok(Self::Kubeadm),
            _ => Err("command or kubeadm"),
        }
    }
}

impl LogLevel {
    /// The filter of the log.
    pub fn filter(self) -> LevelFilter {
        match self {
            Self::Error => LevelFilter::ERROR,
            Self::Warn => LevelFilter::WARN,
            Self::Info => LevelFilter::INFO,
            Self::Debug => LevelFilter::DEBUG,
        }
    }
}

/// What makes the node part of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterStep {
    /// Kubernetes, by kubeadm.
    Kubeadm,
    /// A program of the operating system.
    Command(PathBuf),
}

/// How the network is set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkSetup {
    /// By DHCPv4.
    Dhcp4,
    /// By the kernel, from IPv6 router advertisements.
    Ipv6Ra,
    /// As written here.
    Static(StaticNetwork),
    /// Only the loopback interface.
    None,
}

/// A fixed address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticNetwork {
    /// The address of this node.
    pub address: IpAddr,
    /// How many of its bits are the network.
    pub prefix: u8,
    /// The default gateway.
    pub gateway: Option<IpAddr>,
    /// Name servers.
    pub dns: Vec<IpAddr>,
}

/// resolv.conf(5): "Up to MAXNS (currently 3 \[…\]) name servers may be listed".
pub(crate) const MAX_NAME_SERVERS: usize = 3;

const STATIC_FORM: &str = "static:ADDRESS/PREFIX, then at most one ,gw=ADDRESS and three ,dns=ADDRESS, a usable address \
                           and a gateway of its kind";

impl NetworkSetup {
    pub(super) fn parse(value: &str) -> Parsed<Self> {
        match value {
            "dhcp4" => Ok(Self::Dhcp4),
            "ipv6-ra" => Ok(Self::Ipv6Ra),
            "none" => Ok(Self::None),
            _ => match value.strip_prefix("static:") {
                Some(rest) => StaticNetwork::parse(rest).map(Self::Static).ok_or(STATIC_FORM),
                None => Err("dhcp4, ipv6-ra, none or static:ADDRESS/PREFIX[,gw=ADDRESS][,dns=ADDRESS]"),
            },
        }
    }
}

impl StaticNetwork {
    fn parse(value: &str) -> Option<Self> {
        let mut parts = value.split(',');
        let (address, prefix) = parts.next()?.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let prefix = decimal(prefix).and_then(|prefix| u8::try_from(prefix).ok())?;
        let widest = if address.is_ipv4() { 32 } else { 128 };
        if prefix == 0 || prefix > widest || !is_unicast(address) {
            return None;
        }
        let mut network = Self { address, prefix, gateway: None, dns: Vec::new() };
        for part in parts {
            match part.split_once('=')? {
                ("gw", gateway) if network.gateway.is_none() => network.gateway = Some(gateway.parse().ok()?),
                ("dns", server) if network.dns.len() < MAX_NAME_SERVERS => network.dns.push(server.parse().ok()?),
                _ => return None,
            }
        }
        let gateway_fits =
            network.gateway.is_none_or(|gateway| gateway.is_ipv4() == address.is_ipv4() && is_unicast(gateway));
        (gateway_fits && network.dns.iter().copied().all(is_reachable)).then_some(network)
    }
}

/// An address a machine can have on a network.
pub(crate) fn is_unicast(address: IpAddr) -> bool {
    !address.is_loopback() && is_reachable(address)
}

/// An address one can send to.
fn is_reachable(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.octets()[0] == 0 || v4.octets()[0] >= 240);
    !address.is_unspecified() && !address.is_multicast() && !broadcast
}

/// Which network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interface {
    /// By the rule of [`crate::platform::net`].
    Auto,
    /// The one with this name.
    Name(String),
    /// The one with this MAC address.
    Mac([u8; 6]),
}

impl Interface {
    pub(super) fn parse(value: &str) -> Parsed<Self> {
        // IFNAMSIZ is 16 with the final zero (Linux `if.h`).
        let is_name = (1..16).contains(&value.len())
            && value.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
            && value.starts_with(|c: char| c.is_ascii_alphanumeric());
        match mac(value) {
            Some(mac) => Ok(Self::Mac(mac)),
            None if value == "auto" => Ok(Self::Auto),
            None if is_name => Ok(Self::Name(value.to_owned())),
            None => Err("auto, the name of an interface, or a MAC address like 52:54:00:12:34:56"),
        }
    }
}

fn mac(value: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    hex::decode_to_slice(value.replace(':', ""), &mut mac).ok()?;
    let colons = value.len() == 17 && value.bytes().skip(2).step_by(3).all(|byte| byte == b':');
    colons.then_some(mac)
}

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The host.
    pub host: Host,
    /// The TCP port.
    pub port: u16,
}

/// A host, by name or address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// Its address.
    Address(IpAddr),
    /// Its DNS name.
    Name(String),
}

impl Endpoint {
    /// Reads `NAME:PORT`, `1.2.3.4:PORT` or `[::1]:PORT`.
    pub fn parse(value: &str) -> Option<Self> {
        let (host, port) = value.rsplit_once(':')?;
        let port = self::port(port).ok()?;
        let host = if let Some(v6) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Host::Address(v6.parse::<Ipv6Addr>().ok()?.into())
        } else if host.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
            Host::Address(IpAddr::V4(host.parse().ok()?))
        } else {
            Host::Name(is_dns_name(host).then(|| host.to_owned())?)
        };
        Some(Self { host, port })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Address(address) => SocketAddr::new(*address, self.port).fmt(f),
            Host::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

/// A name of letters, digits and hyphens (RFC 1123 section 2.1, RFC 1035 section 2.3.4 for the lengths).
pub(crate) fn is_dns_name(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

const MAX_ENDPOINTS: usize = 8;

pub(super) fn endpoints(value: &str) -> Parsed<Vec<Endpoint>> {
    let endpoints: Option<Vec<_>> = value.split(',').take(MAX_ENDPOINTS + 1).map(Endpoint::parse).collect();
    let few = endpoints.filter(|endpoints| endpoints.len() <= MAX_ENDPOINTS);
    few.ok_or("HOST:PORT, separated by commas, at most eight, IPv6 addresses in brackets")
}

/// The SHA-256 of a service's `SubjectPublicKeyInfo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpkiHash(pub [u8; 32]);

impl SpkiHash {
    pub(super) fn parse(value: &str) -> Parsed<Self> {
        let mut hash = [0; 32];
        let decoded =
            value.strip_prefix("sha256:").is_some_and(|digits| hex::decode_to_slice(digits, &mut hash).is_ok());
        if decoded { Ok(Self(hash)) } else { Err("sha256: and 64 hex digits") }
    }
}

pub(super) fn port(value: &str) -> Parsed<u16> {
    let port = decimal(value).and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0);
    port.ok_or("a port from 1 to 65535")
}

pub(super) fn timeout(value: &str) -> Parsed<Duration> {
    let seconds = decimal(value).filter(|seconds| (1..=3600).contains(seconds));
    seconds.map(|seconds| Duration::from_secs(seconds.into())).ok_or("whole seconds from 1 to 3600")
}

/// A decimal number without sign and leading zeros.
fn decimal(value: &str) -> Option<u32> {
    let canonical = value.bytes().all(|b| b.is_ascii_digit()) && (value == "0" || !value.starts_with('0'));
    value.parse().ok().filter(|_| canonical)
}

pub(super) fn absolute_path(value: &str) -> Parsed<PathBuf> {
    let path = PathBuf::from(value);
    let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if path.is_absolute() && plain && value.len() > 1 { Ok(path) } else { Err("an absolute path without ..") }
}
