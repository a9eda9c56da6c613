//! Why no image was built.

use std::io;
use std::path::PathBuf;

use latchkey_disk::MIN_SIZE;
use latchkey_initramfs::InitramfsError;
use latchkey_initramfs::executable::ExecutableError;
use latchkey_reason::reason_codes;

use crate::cmdline::CmdlineError;
use crate::config::ConfigError;
use crate::container_store::ContainerStoreError;
use crate::gpt::GptError;
use crate::kernel::KernelError;
use crate::kubernetes::KubernetesError;
use crate::login_audit::WarningCode;
use crate::manifest::ManifestError;
use crate::os_release::OsReleaseError;
use crate::program::ProgramError;
use crate::root::RootError;
use crate::secure_boot::SecureBootError;
use crate::uki::UkiError;

/// Why no image was built.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The configuration file cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The image's name has characters that file names or os-release should not have.
    #[error("name: {0:?} is not 1 to 64 of a-z, 0-9, '-', '_' and '.', beginning with a letter or digit")]
    Name(String),
    /// The operator's words cannot stand in an image.
    #[error(transparent)]
    Words(#[from] CmdlineError),
    /// The agent could not become process 1.
    #[error("agent: {0}")]
    Agent(#[from] ExecutableError),
    /// The agent's file cannot be read.
    #[error("agent: {0}")]
    NoAgent(Box<ImageError>),
    /// The state partition is smaller than what the agent takes for a state disk.
    #[error("state_size: {0} bytes: a state disk has at least {MIN_SIZE}, and grows on the first boot")]
    StateSize(u64),
    /// The kernel or its modules are not what they should be.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The root does not get Kubernetes.
    #[error("kubernetes: {0}")]
    Kubernetes(#[from] KubernetesError),
    /// The root file system was not made.
    #[error(transparent)]
    Root(#[from] RootError),
    /// There is no usable `os-release`.
    #[error(transparent)]
    OsRelease(#[from] OsReleaseError),
    /// The initramfs was not made.
    #[error("initramfs: {0}")]
    Initramfs(#[from] InitramfsError),
    /// The unified kernel image was not made.
    #[error("unified kernel image: {0}")]
    Uki(#[from] UkiError),
    /// The image was not signed, or its keys not enrolled.
    #[error("secure_boot: {0}")]
    SecureBoot(#[from] SecureBootError),
    /// The reference manifest was not made.
    #[error("reference manifest: {0}")]
    Manifest(#[from] ManifestError),
    /// The boot partition was not made.
    #[error("boot partition: {0}")]
    Esp(io::Error),
    /// The disk was not made.
    #[error(transparent)]
    Disk(#[from] GptError),
    /// An external program is missing or failed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// A file could not be read or written.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
}

reason_codes! {
    /// Why no image was built.
    pub enum ImageCode {
        /// The configuration of an image cannot be used.
        ConfigUnusable = "image-config-unusable": "see `latchkey image build --help` for a configuration that works";
        /// The agent could not become process 1.
        AgentUnusable = "image-agent-unusable": "give the agent of a release, or one built for musl, as \"agent\"";
        /// The command line has words that the agent, the kernel or systemd would refuse or read differently.
        CommandLineRefused = "image-command-line-refused": "correct what is named in \"command_line\"";
        /// The kernel is none, or its modules are not its own.
        KernelUnusable = "image-kernel-unusable": "give a kernel with an EFI stub, and the modules of the same release";
        /// A program that the build needs is not installed.
        ProgramMissing = "program-missing": "install the program that is named";
        /// A program that the build needs ended with an error.
        ProgramFailed = "program-failed": "look at what the program said; there may be no room where the image is made";
        /// The root cannot be read, or lacks what a node needs.
        RootUnusable = "image-root-unusable": "correct what is named in the root";
        /// A component of Kubernetes is not there, or is another file.
        ComponentFailed = "image-component-failed": "correct \"components\" in \"kubernetes\"";
        /// A container image is not there, is another one, or cannot be unpacked.
        ContainerImageFailed = "image-container-image-failed": "correct \"images\" or \"container_images\" in \"kubernetes\"";
        /// A container image of a program would not run it.
        ProgramUnusable = "image-program-unusable": "give a static executable: cargo build --release --target x86_64-unknown-linux-musl";
        /// The initramfs was not made.
        InitramfsFailed = "image-initramfs-failed": "correct \"modules\", or the directory that it names";
        /// The unified kernel image was not made.
        UkiFailed = "image-uki-failed": "correct what is named of boot stub, kernel or command line";
        /// The image was not signed, or its keys not enrolled.
        SecureBootFailed = "image-secure-boot-failed": "correct what is named in \"secure_boot\"";
        /// The reference manifest was not made.
        ManifestFailed = "image-manifest-failed": "correct what is named, and run the command again";
        /// The boot partition or the disk was not made.
        DiskFailed = "image-disk-failed": "make room where the image is made, and run the command again";
        /// A file cannot be read or written.
        FileUnusable = "file-unusable": "check the path, and who may read or write it";
    }
}

/// Every reason code of this crate.
pub fn reason_codes() -> impl Iterator<Item = latchkey_reason::Reason> {
    latchkey_reason::reasons::<ImageCode>().chain(latchkey_reason::reasons::<WarningCode>())
}

impl ImageError {
    /// The stable reason code.
    pub fn code(&self) -> ImageCode {
        match self {
            Self::Config(_) | Self::Name(_) | Self::StateSize(_) => ImageCode::ConfigUnusable,
            Self::Agent(_) | Self::NoAgent(_) => ImageCode::AgentUnusable,
            Self::Words(_) => ImageCode::CommandLineRefused,
            Self::Kernel(_) => ImageCode::KernelUnusable,
            Self::Program(error) | Self::Root(RootError::Program(error)) => match error {
                ProgramError::Missing(_) => ImageCode::ProgramMissing,
                _ => ImageCode::ProgramFailed,
            },
            Self::Kubernetes(error) => match error {
                KubernetesError::Fetch(_) => ImageCode::ComponentFailed,
                KubernetesError::Local(error) => error.code(),
                KubernetesError::Containers(ContainerStoreError::Program(error)) => match error {
                    ProgramError::Missing(_) => ImageCode::ProgramMissing,
                    _ => ImageCode::ProgramFailed,
                },
                KubernetesError::Containers(_) | KubernetesError::NoArchive(_) | KubernetesError::Twice(_) => {
                    ImageCode::ContainerImageFailed
                }
                KubernetesError::InTheWay(_)
                | KubernetesError::NoProgram { .. }
                | KubernetesError::NoFile { .. }
                | KubernetesError::NoModule { .. } => ImageCode::RootUnusable,
                _ => ImageCode::ConfigUnusable,
            },
            Self::Root(_) | Self::OsRelease(_) => ImageCode::RootUnusable,
            Self::Initramfs(_) => ImageCode::InitramfsFailed,
            Self::Uki(_) => ImageCode::UkiFailed,
            Self::SecureBoot(_) => ImageCode::SecureBootFailed,
            Self::Manifest(_) => ImageCode::ManifestFailed,
            Self::Esp(_) | Self::Disk(_) => ImageCode::DiskFailed,
            Self::Io { .. } => ImageCode::FileUnusable,
        }
    }

    /// What to do: of the part that failed, or else of the code.
    pub fn remedy(&self) -> &str {
        let own = match self {
            Self::Config(error) => error.remedy(),
            Self::Agent(error) => error.remedy(),
            Self::NoAgent(_) => Some(
                "name the agent's file as \"agent\"; cargo build --release --target x86_64-unknown-linux-musl -p latchkey-agent makes one",
            ),
            Self::Words(error) => error.remedy(),
            Self::Kernel(error) => error.remedy(),
            Self::Kubernetes(error) => error.remedy(),
            Self::Root(error) => error.remedy(),
            Self::OsRelease(error) => error.remedy(),
            Self::Program(error) => error.remedy(),
            Self::Uki(error) => error.remedy(),
            Self::SecureBoot(error) => error.remedy(),
            _ => None,
        };
        own.unwrap_or(self.code().remedy())
    }

    /// Whether this machine is at fault, and not what was asked for.
    pub fn is_local(&self) -> bool {
        matches!(self.code(), ImageCode::ProgramMissing | ImageCode::ProgramFailed | ImageCode::DiskFailed)
    }
}

/// Names the file that an operation failed at.
pub(crate) fn at(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> ImageError {
    let path = path.into();
    move |source| ImageError::Io { path, source }
}
