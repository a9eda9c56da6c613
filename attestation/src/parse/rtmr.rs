//! Registers of a TDX guest that are extended while it runs.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

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

/// Reads an object keyed by register, `"0"` to `"3"`, refusing one that is there twice.
pub(crate) fn by_rtmr<'de, D, T>(deserializer: D) -> Result<BTreeMap<Rtmr, T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct ByRtmr<T>(std::marker::PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for ByRtmr<T> {
        type Value = BTreeMap<Rtmr, T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object keyed by RTMR 0 to 3")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut values = BTreeMap::new();
            while let Some(register) = map.next_key::<Rtmr>()? {
                if values.insert(register, map.next_value()?).is_some() {
                    return Err(A::Error::custom(format_args!("{register} is there twice")));
                }
            }
            Ok(values)
        }
    }

    deserializer.deserialize_map(ByRtmr(std::marker::PhantomData))
}
