//! The processor that a guest sees: its signature is in DX when it starts, and therefore measured.

use std::fmt;
use std::str::FromStr;

/// What CPUID leaf 1 gives in EAX: family, model, stepping (AMD APM volume 3, appendix E.3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuSignature(pub u32);

impl CpuSignature {
    /// Of QEMU's first `EPYC`, in all its versions.
    pub(super) const EPYC: Self = Self(0x0080_0f12);

    /// Of a processor family 15 and up. What does not fit its field (family 15 to 270, model 0 to 255, stepping 0 to 15)
    /// is `None`.
    pub const fn new(family: u16, model: u8, stepping: u8) -> Option<Self> {
        if family < 0xf || family > 0xf + 0xff || stepping > 0xf {
            return None;
        }
        let (family, model, stepping) = (family as u32, model as u32, stepping as u32);
        Some(Self((family - 0xf) << 20 | (model >> 4) << 16 | 0xf << 8 | (model & 0xf) << 4 | stepping))
    }

    /// Of one of QEMU's processor models, as `-cpu` names it, with or without a version (`EPYC-Milan-v2`); versions
    /// differ in features, never in the signature.
    pub fn of_model(name: &str) -> Option<Self> {
        let model = match name.rsplit_once("-v") {
            Some((model, version)) if !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit()) => model,
            _ => name,
        };
        let (_, [family, number, stepping]) = MODELS.iter().find(|(other, _)| *other == model)?;
        Self::new(u16::from(*family), *number, *stepping)
    }

    /// The names that [`Self::of_model`] knows, without versions.
    pub fn models() -> impl Iterator<Item = &'static str> {
        MODELS.iter().map(|(name, _)| *name)
    }
}

/// A model's name, or `0x` and the signature in hexadecimal, for `-cpu host` and for models that QEMU gets later.
impl FromStr for CpuSignature {
    type Err = UnknownCpuError;

    fn from_str(text: &str) -> Result<Self, UnknownCpuError> {
        let digits = text.strip_prefix("0x").filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let signature = match digits {
            Some(digits) => u32::from_str_radix(digits, 16).ok().map(Self),
            None => Self::of_model(text),
        };
        signature.ok_or_else(|| UnknownCpuError(text.to_owned()))
    }
}

impl fmt::Display for CpuSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

/// A name that is no processor model's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no processor model of QEMU with SEV-SNP: {0:?}; known are {known}, or the signature, the 0x… that CPUID leaf 1 has in EAX",
    known = CpuSignature::models().collect::<Vec<_>>().join(", ")
)]
pub struct UnknownCpuError(pub String);

/// Family, model and stepping of QEMU's EPYC models (`target/i386/cpu.c`, `builtin_x86_defs`).
const MODELS: [(&str, [u8; 3]); 6] = [
    ("EPYC", [23, 1, 2]),
    ("EPYC-IBPB", [23, 1, 2]),
    ("EPYC-Rome", [23, 49, 0]),
    ("EPYC-Milan", [25, 1, 1]),
    ("EPYC-Genoa", [25, 17, 0]),
    ("EPYC-Turin", [26, 0, 0]),
];
