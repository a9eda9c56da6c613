//! Generations of processors with SEV-SNP.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::TcbLayout;
use crate::refusal::{ReasonCode, Refusal};

/// A generation, as AMD's key distribution names it: each has an authority of its own. Bergamo and Siena have Genoa's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SnpProduct {
    /// Zen 3.
    Milan,
    /// Zen 4; Bergamo and Siena, too.
    Genoa,
    /// Zen 5.
    Turin,
}

impl SnpProduct {
    /// All that this program knows.
    pub const ALL: [Self; 3] = [Self::Milan, Self::Genoa, Self::Turin];

    /// AMD's name, as in the certificates' common names (`ARK-Milan`).
    pub const fn name(self) -> &'static str {
        match self {
            Self::Milan => "Milan",
            Self::Genoa => "Genoa",
            Self::Turin => "Turin",
        }
    }

    /// By family (base and extended), model (base and extended) and stepping, as reports from version 3 on have them.
    /// AMD 57230, "VCEK Certificate and KDS Interface Specification": family 19h with models 00h to 0Fh is Milan, 10h to 1Fh
    /// Genoa, A0h to `AFh` Bergamo and Siena; family 1Ah with models 00h to 11h is Turin.
    ///
    /// # Errors
    /// `snp-product-unknown`.
    pub fn of_processor([family, model, stepping]: [u8; 3]) -> Result<Self, Refusal> {
        match (family, model) {
            (0x19, 0x00..=0x0f) => Ok(Self::Milan),
            (0x19, 0x10..=0x1f | 0xa0..=0xaf) => Ok(Self::Genoa),
            (0x1a, 0x00..=0x11) => Ok(Self::Turin),
            _ => Err(Refusal::new(
                ReasonCode::SnpProductUnknown,
                format!("the report is of a processor of family {family:#x}, model {model:#x}, stepping {stepping:#x}"),
            )),
        }
    }

    #[cfg(feature = "processors")]
    /// By `productName` of a certificate, such as `Milan-B0`: the name, then perhaps a hyphen and a stepping.
    pub(crate) fn of_certificate(name: &str) -> Option<Self> {
        let name = name.split_once('-').map_or(name, |(name, _)| name);
        match name {
            "Milan" => Some(Self::Milan),
            "Genoa" | "Bergamo" | "Siena" => Some(Self::Genoa),
            "Turin" => Some(Self::Turin),
            _ => None,
        }
    }

    /// How its `TCB_VERSION`s are ordered.
    pub const fn tcb_layout(self) -> TcbLayout {
        match self {
            Self::Milan | Self::Genoa => TcbLayout::BeforeTurin,
            Self::Turin => TcbLayout::Turin,
        }
    }

    /// Bytes of a chip's number that are used: `hwID` of certificates has so many.
    pub const fn chip_id_len(self) -> usize {
        match self {
            Self::Milan | Self::Genoa => 64,
            Self::Turin => 8,
        }
    }
}

impl fmt::Display for SnpProduct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
