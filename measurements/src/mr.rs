//! The measurement registers of confidential machines, and the PCRs that they stand for.

use std::fmt;

use latchkey_attestation::PcrSet;
use serde::Serialize;

/// A measurement register of a TDX machine, by its index in a log (UEFI 2.10, section 38.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Mr {
    /// Index 0: what the machine was built of. Complete before it runs; no event extends it.
    Mrtd,
    /// Index 1: the firmware's configuration and Secure Boot.
    Rtmr0,
    /// Index 2: what the firmware loads.
    Rtmr1,
    /// Index 3: the operating system.
    Rtmr2,
    /// Index 4: for applications.
    Rtmr3,
}

impl Mr {
    /// The run-time measurement registers, in a quote's order.
    pub const RTMRS: [Self; 4] = [Self::Rtmr0, Self::Rtmr1, Self::Rtmr2, Self::Rtmr3];

    /// The register with this index in a log.
    pub fn of_index(index: u32) -> Option<Self> {
        [Self::Mrtd, Self::Rtmr0, Self::Rtmr1, Self::Rtmr2, Self::Rtmr3].into_iter().find(|mr| *mr as u32 == index)
    }

    /// The PCRs of a TPM whose measurements it takes (UEFI 2.10, section 38.4.1).
    pub fn pcrs(self) -> PcrSet {
        let pcrs: &[u8] = match self {
            Self::Mrtd => &[0],
            Self::Rtmr0 => &[1, 7],
            Self::Rtmr1 => &[2, 3, 4, 5, 6],
            Self::Rtmr2 => &[8, 9, 10, 11, 12, 13, 14, 15],
            Self::Rtmr3 => &[],
        };
        PcrSet::of(pcrs).unwrap_or(PcrSet::EMPTY)
    }

    /// In words, with the PCRs of a TPM that it stands for.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Mrtd => "the machine's first memory; as a TPM's PCR 0",
            Self::Rtmr0 => "firmware configuration, Secure Boot; as a TPM's PCR 1, 7",
            Self::Rtmr1 => "what the firmware loads; as a TPM's PCR 2 to 6",
            Self::Rtmr2 => "operating system; as a TPM's PCR 8 to 15",
            Self::Rtmr3 => "applications; as no PCR",
        }
    }
}

impl fmt::Display for Mr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Mrtd => "MRTD",
            Self::Rtmr0 => "RTMR0",
            Self::Rtmr1 => "RTMR1",
            Self::Rtmr2 => "RTMR2",
            Self::Rtmr3 => "RTMR3",
        })
    }
}
