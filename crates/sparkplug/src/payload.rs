//! Payloads, in protobuf.

use latchkey_factory_plus::Uuid;
use prost::Message as _;

use crate::wire::metric::Value as Carried;
use crate::{bounds, wire};

/// Largest payload that is read, bytes. A node's commands have some hundred.
pub const MAX_PAYLOAD: usize = 256 << 10;
/// Most metrics of a payload that is read.
pub const MAX_METRICS: usize = 4096;

/// A message of a node, or a command to one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Payload {
    /// When it was sent: milliseconds since 1970, UTC.
    pub timestamp: Option<u64>,
    /// What it tells, in this order.
    pub metrics: Vec<Metric>,
    /// Its number, 0 to 255; deaths and commands have none.
    pub seq: Option<u64>,
    /// What kind of payload it is, as a UUID's text.
    pub uuid: Option<String>,
}

/// One metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// Its name; data may have the alias alone that a birth gave it.
    pub name: Option<String>,
    /// The number that stands for its name.
    pub alias: Option<u64>,
    /// When it had this value: milliseconds since 1970, UTC.
    pub timestamp: Option<u64>,
    /// Its value; none where it has none, or one of a kind that is not read here.
    pub value: Option<Value>,
}

/// A value with its datatype.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `Boolean`.
    Boolean(bool),
    /// `UInt64`.
    UInt64(u64),
    /// `String`.
    String(String),
    /// `UUID`.
    Uuid(Uuid),
}

/// Numbers of datatypes (section 6.4.16).
const UINT64: u32 = 8;
const BOOLEAN: u32 = 11;
const STRING: u32 = 12;
const UUID: u32 = 15;

/// Why bytes are no payload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// More than [`MAX_PAYLOAD`].
    #[error("the payload has {0} bytes, more than the {MAX_PAYLOAD} that are read")]
    TooLarge(usize),
    /// More than [`MAX_METRICS`].
    #[error("the payload has more than {MAX_METRICS} metrics")]
    TooManyMetrics,
    /// No protobuf, or fields of other types.
    #[error("the payload is no Sparkplug B: {0}")]
    Malformed(String),
}

impl Metric {
    /// A metric of this name and value, without alias and time of its own.
    pub fn new(name: impl Into<String>, value: Value) -> Self {
        Self { name: Some(name.into()), alias: None, timestamp: None, value: Some(value) }
    }
}

impl Payload {
    /// The metric of this name, the first one.
    pub fn metric(&self, name: &str) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.name.as_deref() == Some(name))
    }

    /// Its bytes. Fields that are absent are not sent.
    pub fn encode(&self) -> Vec<u8> {
        let metrics = self.metrics.iter().map(write).collect();
        wire::Payload { timestamp: self.timestamp, metrics, seq: self.seq, uuid: self.uuid.clone() }.encode_to_vec()
    }

    /// Reads a payload that anybody may have written. Bounded before anything is allocated.
    ///
    /// # Errors
    /// It is too large, or no payload.
    pub fn decode(bytes: &[u8]) -> Result<Self, PayloadError> {
        if bytes.len() > MAX_PAYLOAD {
            return Err(PayloadError::TooLarge(bytes.len()));
        }
        match bounds::count(bytes, METRICS) {
            None => return Err(PayloadError::Malformed("no protobuf, or one with groups".into())),
            Some(metrics) if metrics > MAX_METRICS => return Err(PayloadError::TooManyMetrics),
            Some(_) => {}
        }
        let read = wire::Payload::decode(bytes).map_err(|error| PayloadError::Malformed(error.to_string()))?;
        let metrics = read.metrics.into_iter().map(Metric::from).collect();
        Ok(Self { timestamp: read.timestamp, metrics, seq: read.seq, uuid: read.uuid })
    }
}

/// The field number of `Payload.metrics`.
const METRICS: u64 = 2;

