//! The configuration file of an image: closed, versioned JSON.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use latchkey_attestation::ImageVersion;
use latchkey_initramfs::Wanted;
use latchkey_keys::{KeyError, read_private_file};
use latchkey_measurements::predict::{Machine, MachineType, PredictError};
use latchkey_measurements::signing::{MAX_KEY_FILE, SigningError, SigningKey};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::cloud::Cloud;
use crate::image::{Image, Source};
use crate::kubernetes::{KubernetesConfig, KubernetesError};
use crate::root::{Compression, RootFormat};
use crate::secure_boot::{SecureBoot, SecureBootError, Signer, certificate_from_pem};
use crate::systemd::Systemd;

/// The schema that this version reads.
const SCHEMA: u64 = 1;
/// Far more than paths and words need.
const MAX_SIZE: u64 = 64 * 1024;
/// An RSA key of 16384 bits in PEM has 13 KB, a certificate less.
const MAX_PEM: usize = 64 * 1024;
/// OVMF's templates are 528 KiB.
const MAX_TEMPLATE: usize = 16 << 20;
/// Firmware without Secure Boot, as Debian 12 and 13 bring it for QEMU: what an image is predicted for unless the
/// configuration says.
const DEFAULT_MACHINES: [&str; 2] = ["debian-12-ovmf", "debian-13-ovmf"];

/// What a configuration file says. Paths in it are relative to its directory.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageConfig {
    /// 1
    schema: u64,
    /// Name of the image: lower-case letters, digits, `-`, `_`, `.`.
    name: String,
    /// `MAJOR.MINOR.PATCH`
    version: ImageVersion,
    /// The kernel (`vmlinuz` with EFI stub).
    kernel: PathBuf,
    /// Its modules: `lib/modules/RELEASE`, as the package has it.
    modules: PathBuf,
    /// Modules for the initramfs, `?` before those that may be missing [what Debian's cloud kernels need].
    module_names: Option<Vec<String>>,
    /// The agent, a static executable.
    agent: PathBuf,
    /// The boot stub, systemd-stub [Debian's, from systemd-boot-efi].
    stub: Option<PathBuf>,
    /// The root file system: a directory, a tar archive, or a finished squashfs or erofs.
    root: PathBuf,
    /// What is made of a directory or an archive [squashfs].
    root_format: Option<RootFormat>,
    /// How [zstd for squashfs, lz4 for erofs].
    compression: Option<Compression>,
    /// What the root gets so that its systemd runs a node [nothing].
    systemd: Option<Systemd>,
    /// What of Kubernetes the root gets [nothing].
    kubernetes: Option<KubernetesConfig>,
    /// The operator's own words of the kernel command line.
    command_line: String,
    /// Whether the image is for machines that have their disks already, and shall neither found a cluster nor join one [no].
    #[serde(default)]
    recover_only: bool,
    /// `os-release` of the image [that of the root].
    os_release: Option<PathBuf>,
    /// Bytes of the boot partition [as many as it needs].
    esp_size: Option<u64>,
    /// Bytes of the state partition in the image; it grows on the first boot [16 MiB].
    state_size: Option<u64>,
    /// Whether to make a qcow2 file too [no].
    #[serde(default)]
    qcow2: bool,
    /// Where the image is brought to: `aws`, `gcp`, `azure`, `openstack`, `hetzner`, `qemu` [nowhere that needs more].
    #[serde(default)]
    clouds: BTreeSet<Cloud>,
    /// Signs the image for Secure Boot [no].
    secure_boot: Option<SecureBootConfig>,
    /// The types of machines that the reference manifest is for: names of built-in ones, or descriptions
    /// [`debian-12-ovmf` and `debian-13-ovmf`; with `secure_boot.variables`, OVMF with these].
    machines: Option<Vec<MachineEntry>>,
    /// The manifest's revision [`SOURCE_DATE_EPOCH`, at least 1].
    serial: Option<u64>,
    /// A minisign secret key without a password that signs the manifest [nobody].
    signing_key: Option<PathBuf>,
}

