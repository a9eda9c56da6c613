//! Reason codes in recorded events: their text, and nothing but codes that this release knows.

use latchkey_reason::ReasonCode;
use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

/// For `#[serde(serialize_with)]`.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
pub(super) fn serialize<C: ReasonCode, S: Serializer>(code: &C, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(code.reason().code)
}

/// For `#[serde(deserialize_with)]`.
pub(super) fn deserialize<'de, C: ReasonCode, D: Deserializer<'de>>(deserializer: D) -> Result<C, D::Error> {
    let text = String::deserialize(deserializer)?;
    C::parse(&text).ok_or_else(|| D::Error::custom("a reason code that this release does not have"))
}
