//! Tells the join service how the bootstrap ended, over a channel whose evidence shows the lock on this cluster.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use latchkey_api::grpc::{Channel, Limits};
use latchkey_api::v1::{JoinClient, ReportRequest};
use latchkey_channel::{Attester, PinnedKeyVerifier, Purpose, SpkiHash, Terms};
use smol::future::FutureExt as _;

use crate::flows::race;
use crate::handover::HandOver;
use crate::lifecycle::bootstrap::Outcome;
use latchkey_node_config::Config;

/// For all services together: a report informs, and nobody waits for it.
const LIMIT: Duration = Duration::from_secs(30);
/// The longest message of a report, in bytes (`ReportRequest.message`).
const MESSAGE: usize = 4096;

/// Tries all services at once, each once. The error names every failure.
pub(super) async fn report(
    handover: &HandOver,
    config: &Config,
    attester: Arc<dyn Attester>,
    outcome: &Outcome,
    addresses: &[IpAddr],
) -> Result<(), String> {
    let pin = config.join_service_key.ok_or("no latchkey.join_service_key on the measured command line")?;
    let request = match outcome {
        Outcome::Succeeded => {
            let addresses = addresses.iter().map(ToString::to_string).collect();
            ReportRequest { addresses, ..request(handover, true, "", "") }
        }
        Outcome::Failed { code, message, .. } => {
            request(handover, false, code.as_str(), &format!("{message}; {}", code.remedy))
        }
    };
    if handover.join_services.is_empty() {
        return Err("the hand-over names no join service".into());
    }
    let all = async {
        let reported = race::first(&handover.join_services, |service| {
            let terms =
                Terms { attester: attester.clone(), verifier: Arc::new(PinnedKeyVerifier::new([SpkiHash(pin.0)])) };
            let request = request.clone();
            async move { tell(&service, terms, &request).await }
        });
        reported.await.map_err(|failures| failures.join("; "))
    };
    let late = async {
        smol::Timer::after(LIMIT).await;
        Err(format!("no answer within {} s", LIMIT.as_secs()))
    };
    all.or(late).await
}

fn request(handover: &HandOver, succeeded: bool, code: &str, message: &str) -> ReportRequest {
    let end = message.floor_char_boundary(MESSAGE);
    ReportRequest {
        disk_uuid: handover.disk_uuid.clone(),
        succeeded,
        code: code.into(),
        message: message.get(..end).unwrap_or_default().into(),
        addresses: Vec::new(),
    }
}

async fn tell(service: &str, terms: Terms, request: &ReportRequest) -> Result<(), String> {
    let proven = Box::pin(race::dial(service, Purpose::Report, terms)).await.map_err(|failed| failed.message)?;
    let (channel, driver) = Channel::open(proven, Limits::default()).await.map_err(|error| error.to_string())?;
    let call =
        async { JoinClient::new(channel).report(request, LIMIT).await.map(drop).map_err(|status| status.to_string()) };
    let dead = async {
        match driver.await {
            Ok(()) => std::future::pending().await,
            Err(error) => Err(error.to_string()),
        }
    };
    call.or(dead).await
}
