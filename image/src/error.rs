//! Why no image was built.

use std::fmt;
use std::io;
use std::path::PathBuf;

use latchkey_disk::MIN_SIZE;
use latchkey_initramfs::InitramfsError;
use latchkey_initramfs::executable::ExecutableError;

use crate::cmdline::CmdlineError;
use crate::config::ConfigError;
use crate::gpt::GptError;
use crate::kernel::KernelError;
use crate::manifest::ManifestError;
use crate::os_release::OsReleaseError;
use crate::program::ProgramError;
use crate::root::RootError;
use crate::secure_boot::SecureBootError;
use crate::uki::UkiError;

/// Why no image was built; its text names what to change.
#[derive(Debug)]
pub enum ImageError {
    /// The configuration file cannot be used.
    Config(ConfigError),
    /// The image's name has characters that file names or os-release should not have.
    Name(String),
    /// The operator's words cannot stand in an image.
    Words(CmdlineError),
    /// The agent could not become process 1.
    Agent(ExecutableError),
    /// The state partition is smaller than what the agent takes for a state disk.
    StateSize(u64),
    /// The kernel or its modules are not what they should be.
    Kernel(KernelError),
    /// The root file system was not made.
    Root(RootError),
    /// There is no usable `os-release`.
    OsRelease(OsReleaseError),
    /// The initramfs was not made.
    Initramfs(InitramfsError),
    /// The unified kernel image was not made.
    Uki(UkiError),
    /// The image was not signed, or its keys not enrolled.
    SecureBoot(SecureBootError),
    /// The reference manifest was not made.
    Manifest(ManifestError),
    /// The boot partition was not made.
    Esp(io::Error),
    /// The disk was not made.
    Disk(GptError),
    /// An external program is missing or failed.
    Program(ProgramError),
    /// A file could not be read or written.
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
}

impl ImageError {
    /// A stable word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Config(_) | Self::Name(_) | Self::StateSize(_) => "image-config-unusable",
            Self::Agent(_) => "image-agent-unusable",
            Self::Words(_) => "image-command-line-refused",
            Self::Kernel(_) => "image-kernel-unusable",
            Self::Program(ProgramError::Missing(_)) | Self::Root(RootError::Program(ProgramError::Missing(_))) => {
                "program-missing"
            }
            Self::Program(_) | Self::Root(RootError::Program(_)) => "program-failed",
            Self::Root(_) | Self::OsRelease(_) => "image-root-unusable",
            Self::Initramfs(_) => "image-initramfs-failed",
            Self::Uki(_) => "image-uki-failed",
            Self::SecureBoot(_) => "image-secure-boot-failed",
            Self::Manifest(_) => "image-manifest-failed",
            Self::Esp(_) | Self::Disk(_) => "image-disk-failed",
            Self::Io { .. } => "file-unusable",
        }
    }

    /// Whether this machine is at fault, and not what was asked for.
    pub fn is_local(&self) -> bool {
        matches!(self.code(), "program-missing" | "program-failed" | "image-disk-failed")
    }
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Name(name) => {
                write!(
                    f,
                    "name: {name:?}: give 1 to 64 of a-z, 0-9, '-', '_' and '.', beginning with a letter or digit"
                )
            }
            Self::Words(error) => error.fmt(f),
            Self::Agent(error) => write!(f, "agent: {error}"),
            Self::StateSize(size) => {
                write!(f, "state_size: {size} bytes: a state disk has at least {MIN_SIZE}, and grows on the first boot")
            }
            Self::Kernel(error) => error.fmt(f),
            Self::Root(error) => error.fmt(f),
            Self::OsRelease(error) => error.fmt(f),
            Self::Initramfs(error) => write!(f, "initramfs: {error}"),
            Self::Uki(error) => write!(f, "unified kernel image: {error}"),
            Self::SecureBoot(error) => write!(f, "secure_boot: {error}"),
            Self::Manifest(error) => write!(f, "reference manifest: {error}"),
            Self::Esp(source) => write!(f, "boot partition: {source}"),
            Self::Disk(error) => error.fmt(f),
            Self::Program(error) => error.fmt(f),
            Self::Io { path, source } => write!(f, "{}: {source}", path.display()),
        }
    }
}

impl std::error::Error for ImageError {}

macro_rules! from {
    ($($error:ty => $variant:ident),* $(,)?) => {$(
        impl From<$error> for ImageError {
            fn from(error: $error) -> Self {
                Self::$variant(error)
            }
        }
    )*};
}

from! {
    ConfigError => Config,
    CmdlineError => Words,
    ExecutableError => Agent,
    KernelError => Kernel,
    RootError => Root,
    OsReleaseError => OsRelease,
    InitramfsError => Initramfs,
    UkiError => Uki,
    SecureBootError => SecureBoot,
    ManifestError => Manifest,
    GptError => Disk,
    ProgramError => Program,
}

/// Names the file that an operation failed at.
pub(crate) fn at(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> ImageError {
    let path = path.into();
    move |source| ImageError::Io { path, source }
}
