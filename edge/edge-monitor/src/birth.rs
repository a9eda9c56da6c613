//! What a monitor says of itself at its birth, and when it dies.

use latchkey_factory_plus::{Uuid, uuids};
use latchkey_sparkplug::{BirthDeath, Metric, NodeAddress, Payload, Value};

/// The command that asks for a rebirth, and a metric of every birth.
pub const REBIRTH: &str = "Node Control/Rebirth";

/// Who a monitor is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Where it publishes.
    pub address: NodeAddress,
    /// Its account's object.
    pub account: Uuid,
    /// The cluster that it monitors.
    pub cluster: Uuid,
}

impl Identity {
    /// NBIRTH, in the order and with the types of the original's monitor: its metrics have neither aliases nor times of their own.
    /// `clock_ms` is milliseconds since 1970.
    pub fn birth(&self, number: BirthDeath, seq: u64, clock_ms: u64) -> Payload {
        let link = uuids::special::FACTORY_PLUS.named(&format!(
            "{}:{}:Links/Cluster",
            uuids::sparkplug::METRIC_PREFIX,
            self.account
        ));
        let uuid = |name: &str, value: Uuid| Metric::new(name, Value::Uuid(value));
        let metrics = vec![
            Metric::new(REBIRTH, Value::Boolean(false)),
            uuid("Schema_UUID", uuids::sparkplug::EDGE_MONITOR),
            uuid("Instance_UUID", self.account),
            uuid("Links/Cluster/Schema_UUID", uuids::sparkplug::LINK),
            uuid("Links/Cluster/Instance_UUID", link),
            uuid("Links/Cluster/Target", self.cluster),
            uuid("Links/Cluster/Relation", uuids::sparkplug::CLUSTER_MONITOR),
            bd_seq(number),
        ];
        let uuid = Some(uuids::special::FACTORY_PLUS.to_string());
        Payload { timestamp: Some(clock_ms), metrics, seq: Some(seq), uuid }
    }

    /// NDEATH: the number of the birth that it ends, and no `seq` (Sparkplug 3.0.0, section 6.4.19). As a will its time is that of
    /// the connection.
    pub fn death(number: BirthDeath, clock_ms: u64) -> Payload {
        Payload { timestamp: Some(clock_ms), metrics: vec![bd_seq(number)], ..Payload::default() }
    }
}

fn bd_seq(number: BirthDeath) -> Metric {
    Metric::new("bdSeq", Value::UInt64(number.number().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity {
            address: NodeAddress::new("ACME-Bolt", "Monitor").unwrap(),
            account: Uuid::constant("9a3d7a60-6bbd-4d34-b6a8-3c7d9cc0f1aa"),
            cluster: Uuid::constant("3f0c62e3-6f6e-4f4f-9b65-4c5d53b9a6d1"),
        }
    }

    #[test]
    fn a_birth_is_the_originals_metric_by_metric() {
        let birth = identity().birth(BirthDeath::new(5), 0, 1_700_000_000_000);
        let uuid = |text: &str| Value::Uuid(text.parse().unwrap());
        // The link's instance by another implementation:
        // python3 -c 'import uuid; print(uuid.uuid5(uuid.UUID("11ad7b32-1d32-4c4a-b0c9-fa049208939a"),
        //   "8a4dc2f4-2f9f-45fc-b2e9-ed7b9cda6145:9a3d7a60-6bbd-4d34-b6a8-3c7d9cc0f1aa:Links/Cluster"))'
        let expected = [
            ("Node Control/Rebirth", Value::Boolean(false)),
            ("Schema_UUID", uuid("e3ef732b-ee69-46f0-8d1d-8a9cec432d83")),
            ("Instance_UUID", uuid("9a3d7a60-6bbd-4d34-b6a8-3c7d9cc0f1aa")),
            ("Links/Cluster/Schema_UUID", uuid("b3c4b273-9528-45de-8842-9f77c9ef272a")),
            ("Links/Cluster/Instance_UUID", uuid("ba735bb6-c525-5193-98b0-b95d4300aaf3")),
            ("Links/Cluster/Target", uuid("3f0c62e3-6f6e-4f4f-9b65-4c5d53b9a6d1")),
            ("Links/Cluster/Relation", uuid("422d47e0-8761-43da-abd4-4f2adaef0d4a")),
            ("bdSeq", Value::UInt64(5)),
        ];
        assert_eq!(birth.metrics, expected.map(|(name, value)| Metric::new(name, value)));
        assert_eq!((birth.seq, birth.timestamp), (Some(0), Some(1_700_000_000_000)));
        assert_eq!(birth.uuid.as_deref(), Some("11ad7b32-1d32-4c4a-b0c9-fa049208939a"));
        // The length of the original's, which was seen running.
        assert_eq!(birth.encode().len(), 470);
    }

    #[test]
    fn a_death_has_the_births_number_and_no_seq() {
        let death = Identity::death(BirthDeath::new(255), 7);
        assert_eq!(death.metrics, [Metric::new("bdSeq", Value::UInt64(255))]);
        assert_eq!((death.seq, death.uuid, death.timestamp), (None, None, Some(7)));
    }
}
