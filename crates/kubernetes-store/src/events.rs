//! Refusals, of tickets and of kubelets' certificates, as Events (`events.k8s.io`): on the machine's `AttestedNode`, or on the
//! cluster's `ConfigMap` where there is none.
//!
//! They are for people, and one more way to see what the join service's log says in full. An Event says a reason code and its
//! remedy, never a word that a machine chose. A machine that asks again and again is one Event whose count grows; who has proven no
//! TPM is not named, whatever he claims, and who asks for a certificate is named by the record that it was decided on.

use crate::beside::{Beside, pace};
use crate::connection::in_time;
use crate::error::{failed, one_line};
use crate::store::Shared;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use latchkey_attestation::EkDigest;
use latchkey_cluster_store::objects::{CLUSTER_MAP, GROUP, NAMESPACE, NODE, VERSION};
use latchkey_cluster_store::{RefusedMachine, StoreError};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Who tells of it.
pub(crate) const REPORTER: &str = "latchkey.dev/join-service";
/// Written each second, at most.
const PER_SECOND: u32 = 2;
/// Machines and reasons that wait, and of which it is remembered that they were told of.
const MOST: usize = 256;
/// How long a machine's next refusal of the same reason is not told of.
const QUIET: Duration = Duration::from_mins(1);

/// Whom it is about, and why.
type Key = (Option<EkDigest>, &'static str);

/// What is to be told, and what was.
#[derive(Debug)]
pub(crate) struct Refusals {
    waiting: Beside<Key, RefusedMachine>,
    told: Mutex<BTreeMap<Key, Instant>>,
}

impl Default for Refusals {
    fn default() -> Self {
        Self { waiting: Beside::new(MOST), told: Mutex::default() }
    }
}

impl Refusals {
    /// Has this told, unless it was a moment ago.
    pub(crate) fn show(&self, refused: RefusedMachine, now: Instant) {
        let key = (refused.ek, refused.reason.code);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.retain(|_, at| now.saturating_duration_since(*at) < QUIET);
        if told.len() < MOST && !told.contains_key(&key) {
            told.insert(key, now);
            self.waiting.put(key, refused, |_, newer| newer);
        }
    }
}

/// Tells of what waits. Never ends by itself.
pub(crate) async fn write_events(shared: Arc<Shared>) {
    let mut pace = pace(PER_SECOND);
    let recorder = Recorder::new(shared.client.clone(), Reporter::from(REPORTER));
    loop {
        let (_, refused) = shared.refusals.waiting.next().await;
        pace.tick().await;
        let told = in_time("events.events.k8s.io", tell(&shared, &recorder, &refused)).await;
        if let Err(error) = told {
            tracing::warn!(%error, code = refused.reason.code, "A refusal could not be told as an Event");
        }
    }
}

async fn tell(shared: &Shared, recorder: &Recorder, refused: &RefusedMachine) -> Result<(), StoreError> {
    let (regarding, related) = about(shared, refused.ek);
    let event = Event {
        type_: EventType::Warning,
        reason: refused.reason.code.to_owned(),
        note: Some(one_line(refused.reason.remedy)),
        action: refused.action.to_owned(),
        secondary: related,
    };
    recorder.publish(&event, &regarding).await.map_err(|error| failed("events.events.k8s.io", &error))
}

/// The object that an Event is about, and the machine beside it that has none.
fn about(shared: &Shared, ek: Option<EkDigest>) -> (ObjectReference, Option<ObjectReference>) {
    let machine = ek.map(|ek| ObjectReference {
        api_version: Some(format!("{GROUP}/{VERSION}")),
        kind: Some(NODE.0.to_owned()),
        name: Some(ek.to_string()),
        uid: shared.cache().get(&ek).and_then(|known| known.metadata.uid.clone()),
        ..ObjectReference::default()
    });
    if let Some(known) = machine.clone().filter(|machine| machine.uid.is_some()) {
        return (known, None);
    }
    let cluster = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("ConfigMap".to_owned()),
        name: Some(CLUSTER_MAP.to_owned()),
        namespace: Some(NAMESPACE.to_owned()),
        uid: shared.documents().uid(CLUSTER_MAP),
        ..ObjectReference::default()
    };
    (cluster, machine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use latchkey_reason::Reason;

    #[test]
    fn a_machine_that_asks_again_and_again_is_told_of_once_a_minute() {
        let refusals = Refusals::default();
        let ek = EkDigest::from_hex(&"11".repeat(32));
        let refused = |ek, code| RefusedMachine { ek, action: "Join", reason: Reason { code, remedy: "mend it" } };
        let begun = Instant::now();
        let mut told = Vec::new();
        let mut ask = |ek, code, at| {
            refusals.show(refused(ek, code), at);
            told.extend(refusals.waiting.take().map(|(key, _)| key));
        };
        ask(ek, "name-taken", begun);
        ask(ek, "name-taken", begun + Duration::from_secs(59));
        ask(ek, "machine-denied", begun + Duration::from_secs(59));
        ask(ek, "name-taken", begun + Duration::from_secs(61));
        assert_eq!(told, [(ek, "name-taken"), (ek, "machine-denied"), (ek, "name-taken")]);
    }
}
