//! Builds the initramfs reproducibly: the agent, the kernel modules it needs, nothing else.
//!
//! The same inputs give the same bytes, whatever the directory, the clock or the user: names are
//! sorted, inodes counted, every file belongs to root and carries one given time.
//!
//! * [`cpio`] writes the archive the kernel unpacks,
//! * [`elf`] reads what a kernel module says about itself,
//! * [`executable`] says whether a file can become process 1,
//! * [`modules`] finds modules and what they depend on,
//! * [`Initramfs`] puts these together in the layout the agent expects.

pub mod cpio;
pub mod elf;
#[cfg(any(test, feature = "elf-sample"))]
pub mod elf_sample;
pub mod error;
pub mod executable;
pub mod layout;
pub mod modules;
pub mod needed;
mod unpack;

pub use error::InitramfsError;
pub use layout::{Initramfs, source_date_epoch};
pub use modules::{DEBIAN_CLOUD, Module, ModuleTree, Need, Wanted};
