//! The JSON area as a closed schema: what may be there at all, not yet what it may say.
//!
//! Source: LUKS2 On-Disk Format Specification 1.1, section 3. Everything the specification knows and we never accept
//! (flags, requirements, argon2's parameters) is read as "present", so that its refusal can say its name.

use super::HeaderRefusal as Refusal;
use crate::bytes::is_zero;
use core::fmt;
use core::marker::PhantomData;
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Reads the JSON area: one object, then NUL and nothing but zeros (specification, 3: "the JSON area is ... a
/// zero-terminated string ... the unused remainder ... must be filled with zeroes").
pub(crate) fn parse(area: &[u8]) -> Result<Metadata, Refusal> {
    let end = area.iter().position(|&byte| byte == 0).ok_or(Refusal::JsonPadding)?;
    let (json, rest) = area.split_at_checked(end).ok_or(Refusal::JsonPadding)?;
    if !is_zero(rest) {
        return Err(Refusal::JsonPadding);
    }
    serde_json::from_slice(json).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => Refusal::JsonSchema,
        _ => Refusal::JsonSyntax,
    })
}

/// The top-level object.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Metadata {
    pub(crate) keyslots: Numbered<Keyslot>,
    pub(crate) tokens: Numbered<Token>,
    pub(crate) segments: Numbered<Segment>,
    pub(crate) digests: Numbered<Digest>,
    pub(crate) config: Config,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Keyslot {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) key_size: u64,
    pub(crate) af: Af,
    pub(crate) area: Area,
    pub(crate) kdf: Kdf,
    #[serde(default, skip_serializing)]
    pub(crate) priority: Present,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Af {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) stripes: u64,
    pub(crate) hash: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Area {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) offset: Decimal,
    pub(crate) size: Decimal,
    pub(crate) encryption: String,
    pub(crate) key_size: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kdf {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) hash: String,
    #[serde(default)]
    pub(crate) iterations: u64,
    pub(crate) salt: String,
    #[serde(default, skip_serializing)]
    pub(crate) time: Present,
    #[serde(default, skip_serializing)]
    pub(crate) memory: Present,
    #[serde(default, skip_serializing)]
    pub(crate) cpus: Present,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Segment {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) offset: Decimal,
    pub(crate) size: String,
    pub(crate) iv_tweak: Decimal,
    pub(crate) encryption: String,
    pub(crate) sector_size: u64,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(crate) integrity: Option<Integrity>,
    #[serde(default, skip_serializing)]
    pub(crate) flags: Present,
}

/// What the authenticated mode adds to the segment.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Integrity {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(default, rename = "journal_encryption")]
    pub(crate) journal_cipher: String,
    #[serde(default, rename = "journal_integrity")]
    pub(crate) journal_mac: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Digest {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) keyslots: Vec<String>,
    pub(crate) segments: Vec<String>,
    pub(crate) hash: String,
    pub(crate) iterations: u64,
    pub(crate) salt: String,
    #[serde(rename = "digest")]
    pub(crate) value: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) json_size: Decimal,
    pub(crate) keyslots_size: Decimal,
    #[serde(default, skip_serializing)]
    pub(crate) flags: Present,
    #[serde(default, skip_serializing)]
    pub(crate) requirements: Present,
}

/// Latchkey's token. `keyslots` is what the specification demands of every token; ours binds to none, so that
/// cryptsetup never takes it for a way to unlock one.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Token {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) keyslots: Vec<String>,
    pub(crate) version: u64,
    pub(crate) state: State,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(crate) geometry: Option<TokenGeometry>,
    pub(crate) mac: String,
}

/// [`super::Geometry`] as text.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenGeometry {
    pub(crate) data_sectors: Decimal,
    pub(crate) journal_sections: u32,
}

/// [`super::NodeState`] as text.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct State {
    pub(crate) role: super::Role,
    pub(crate) node_name: String,
    pub(crate) cluster_id: String,
    pub(crate) measurement_salt: String,
    pub(crate) phase: super::Phase,
    pub(crate) epoch: u64,
    pub(crate) attempt: u32,
}

/// An object that may be absent, and not `null`.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// A key of which only the presence matters, because it is refused whatever it holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Present(pub(crate) bool);

impl<'de> Deserialize<'de> for Present {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self(true))
    }
}

/// A 64-bit number as a decimal string (specification, 3: "stored as a string ... because of JSON's precision"), in its
/// one canonical spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal(pub(crate) u64);

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let number: u64 = text.parse().map_err(|_| D::Error::custom("not a decimal number"))?;
        if number.to_string() == text { Ok(Self(number)) } else { Err(D::Error::custom("not the canonical spelling")) }
    }
}

impl Serialize for Decimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// A map from object numbers. Only the first object is kept; of the others only their number matters, since more than
/// one is always refused. A bomb of thousands of key slots costs a walk over its text and no memory.
#[derive(Debug)]
pub(crate) struct Numbered<T> {
    pub(crate) first: Option<(String, T)>,
    pub(crate) count: usize,
}

impl<T> Numbered<T> {
    pub(crate) fn one(object: T) -> Self {
        Self { first: Some(("0".to_owned(), object)), count: 1 }
    }

    pub(crate) fn none() -> Self {
        Self { first: None, count: 0 }
    }

    /// The object, if there is exactly one and it is number 0.
    pub(crate) fn only(self, count: Refusal, id: Refusal) -> Result<T, Refusal> {
        match self.first {
            Some((number, object)) if self.count == 1 => {
                if number == "0" {
                    Ok(object)
                } else {
                    Err(id)
                }
            }
            _ => Err(count),
        }
    }
}

impl<T: Serialize> Serialize for Numbered<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.count))?;
        if let Some((number, object)) = &self.first {
            map.serialize_entry(number, object)?;
        }
        map.end()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Numbered<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Objects<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Objects<T> {
            type Value = Numbered<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of numbered objects")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut objects = Numbered { first: map.next_entry()?, count: 0 };
                objects.count = usize::from(objects.first.is_some());
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
                    objects.count = objects.count.saturating_add(1);
                }
                Ok(objects)
            }
        }

        deserializer.deserialize_map(Objects(PhantomData))
    }
}
