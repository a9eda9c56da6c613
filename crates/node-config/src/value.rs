//! The values of the configuration and their forms.
//!
//! Every parser returns the expected form as its error: [`super::ConfigError::Value`] shows it beside what was given.

use std::fmt;
use std::path::{Component, PathBuf};
use std::time::Duration;

use latchkey_boot_formats::Guid;

pub(super) type Parsed<T> = Result<T, &'static str>;

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
    /// By the rule of the agent's `platform::devices`.
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
macro_rules! string_enum {
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

string_enum! {
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

string_enum! {
    /// Whether the sectors of the state disk are authenticated.
    pub enum StateIntegrity, "none or hmac-sha256" {
        /// They are encrypted only: a changed sector is other data.
        None = "none",
        /// By HMAC-SHA256 over dm-integrity: a changed sector is an error.
        HmacSha256 = "hmac-sha256",
    }
}

string_enum! {
    /// Whether the console shows the digest of the node's key as a QR code, too.
    pub enum ConsoleQr, "none or ascii" {
        /// In digits and words alone.
        None = "none",
        /// And in 37 lines of 74 columns.
        Ascii = "ascii",
    }
}

string_enum! {
    /// Where instance metadata comes from.
    pub enum MetadataSource, "qemu, aws, gcp, azure, openstack, hetzner, nocloud, config-drive, auto or none" {
        /// QEMU's `fw_cfg`, else its SMBIOS strings.
        Qemu = "qemu",
        /// User data of Amazon EC2, by version 2 of its metadata service.
        Aws = "aws",
        /// The attribute `latchkey-metadata` of a Google Compute Engine instance.
        Gcp = "gcp",
        /// User data of an Azure virtual machine.
        Azure = "azure",
        /// User data of `OpenStack`, by its metadata service.
        Openstack = "openstack",
        /// User data of a Hetzner server.
        Hetzner = "hetzner",
        /// A volume with the label `cidata`.
        Nocloud = "nocloud",
        /// `OpenStack`'s config drive: a volume with the label `config-2`.
        ConfigDrive = "config-drive",
        /// The one that the machine's SMBIOS names: `nocloud`, a cloud, QEMU's on QEMU; none elsewhere.
        Auto = "auto",
        /// There is none.
        None = "none",
    }
}

impl MetadataSource {
    /// Whether it is or may be one that is asked over the network.
    pub(crate) fn asks_a_server(self) -> bool {
        match self {
            Self::Aws | Self::Gcp | Self::Azure | Self::Openstack | Self::Hetzner | Self::Auto => true,
            Self::Qemu | Self::Nocloud | Self::ConfigDrive | Self::None => false,
        }
    }
}

string_enum! {
    /// The TCG template of the endorsement key that the node identifies itself with. One and never a choice: a node that
    /// took what its TPM says it has a certificate for could be given another identity by whoever sits on the TPM's bus.
    pub enum EkChoice, "ecc-p256, ecc-p384, ecc-p521, rsa-2048, rsa-3072, rsa-4096, ecc-p256-high or rsa-2048-high" {
        /// L-2: ECC NIST P-256.
        EccP256 = "ecc-p256",
        /// H-3: ECC NIST P-384.
        EccP384 = "ecc-p384",
        /// H-4: ECC NIST P-521.
        EccP521 = "ecc-p521",
        /// L-1: RSA 2048.
        Rsa2048 = "rsa-2048",
        /// H-6: RSA 3072.
        Rsa3072 = "rsa-3072",
        /// H-7: RSA 4096.
        Rsa4096 = "rsa-4096",
        /// H-2: ECC NIST P-256, high range.
        EccP256High = "ecc-p256-high",
        /// H-1: RSA 2048, high range.
        Rsa2048High = "rsa-2048-high",
    }
}

string_enum! {
    /// The attestation key that the node quotes with. Asked for by name for the same reason.
    pub enum AkChoice, "own, google-ecc, google-rsa, azure or azure-hcl" {
        /// Made by the node, ECDSA on P-256.
        Own = "own",
        /// Google's, ECDSA on P-256.
        GoogleEcc = "google-ecc",
        /// Google's, RSA 2048.
        GoogleRsa = "google-rsa",
        /// Azure's, RSA 2048.
        Azure = "azure",
        /// The same without its certificate: the paravisor's, in a confidential machine.
        AzureHcl = "azure-hcl",
    }
}

string_enum! {
    /// The role a node asks for. The join service decides.
    pub enum RoleHint, "control-plane or worker" {
        /// Runs the control plane.
        ControlPlane = "control-plane",
        /// Runs workloads only.
        Worker = "worker",
    }
}

string_enum! {
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

/// What makes the node part of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterStep {
    /// Kubernetes, by kubeadm.
    Kubeadm,
    /// A program of the operating system.
    Command(PathBuf),
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
pub(super) fn decimal(value: &str) -> Option<u32> {
    let canonical = value.bytes().all(|b| b.is_ascii_digit()) && (value == "0" || !value.starts_with('0'));
    value.parse().ok().filter(|_| canonical)
}

pub(super) fn absolute_path(value: &str) -> Parsed<PathBuf> {
    let path = PathBuf::from(value);
    let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if path.is_absolute() && plain && value.len() > 1 { Ok(path) } else { Err("an absolute path without ..") }
}
