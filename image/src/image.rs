//! What an image is made of.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use latchkey_attestation::ImageVersion;
use latchkey_initramfs::Wanted;
use latchkey_measurements::predict::Machine;
use latchkey_measurements::signing::SigningKey;

use crate::cloud::Cloud;
use crate::error::{ImageError, at};
use crate::form::Form;
use crate::kubernetes::Kubernetes;
use crate::modules::default_modules;
use crate::root::{Compression, RootFormat};
use crate::secure_boot::SecureBoot;
use crate::systemd::Systemd;

/// Debian's boot stub, from the package systemd-boot-efi.
pub const DEBIAN_STUB: &str = "/usr/lib/systemd/boot/efi/linuxx64.efi.stub";
/// Enough to be a partition; the agent grows it to the disk's end.
const STATE_SIZE: u64 = 16 << 20;

/// A part that is a file or is there already.
#[derive(Debug, Clone)]
pub enum Source {
    /// This file.
    File(PathBuf),
    /// These bytes.
    Bytes(Vec<u8>),
}

impl Source {
    /// The bytes.
    pub(crate) fn read(&self) -> Result<Cow<'_, [u8]>, ImageError> {
        match self {
            Self::File(path) => fs::read(path).map(Cow::Owned).map_err(at(path)),
            Self::Bytes(bytes) => Ok(Cow::Borrowed(bytes)),
        }
    }
}

/// What an image is made of. All but the sizes is measured.
#[derive(Debug)]
pub struct Image {
    /// Lower-case letters, digits, `-`, `_`, `.`.
    pub name: String,
    /// Its version.
    pub version: ImageVersion,
    /// The kernel (`vmlinuz` with EFI stub).
    pub kernel: Source,
    /// The directory of its modules, for example `/lib/modules/6.1.0-56-cloud-amd64`.
    pub modules: PathBuf,
    /// Which go into the initramfs, with what they depend on [of `latchkey_initramfs::DEBIAN_CLOUD` those that a node of this
    /// configuration uses].
    pub module_names: Vec<Wanted>,
    /// The agent, a static executable.
    pub agent: Source,
    /// More files for the initramfs: path, permissions, content. Images that ship need none.
    pub initramfs_files: Vec<(String, u32, Vec<u8>)>,
    /// The boot stub, systemd-stub [`DEBIAN_STUB`].
    pub stub: Source,
    /// A directory, a tar archive, or a finished squashfs or erofs.
    pub root: PathBuf,
    /// What is made of a directory or an archive [squashfs].
    pub root_format: Option<RootFormat>,
    /// How its contents are compressed [zstd for squashfs, lz4 for erofs].
    pub compression: Option<Compression>,
    /// What the root gets so that its systemd runs a node [nothing]. The root is a directory or an archive then.
    pub systemd: Option<Systemd>,
    /// What of Kubernetes it carries [nothing]; `systemd` is then what [`Kubernetes::systemd`] makes of it.
    pub kubernetes: Option<Kubernetes>,
    /// The operator's own words of the kernel command line.
    pub command_line: String,
    /// Whether it is for machines that have their disks already, and can neither found a cluster nor join one [no].
    pub recover_only: bool,
    /// `os-release` [that of the root].
    pub os_release: Option<Source>,
    /// Bytes of the boot partition [as many as it needs].
    pub esp_size: Option<u64>,
    /// Bytes of the state partition [16 MiB].
    pub state_size: u64,
    /// Whether to make a qcow2 file too.
    pub qcow2: bool,
    /// Where it is brought to [nowhere that needs another form of the disk, or drivers beside those of `module_names`].
    pub clouds: BTreeSet<Cloud>,
    /// Signs the image, and enrolls who signed it [neither].
    pub secure_boot: Option<SecureBoot>,
    /// The types of machines that the reference manifest is for. With Secure Boot and a variable store for it, one is
    /// added: OVMF with this image's keys. Without any, no manifest is made.
    pub machines: Vec<Machine>,
    /// The manifest's revision [`epoch`, at least 1].
    ///
    /// [`epoch`]: Self::epoch
    pub serial: Option<u64>,
    /// Signs the manifest [nobody].
    pub manifest_key: Option<SigningKey>,
    /// Time of everything in the image that has one, seconds since 1970 [0].
    pub epoch: u32,
    /// Whether `agent` is the node agent [yes]: then command line, root and the agent's file are held against what it needs.
    /// Tests build images with programs of their own.
    pub is_agent: bool,
}

impl Image {
    /// The agent's bytes.
    pub(crate) fn agent(&self) -> Result<Cow<'_, [u8]>, ImageError> {
        self.agent.read().map_err(|error| ImageError::NoAgent(Box::new(error)))
    }

    /// Forms of the disk that are made beside the raw one.
    pub(crate) fn forms(&self) -> BTreeSet<Form> {
        let asked = self.qcow2.then_some(Form::Qcow2);
        self.clouds.iter().map(|cloud| cloud.form()).chain(asked).collect()
    }

    /// Whether there are types of machines for a manifest.
    pub(crate) fn has_manifest(&self) -> bool {
        !self.machines.is_empty() || self.secure_boot.as_ref().is_some_and(|keys| keys.variables.is_some())
    }

    /// An image with the defaults that stand at the fields in brackets, and no words of the operator.
    pub fn new(
        name: impl Into<String>,
        version: ImageVersion,
        kernel: Source,
        modules: impl Into<PathBuf>,
        agent: Source,
        root: impl Into<PathBuf>,
    ) -> Self {
        Self {
            name: name.into(),
            version,
            kernel,
            modules: modules.into(),
            module_names: default_modules(),
            agent,
            initramfs_files: Vec::new(),
            stub: Source::File(DEBIAN_STUB.into()),
            root: root.into(),
            root_format: None,
            compression: None,
            systemd: None,
            kubernetes: None,
            command_line: String::new(),
            recover_only: false,
            os_release: None,
            esp_size: None,
            state_size: STATE_SIZE,
            qcow2: false,
            clouds: BTreeSet::new(),
            secure_boot: None,
            machines: Vec::new(),
            serial: None,
            manifest_key: None,
            epoch: 0,
            is_agent: true,
        }
    }
}
