//! Builds what a machine boots from: unified kernel images (one PE file that holds boot stub, kernel,
//! initramfs and command line, so that the firmware measures all of them together) and disks.
//!
//! * [`gpt`] lays out disks,
//! * [`uki`] puts a [`uki::Uki`] together from systemd's boot stub and its parts.

pub mod gpt;
pub mod uki;

pub use uki::{Uki, UkiError};
