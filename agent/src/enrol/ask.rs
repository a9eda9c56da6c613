//! One question to the enrol service, over a channel in which both sides are proven.

use std::sync::Arc;
use std::time::Duration;

use latchkey_api::grpc::{Channel, Limits};
use latchkey_api::v1::enrol_response::Outcome;
use latchkey_api::v1::{EnrolRequest, Enrolled, EnrolmentClient, EnrolmentHeld};
use latchkey_channel::{Attester, PinnedKeyVerifier, Purpose, SpkiHash, Terms};
use latchkey_node_config::Centre;
use smol::future::FutureExt as _;

use super::apply::MAX_MANIFESTS;
use super::{EnrolCode, EnrolError, Wanted};
use crate::flows::race;

/// The centre sets the cluster up meanwhile; the service ends a call before this.
const CALL: Duration = Duration::from_mins(2);
/// What the service may have the node wait, in seconds (`EnrolmentHeld.ask_again_seconds`).
const AGAIN: std::ops::RangeInclusive<u32> = 1..=3600;

/// What the service says.
pub(super) enum Answer {
    /// The operator decides.
    Held {
        /// What the operator finds the machine by.
        reference: String,
        /// The endorsement key that the service knows it by.
        ek: String,
        /// When to ask again.
        again: Duration,
    },
    /// The cluster is registered.
    Enrolled(Box<Enrolled>),
}

/// Asks once. The same machine with the same disk is answered with the same cluster.
pub(super) async fn ask(
    centre: &Centre,
    attester: Arc<dyn Attester>,
    wanted: &Wanted,
    kubernetes: &str,
) -> Result<Answer, EnrolError> {
    let terms = Terms { attester, verifier: Arc::new(PinnedKeyVerifier::new([SpkiHash(centre.key.0)])) };
    let lost = |error: &dyn std::fmt::Display| EnrolError::new(EnrolCode::ConnectionLost, error.to_string());
    let proven = Box::pin(race::dial(&centre.service.to_string(), Purpose::Enrol, terms)).await;
    let proven = proven.map_err(|failed| EnrolError { code: failed.code, message: failed.message })?;
    let limits = Limits { inbound_message: MAX_MANIFESTS + (64 << 10), ..Limits::default() };
    let (channel, driver) = Channel::open(proven, limits).await.map_err(|error| lost(&error))?;
    let request = EnrolRequest {
        invitation: wanted.invitation.expose().to_vec(),
        disk_uuid: wanted.disk_uuid.clone(),
        node_name: wanted.node_name.clone(),
        kubernetes_version: kubernetes.into(),
    };
    let call = async {
        let answer = EnrolmentClient::new(channel).enrol(&request, CALL).await;
        answer.map_err(|status| EnrolError::new(EnrolCode::Refused, status.to_string()))
    };
    let dead = async {
        match driver.await {
            Ok(()) => std::future::pending().await,
            Err(error) => Err(lost(&error)),
        }
    };
    match call.or(dead).await?.outcome {
        Some(Outcome::Held(held)) => self::held(&held),
        Some(Outcome::Enrolled(enrolled)) => Ok(Answer::Enrolled(Box::new(enrolled))),
        None => Err(EnrolError::new(EnrolCode::Malformed, "the answer says nothing")),
    }
}

fn held(held: &EnrolmentHeld) -> Result<Answer, EnrolError> {
    let is_hex = |text: &str, length| text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let EnrolmentHeld { reference, ek_sha256, ask_again_seconds } = held;
    if !is_hex(reference, 16) || !is_hex(ek_sha256, 64) || !AGAIN.contains(ask_again_seconds) {
        return Err(EnrolError::new(
            EnrolCode::Malformed,
            "a machine that is held has a reference, an endorsement key and a time",
        ));
    }
    let again = Duration::from_secs((*ask_again_seconds).into());
    Ok(Answer::Held { reference: reference.clone(), ek: ek_sha256.clone(), again })
}