/// Keys for Secure Boot; all files are PEM but the template.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct SecureBootConfig {
    /// The RSA key that signs the image; mode 0600.
    key: PathBuf,
    /// Its certificate, which goes into `db`.
    certificate: PathBuf,
    /// The platform key's certificate [`certificate`].
    platform_certificate: Option<PathBuf>,
    /// The key exchange key's certificate [`platform_certificate`].
    exchange_certificate: Option<PathBuf>,
    /// An empty variable store to enroll these in, such as `/usr/share/OVMF/OVMF_VARS_4M.fd` [none is made].
    variables: Option<PathBuf>,
}

#[derive(Debug, Clone)]
enum MachineEntry {
    Builtin(String),
    Described(Box<MachineType>),
}

/// A name, or a description. What is wrong within a description is said, which `untagged` would not.
impl<'de> Deserialize<'de> for MachineEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entry;
        impl<'de> Visitor<'de> for Entry {
            type Value = MachineEntry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a type of machine, or a description of one")
            }

            fn visit_str<E>(self, name: &str) -> Result<MachineEntry, E> {
                Ok(MachineEntry::Builtin(name.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<MachineEntry, A::Error> {
                MachineType::deserialize(MapAccessDeserializer::new(map)).map(Box::new).map(MachineEntry::Described)
            }
        }
        deserializer.deserialize_any(Entry)
    }
}

