//! The configuration file of an image: closed, versioned JSON.

use std::fmt;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use latchkey_attestation::ImageVersion;
use latchkey_initramfs::Wanted;
use serde::Deserialize;

use crate::root::{Compression, RootFormat};
use crate::{Image, Source};

/// The schema that this version reads.
const SCHEMA: u64 = 1;
/// Far more than paths and words need.
const MAX_SIZE: u64 = 64 * 1024;

/// What a configuration file says. Paths in it are relative to its folder.
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
    /// systemd's boot stub [Debian's, from systemd-boot-efi].
    stub: Option<PathBuf>,
    /// The root file system: a directory, a tar archive, or a finished squashfs or erofs.
    root: PathBuf,
    /// What is made of a directory or an archive [squashfs].
    root_format: Option<RootFormat>,
    /// How [zstd for squashfs, lz4 for erofs].
    compression: Option<Compression>,
    /// The operator's own words of the kernel command line.
    command_line: String,
    /// `os-release` of the image [that of the root].
    os_release: Option<PathBuf>,
    /// Bytes of the boot partition [as many as it needs].
    esp_size: Option<u64>,
    /// Bytes of the state partition in the image; it grows on the first boot [16 MiB].
    state_size: Option<u64>,
    /// Whether to make a qcow2 file too [no].
    #[serde(default)]
    qcow2: bool,
}

/// Why a configuration is not used.
#[derive(Debug)]
pub enum ConfigError {
    /// The file could not be read.
    Io(std::io::Error),
    /// It is not the JSON it should be.
    Json(serde_json::Error),
    /// It is longer than any configuration.
    TooLong,
    /// It is of another version of the schema.
    Schema(u64),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(source) => source.fmt(f),
            Self::Json(source) => source.fmt(f),
            Self::TooLong => write!(f, "longer than {MAX_SIZE} bytes"),
            Self::Schema(schema) => write!(f, "schema {schema}: this version reads schema {SCHEMA}"),
        }
    }
}

impl std::error::Error for ConfigError {}

/// The part that every version of the schema has.
#[derive(Deserialize)]
struct SchemaOnly {
    schema: u64,
}

impl ImageConfig {
    /// Reads a configuration file.
    pub fn read(path: &Path) -> Result<Image, ConfigError> {
        let mut text = Vec::new();
        let file = fs::File::open(path).map_err(ConfigError::Io)?;
        file.take(MAX_SIZE + 1).read_to_end(&mut text).map_err(ConfigError::Io)?;
        if text.len() as u64 > MAX_SIZE {
            return Err(ConfigError::TooLong);
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        Ok(Self::parse(&text)?.image(folder))
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

    /// The image it describes; relative paths begin at `folder`.
    pub fn image(self, folder: &Path) -> Image {
        let at = |path: PathBuf| folder.join(path);
        let file = |path: PathBuf| Source::File(folder.join(path));
        let mut image =
            Image::new(self.name, self.version, file(self.kernel), at(self.modules), file(self.agent), at(self.root));
        if let Some(names) = self.module_names {
            image.module_names = names.iter().map(|name| Wanted::parse(name)).collect();
        }
        image.stub = self.stub.map_or(image.stub, file);
        image.root_format = self.root_format;
        image.compression = self.compression;
        image.command_line = self.command_line;
        image.os_release = self.os_release.map(file);
        image.esp_size = self.esp_size;
        image.state_size = self.state_size.unwrap_or(image.state_size);
        image.qcow2 = self.qcow2;
        image
    }
}
