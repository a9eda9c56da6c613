//! Builds OS images: everything that a machine boots, and what it will be measured as.
//!
//! Equal inputs give equal bytes, whatever the directory, the user or the day; nothing needs privileges, loop devices or
//! mounts. In the order of a build:
//!
//! 1. [`config`] reads what is wanted into an [`Image`]; [`cmdline`] checks the kernel command line.
//! 2. [`root`] makes the root file system, with what [`systemd`] needs if it is to run there, [`verity`] hashes it. What [`kubernetes`]
//!    a node carries lies in it.
//! 3. `latchkey_initramfs` packs the agent and its modules; [`uki`] puts kernel, initramfs and the command line with
//!    the root's hash into one PE file.
//! 4. [`secure_boot`] signs that, if wanted. It goes into an EFI system partition, and all into a disk ([`gpt`]).
//! 5. The reference manifest says what machines will measure, from the bytes as they are handed out.
//!
//! [`Image::build`] does it all.

mod archive;
pub mod build;
mod cloud;
pub mod cmdline;
pub mod config;
mod container_image;
mod container_store;
pub mod error;
mod esp;
mod form;
pub mod gpt;
mod identity;
pub mod image;
mod kernel;
pub mod kubernetes;
mod libraries;
mod login_audit;
mod manifest;
mod modules;
mod os_release;
mod overlay;
pub mod parts;
pub mod preflight;
mod program;
mod provenance;
mod publish;
pub mod root;
pub mod secure_boot;
pub mod systemd;
mod tree;
mod tree_digest;
pub mod uki;
pub mod verity;

pub use build::Built;
pub use cloud::Cloud;
pub use config::{ConfigError, ImageConfig};
pub use container_image::{ContainerImage, ContainerImageError};
pub use container_store::ContainerStoreError;
pub use error::{ImageCode, ImageError, reason_codes};
pub use form::Form;
pub use image::{DEBIAN_STUB, Image, Source};
pub use kubernetes::{Kubernetes, KubernetesError};
pub use libraries::{KERBEROS, Libraries, LibrariesError, libraries};
pub use login_audit::{Warning, WarningCode};
pub use manifest::ManifestError;
pub use parts::{Part, Progress};
pub use root::{Compression, RootFormat};
pub use secure_boot::{SecureBoot, SecureBootError, Signer};
pub use systemd::Systemd;
pub use uki::{Uki, UkiError};