/// Why a configuration is not used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file, or one that it names, could not be read.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// It is not the JSON it should be.
    #[error(transparent)]
    Json(serde_json::Error),
    /// It, or a file that it names, is longer than any of its kind.
    #[error("{}: longer than any file of its kind", .0.display())]
    TooLong(PathBuf),
    /// It is of another version of the schema.
    #[error("schema {0}: this version reads schema {SCHEMA}")]
    Schema(u64),
    /// A key's file is not private, or cannot be read.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A key or certificate for Secure Boot is none.
    #[error("secure_boot: {0}")]
    SecureBoot(#[from] SecureBootError),
    /// The manifest's key is none.
    #[error("signing_key: {0}")]
    Signing(#[from] SigningError),
    /// The manifest's key has a password, which nobody is there to type.
    #[error("signing_key: it has a password")]
    EncryptedKey,
    /// What of Kubernetes is asked for cannot be had.
    #[error("kubernetes: {0}")]
    Kubernetes(#[from] Box<KubernetesError>),
    /// A type of machine is not known, or its files are not what it says.
    #[error("machines: {0}")]
    Machine(#[from] PredictError),
    /// There is no built-in type of machine of this name.
    #[error("machines: {0:?} is none of {known}", known = MachineType::BUILTIN.join(", "))]
    UnknownMachine(String),
    /// Signed for Secure Boot, and nothing says for which keys' machines: no manifest could be made.
    #[error("secure_boot: nothing says what machines will measure, so there would be no reference.json")]
    NoMachines,
}

impl ConfigError {
    /// What to do, where that is more than to correct what the message names.
    pub fn remedy(&self) -> Option<&str> {
        Some(match self {
            Self::Key(error) => error.code().remedy(),
            Self::EncryptedKey => {
                "leave the key out, and sign reference.json afterwards with `latchkey reference sign`"
            }
            Self::UnknownMachine(_) => "name one of these, or describe the machine",
            Self::NoMachines => {
                "add \"variables\" (an empty store, such as /usr/share/OVMF/OVMF_VARS_4M.fd), or \"machines\" with a description \
                 of yours; \"machines\": [] builds without"
            }
            Self::Kubernetes(error) => return error.remedy(),
            Self::SecureBoot(error) => return error.remedy(),
            Self::Signing(error) => return error.remedy(),
            _ => return None,
        })
    }
}

/// The part that every version of the schema has.
#[derive(Deserialize)]
struct SchemaOnly {
    schema: u64,
}

impl ImageConfig {
    /// Reads a configuration file, and the keys and descriptions of machines that it names.
    pub fn read(path: &Path) -> Result<Image, ConfigError> {
        let text = read(path, usize::try_from(MAX_SIZE).unwrap_or(usize::MAX))?;
        Self::parse(&text)?.image(path.parent().unwrap_or(Path::new("")))
    }

    /// Reads a configuration. What the schema says about another version comes first.
    pub fn parse(text: &[u8]) -> Result<Self, ConfigError> {
        if let Ok(SchemaOnly { schema }) = serde_json::from_slice(text)
            && schema != SCHEMA
        {
            return Err(ConfigError::Schema(schema));
        }
        let config: Self = serde_json::from_slice(text).map_err(ConfigError::Json)?;
        if config.schema == SCHEMA { Ok(config) } else { Err(ConfigError::Schema(config.schema)) }
    }

    /// The image it describes; relative paths begin at `directory`.
    pub fn image(self, directory: &Path) -> Result<Image, ConfigError> {
        let at = |path: PathBuf| directory.join(path);
        let file = |path: PathBuf| Source::File(directory.join(path));
        let mut image =
            Image::new(self.name, self.version, file(self.kernel), at(self.modules), file(self.agent), at(self.root));
        if let Some(names) = self.module_names {
            image.module_names = names.iter().map(|name| Wanted::parse(name)).collect();
        }
        image.stub = self.stub.map_or(image.stub, file);
        image.root_format = self.root_format;
        image.compression = self.compression;
        image.kubernetes = self.kubernetes.map(|wanted| wanted.load(directory)).transpose().map_err(Box::new)?;
        image.systemd = match &image.kubernetes {
            Some(kubernetes) => Some(kubernetes.systemd(self.systemd).map_err(Box::new)?),
            None => self.systemd,
        };
        image.command_line = self.command_line;
        image.recover_only = self.recover_only;
        image.os_release = self.os_release.map(file);
        image.esp_size = self.esp_size;
        image.state_size = self.state_size.unwrap_or(image.state_size);
        image.qcow2 = self.qcow2;
        image.clouds = self.clouds;
        image.secure_boot = self.secure_boot.map(|keys| keys.load(directory)).transpose()?;
        image.machines = match self.machines {
            Some(machines) => machines.into_iter().map(|machine| machine.load(directory)).collect::<Result<_, _>>()?,
            // Those without Secure Boot are not what it is signed for.
            None if image.secure_boot.as_ref().is_some_and(|keys| keys.variables.is_some()) => Vec::new(),
            None if image.secure_boot.is_some() => return Err(ConfigError::NoMachines),
            None => DEFAULT_MACHINES
                .map(str::to_owned)
                .map(MachineEntry::Builtin)
                .into_iter()
                .map(|machine| machine.load(directory))
                .collect::<Result<_, _>>()?,
        };
        image.serial = self.serial;
        image.manifest_key = self.signing_key.map(|path| signing_key(&directory.join(path))).transpose()?;
        Ok(image)
    }
}

impl SecureBootConfig {
    fn load(self, directory: &Path) -> Result<SecureBoot, ConfigError> {
        let pem = |path: PathBuf| read(&directory.join(path), MAX_PEM);
        let certificate = |path: Option<PathBuf>| {
            path.map(|path| Ok::<_, ConfigError>(certificate_from_pem(&pem(path)?)?)).transpose()
        };
        let key = read_private_file(&directory.join(self.key), MAX_PEM)?;
        Ok(SecureBoot {
            signer: Signer::from_pem(&key, &pem(self.certificate)?)?,
            platform: certificate(self.platform_certificate)?,
            exchange: certificate(self.exchange_certificate)?,
            variables: self.variables.map(|path| read(&directory.join(path), MAX_TEMPLATE)).transpose()?,
        })
    }
}

impl MachineEntry {
    fn load(self, directory: &Path) -> Result<Machine, ConfigError> {
        let machine = match self {
            Self::Builtin(name) => MachineType::builtin(&name).ok_or(ConfigError::UnknownMachine(name))?,
            Self::Described(machine) => *machine,
        };
        Ok(machine.load(directory)?)
    }
}

fn signing_key(path: &Path) -> Result<SigningKey, ConfigError> {
    let file = read_private_file(path, MAX_KEY_FILE)?;
    SigningKey::parse(file.expose(), || Err(ConfigError::EncryptedKey))
}

fn read(path: &Path, limit: usize) -> Result<Vec<u8>, ConfigError> {
    let failed = |source| ConfigError::Io { path: path.into(), source };
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(failed)?;
    file.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > limit { Err(ConfigError::TooLong(path.into())) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: &str = r#"{"schema": 1, "name": "edge", "version": "1.0.0", "kernel": "k", "modules": "m",
        "agent": "a", "root": "/r", "command_line": "quiet""#;

    fn parsed(more: &str) -> Result<Image, String> {
        let config = ImageConfig::parse(format!("{LEAST}{more}}}").as_bytes()).map_err(|error| error.to_string())?;
        config.image(Path::new("/directory")).map_err(|error| error.to_string())
    }

    fn with_guests(fields: &str) -> String {
        let machine = r#""name": "x", "secure_boot": "off", "secure_boot_variable": "zero""#;
        format!(r#", "machines": [{{{machine}, "snp": {{{fields}}}}}]"#)
    }

    #[test]
    fn paths_are_relative_to_the_configuration_s_directory() {
        let image = parsed("").unwrap();
        assert!(matches!(image.kernel, Source::File(path) if path == Path::new("/directory/k")));
        assert_eq!((image.modules.as_path(), image.root.as_path()), (Path::new("/directory/m"), Path::new("/r")));
        let machines: Vec<_> = image.machines.iter().map(|machine| machine.name.as_str()).collect();
        assert_eq!(machines, DEFAULT_MACHINES);
    }

    #[test]
    fn the_example_is_a_configuration() {
        assert!(ImageConfig::parse(include_bytes!("../examples/edge.json")).is_ok());
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for (more, said) in [
            (r#", "roof": 1"#, "unknown field `roof`"),
            (r#", "root_format": "ext4""#, "ext4"),
            (r#", "machines": ["abacus"]"#, "abacus"),
            (r#", "machines": [{"name": "x", "secure_boot": "off", "extra": 1}]"#, "unknown field `extra`"),
            (r#", "machines": [7]"#, "the name of a type of machine, or a description of one"),
            (&with_guests(r#""firmware": "f", "vcpus": [1]"#), "missing field `kernel_hashes`"),
            (&with_guests(r#""firmware": "f", "vcpus": [1], "kernel_hashes": false, "x": 1"#), "unknown field `x`"),
            (&with_guests(r#""firmware": "f", "vcpus": [1], "kernel_hashes": false"#), "read /directory/f"),
            (&with_guests(r#""firmware": "f", "vcpus": [1], "kernel_hashes": true"#), "say `boot`: qemu-kernel"),
            (
                &with_guests(r#""firmware": "f", "vcpus": [1], "kernel_hashes": false, "vcpu_type": "8086""#),
                "known are EPYC, ",
            ),
            (
                &with_guests(r#""firmware": "f", "vcpus": [1], "kernel_hashes": false, "guest_features": "0x2""#),
                "without bit 0, which is SNP itself",
            ),
            (r#", "secure_boot": {"key": "nowhere", "certificate": "c"}"#, "nowhere"),
            (r#", "signing_key": "nowhere""#, "nowhere"),
            (r#", "name": "twice""#, "duplicate field"),
        ] {
            let error = parsed(more).unwrap_err();
            assert!(error.contains(said), "{more}: {error}");
        }
        let other = br#"{"schema": 2, "anything": true}"#;
        assert!(matches!(ImageConfig::parse(other), Err(ConfigError::Schema(2))));
    }
}