fn write(metric: &Metric) -> wire::Metric {
    let (datatype, value) = match &metric.value {
        Some(Value::Boolean(value)) => (Some(BOOLEAN), Some(Carried::BooleanValue(*value))),
        Some(Value::UInt64(value)) => (Some(UINT64), Some(Carried::LongValue(*value))),
        Some(Value::String(value)) => (Some(STRING), Some(Carried::StringValue(value.clone()))),
        Some(Value::Uuid(value)) => (Some(UUID), Some(Carried::StringValue(value.to_string()))),
        None => (None, None),
    };
    let is_null = value.is_none().then_some(true);
    wire::Metric {
        name: metric.name.clone(),
        alias: metric.alias,
        timestamp: metric.timestamp,
        datatype,
        is_null,
        value,
    }
}

impl From<wire::Metric> for Metric {
    fn from(read: wire::Metric) -> Self {
        let value = match (read.datatype, read.value) {
            _ if read.is_null == Some(true) => None,
            // Commands may come without a datatype: their sender has it from the birth.
            (None | Some(BOOLEAN), Some(Carried::BooleanValue(value))) => Some(Value::Boolean(value)),
            (Some(UINT64), Some(Carried::LongValue(value))) => Some(Value::UInt64(value)),
            (Some(UUID), Some(Carried::StringValue(value))) => value.parse().ok().map(Value::Uuid),
            (None | Some(STRING), Some(Carried::StringValue(value))) => Some(Value::String(value)),
            _ => None,
        };
        Self { name: read.name, alias: read.alias, timestamp: read.timestamp, value }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_specification() {
        let death = Payload {
            timestamp: Some(1000),
            metrics: vec![Metric::new("bdSeq", Value::UInt64(300))],
            ..Payload::default()
        };
        // By hand: 1: varint 1000; 2: {1: "bdSeq", 4: 8, 11: varint 300}.
        assert_eq!(hex::encode(death.encode()), "08e807120c0a0562645365712008".to_owned() + "58ac02");
        assert_eq!(Payload::decode(&death.encode()).unwrap(), death);
    }

    #[test]
    fn what_is_too_much_is_refused_before_it_is_read() {
        assert_eq!(Payload::decode(&vec![0; MAX_PAYLOAD + 1]), Err(PayloadError::TooLarge(MAX_PAYLOAD + 1)));
        let empty_metrics = |count: usize| [0x12, 0].repeat(count);
        assert_eq!(Payload::decode(&empty_metrics(MAX_METRICS)).unwrap().metrics.len(), MAX_METRICS);
        assert_eq!(Payload::decode(&empty_metrics(MAX_METRICS + 1)), Err(PayloadError::TooManyMetrics));
        // A metric that says it has 2^60 bytes.
        let huge = [&[0x12][..], &[0xff; 8], &[0x0f]].concat();
        assert!(matches!(Payload::decode(&huge), Err(PayloadError::Malformed(_))));
        // Groups within groups, which protobuf allows where nobody knows the field.
        assert!(matches!(Payload::decode(&[0x4b; 4096]), Err(PayloadError::Malformed(_))));
    }

    #[test]
    fn a_command_is_read_with_and_without_its_datatype() {
        for typed in [true, false] {
            let mut rebirth = write(&Metric::new("Node Control/Rebirth", Value::Boolean(true)));
            rebirth.datatype = rebirth.datatype.filter(|_| typed);
            assert_eq!(Metric::from(rebirth).value, Some(Value::Boolean(true)));
        }
        let mut null = write(&Metric::new("x", Value::Boolean(true)));
        null.is_null = Some(true);
        assert_eq!(Metric::from(null).value, None);
        // A number where the datatype says Boolean.
        let wrong =
            wire::Metric { value: Some(Carried::IntValue(1)), datatype: Some(BOOLEAN), ..wire::Metric::default() };
        assert_eq!(Metric::from(wrong).value, None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            if let Ok(read) = Payload::decode(&bytes) {
                prop_assert_eq!(Payload::decode(&read.encode()).unwrap().metrics.len(), read.metrics.len());
            }
        }
    }
}
