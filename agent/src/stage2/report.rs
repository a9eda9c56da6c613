//! Tells the join service how the bootstrap ended, over a channel whose evidence shows the lock on this cluster.
//!
//! With the report a ticket ends: its token goes, and the service learns for which addresses the node may have certificates. So it is
//! repeated for a while where the service could not take it, as after a bootstrap that the API server was slow under, or was not there.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use latchkey_api::grpc::{Channel, Code, Limits};
use latchkey_api::v1::{JoinClient, ReportRequest};
use latchkey_channel::{Attester, PinnedKeyVerifier, Purpose, SpkiHash, Terms};
use smol::future::FutureExt as _;

use crate::flows::race;
use crate::handover::HandOver;
use crate::lifecycle::bootstrap::Outcome;
use crate::platform::clock;
use latchkey_connection_limits::Backoff;
use latchkey_node_config::Config;

/// For all tries of all services together; the node is a member, or not, whoever knows.
const LIMIT: Duration = Duration::from_mins(1);
/// One call.
const CALL: Duration = Duration::from_secs(15);
/// The longest message of a report, in bytes (`ReportRequest.message`).
const MESSAGE: usize = 4096;

/// Why a service was not told.
struct Untold {
    message: String,
    /// Whether to leave it at that: it would say the same again.
    is_final: bool,
}

impl Untold {
    /// It may be there in a moment: a service that is started anew, a connection that broke.
    fn for_now(message: String) -> Self {
        Self { message, is_final: false }
    }
}

/// Tries all services at once, each until it knows or refuses. The error names every failure.
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
            let (attester, request) = (attester.clone(), request.clone());
            let terms = move || Terms {
                attester: attester.clone(),
                verifier: Arc::new(PinnedKeyVerifier::new([SpkiHash(pin.0)])),
            };
            async move { tell_in_time(&service, terms, &request).await }
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
        agent_version: env!("CARGO_PKG_VERSION").into(),
    }
}

async fn tell_in_time(service: &str, terms: impl Fn() -> Terms, request: &ReportRequest) -> Result<(), String> {
    let (begun, mut backoff) = (Instant::now(), Backoff::new(clock::uptime().subsec_nanos().into()));
    loop {
        let Err(untold) = tell(service, terms(), request).await else { return Ok(()) };
        let wait = Duration::from_millis(backoff.next_ms());
        if untold.is_final || begun.elapsed() + wait > LIMIT {
            return Err(untold.message);
        }
        smol::Timer::after(wait).await;
    }
}

async fn tell(service: &str, terms: Terms, request: &ReportRequest) -> Result<(), Untold> {
    let proven = Box::pin(race::dial(service, Purpose::Report, terms)).await;
    let proven = proven.map_err(|failed| Untold { is_final: !failed.may_pass(), message: failed.message })?;
    let opened = Channel::open(proven, Limits::default()).await;
    let (channel, driver) = opened.map_err(|error| Untold::for_now(error.to_string()))?;
    let call = async {
        JoinClient::new(channel).report(request, CALL).await.map(drop).map_err(|status| Untold {
            is_final: !matches!(status.code(), Code::Internal | Code::Unavailable | Code::DeadlineExceeded),
            message: status.to_string(),
        })
    };
    let dead = async {
        match driver.await {
            Ok(()) => std::future::pending().await,
            Err(error) => Err(Untold::for_now(error.to_string())),
        }
    };
    call.or(dead).await
}
