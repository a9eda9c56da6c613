//! Builds unified kernel images: one PE file that holds boot stub, kernel, initramfs and command
//! line, so that the firmware measures all of them together.
//!
//! * [`pe`] reads PE files, strictly and within bounds,
//! * [`uki`] puts a [`uki::Uki`] together from systemd's boot stub and its parts.

pub mod pe;
pub mod uki;

pub use uki::{Uki, UkiError};
