//! Registers of a TDX guest that are extended while it runs.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A register that a guest extends: 0 firmware and its settings, 1 the boot loader or kernel, 2 what they load, 3 anybody's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Rtmr {
    /// The firmware's settings, Secure Boot: a TPM's PCR 1 and 7 (UEFI 2.10, section 38.4.1).
    #[serde(rename = "0")]
    R0,
    /// What the firmware loads: a TPM's PCR 2 to 6.
    #[serde(rename = "1")]
    R1,
    /// What that loads: a TPM's PCR 8 to 15.
    #[serde(rename = "2")]
    R2,
    /// No PCR's.
    #[serde(rename = "3")]
    R3,
}

impl fmt::Display for Rtmr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RTMR {}", *self as u8)
    }
}
