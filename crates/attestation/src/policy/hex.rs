//! Bytes as a policy writes them.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// So many bytes as lower-case hexadecimal digits.
pub(super) struct Hex<const N: usize>(pub(super) [u8; N]);

impl<'de, const N: usize> Deserialize<'de> for Hex<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let mut bytes = [0; N];
        if !is_lower_hex(&text) || hex::decode_to_slice(&text, &mut bytes).is_err() {
            return Err(D::Error::custom(format_args!("expected {} lower-case hexadecimal digits", 2 * N)));
        }
        Ok(Self(bytes))
    }
}

pub(super) fn is_lower_hex(text: &str) -> bool {
    text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'))
}
