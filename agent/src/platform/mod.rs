//! The platform: everything between the kernel and the life of a node.
//!
//! The agent is process 1 of an initramfs that holds nothing else: no shell, no udev, no module loader. What those
//! would do is done here, one module per duty, in the order stage 1 needs them:
//!
//! | module | duty |
//! |---|---|
//! | [`pid1`] | the witness that this process is process 1 and may act on the whole machine |
//! | [`mounts`] | `/proc`, `/sys`, `/dev`, `/run`, securityfs, configfs; the root file system |
//! | [`hardening`] | what the kernel must not do: magic keys, core dumps, kexec |
//! | [`console`], [`logging`], [`timeline`] | lines for humans and for tests; one step after the other, with its time |
//! | [`modules`] | kernel modules, in the order the builder of the initramfs wrote down |
//! | [`devices`] | disks and partitions, by label, by type, by the rule of the state disk |
//! | [`volume`] | files of a small FAT or ISO 9660 volume, read without mounting it |
//! | [`root`] | the root of the operating system, which the measured root hash vouches for |
//! | [`net`] | links, addresses, routes, DHCPv4, router advertisements, names |
//! | [`metadata`] | what the machine's owner or host says about this instance: requests, never facts |
//! | [`handover`] | away with the initramfs, on with the operating system |
//! | [`snp`] | what the processor of a SEV-SNP guest says of it |
//! | [`power`], [`clock`], [`entropy`] | reboot, time since boot, random numbers |
//!
//! Every error has a stable reason code in kebab case ([`PlatformError::code`]) and its remedy; what happened is its
//! `Display`.

pub mod clock;
pub mod console;
pub mod devices;
pub mod entropy;
pub mod hardening;
pub mod logging;
pub mod metadata;
pub mod modules;
pub mod mounts;
pub mod net;
pub mod pid1;
pub mod power;
pub mod processor;
pub mod root;
pub mod switch_root;
pub(crate) mod sys;
pub mod timeline;
pub mod volume;

use latchkey_node_config::ConfigError;
use latchkey_reason::{Reason, reasons};

/// Why the platform could not do its duty.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum PlatformError {
    /// Not process 1.
    Pid1(#[from] pid1::Pid1Error),
    /// A file system is not there.
    Mount(#[from] mounts::MountError),
    /// Something that must be closed is not.
    Hardening(#[from] hardening::HardeningError),
    /// The measured configuration is not acceptable.
    Config(#[from] ConfigError),
    /// A kernel module did not load.
    Module(#[from] modules::ModuleError),
    /// A disk was not found, or too many were.
    Device(#[from] devices::DeviceError),
    /// The root cannot be opened.
    Root(#[from] root::RootError),
    /// The network did not come up.
    Network(#[from] net::NetworkError),
    /// The instance metadata is not acceptable.
    Metadata(#[from] metadata::MetadataError),
    /// The operating system could not take over.
    SwitchRoot(#[from] switch_root::SwitchRootError),
}

impl PlatformError {
    /// The stable reason code, with its remedy.
    pub fn code(&self) -> Reason {
        match self {
            Self::Pid1(error) => error.code().into(),
            Self::Mount(error) => error.code().into(),
            Self::Hardening(error) => error.code().into(),
            Self::Config(error) => error.code().into(),
            Self::Module(error) => error.code().into(),
            Self::Device(error) => error.code().into(),
            Self::Root(error) => error.code().into(),
            Self::Network(error) => error.code().into(),
            Self::Metadata(error) => error.code().into(),
            Self::SwitchRoot(error) => error.code().into(),
        }
    }
}

/// Every reason code of the platform itself.
pub(crate) fn reason_codes() -> impl Iterator<Item = Reason> {
    reasons::<pid1::Pid1Code>()
        .chain(reasons::<mounts::MountCode>())
        .chain(reasons::<hardening::HardeningCode>())
        .chain(reasons::<modules::ModuleCode>())
        .chain(reasons::<devices::DeviceCode>())
        .chain(reasons::<root::RootCode>())
        .chain(reasons::<net::NetworkCode>())
        .chain(reasons::<metadata::MetadataCode>())
        .chain(reasons::<switch_root::SwitchRootCode>())
        .chain(reasons::<power::PowerCode>())
        .chain(reasons::<processor::ReportCode>())
}
