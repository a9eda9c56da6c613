//! Builds OS images: everything that a machine boots, and what it will be measured as.
//!
//! Equal inputs give equal bytes, whatever the folder, the user or the day; nothing needs privileges, loop devices or
//! mounts. In the order of a build:
//!
//! 1. [`config`] reads what is wanted into an [`Image`]; [`words`] checks the kernel command line.
//! 2. [`root`] makes the root file system, with what [`systemd`] needs if it is to run there, [`verity`] hashes it.
//! 3. `latchkey_initramfs` packs the agent and its modules; [`uki`] puts kernel, initramfs and the command line with
//!    the root's hash into one PE file.
//! 4. [`secure_boot`] signs that, if wanted. It goes into an EFI system partition, and all into a disk ([`gpt`]).
//! 5. The reference manifest says what machines will measure, from the bytes as they are handed out.
//!
//! [`Image::build`] does it all.

mod added;
mod archive;
pub mod build;
pub mod config;
pub mod error;
mod esp;
pub mod fitness;
pub mod gpt;
mod hand_out;
mod identity;
pub mod image;
mod kernel;
mod listing;
mod manifest;
mod origin;
mod os_release;
pub mod parts;
mod program;
pub mod root;
pub mod secure_boot;
pub mod systemd;
mod tree;
pub mod uki;
pub mod verity;
mod ways_in;
pub mod words;

pub use build::Built;
pub use config::{ConfigError, ImageConfig};
pub use error::ImageError;
pub use fitness::RootDemands;
pub use image::{AgentCheck, DEBIAN_STUB, Image, Source};
pub use manifest::ManifestError;
pub use parts::{Part, Progress};
pub use root::{Compression, RootFormat};
pub use secure_boot::{SecureBoot, SecureBootError, Signer};
pub use systemd::Systemd;
pub use uki::{Uki, UkiError};
pub use ways_in::Warning;
