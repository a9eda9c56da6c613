//! Tells the join service how the bootstrap ended, over a channel whose evidence shows the lock on this cluster.

use std::sync::Arc;
use std::time::Duration;

use latchkey_api::grpc::{Channel, Limits};
use latchkey_api::v1::{JoinClient, ReportRequest};
use latchkey_channel::{HANDSHAKE_TIME, PinnedKeyAppraiser, Role, SpkiHash, Terms, TpmProver};
use smol::future::FutureExt as _;
use smol::net::TcpStream;

use crate::handover::HandOver;
use crate::life::bootstrap::Outcome;
use crate::platform::config::Config;

/// For all services together: a report informs, and nobody waits for it.
const LIMIT: Duration = Duration::from_secs(30);
/// The longest message of a report, in bytes (`ReportRequest.message`).
const MESSAGE: usize = 4096;

/// Tries each service once. The error names the last failure.
pub(super) async fn report(
    handover: &HandOver,
    config: &Config,
    prover: Arc<TpmProver>,
    outcome: &Outcome,
) -> Result<(), String> {
    let pin = config.join_service_key.ok_or("no latchkey.join_service_key on the measured command line")?;
    let request = match outcome {
        Outcome::Succeeded => request(handover, true, "", ""),
        Outcome::Failed { code, message, .. } => request(handover, false, code, message),
    };
    let all = async {
        let mut last = "the hand-over names no join service".to_owned();
        for service in &handover.join_services {
            let terms =
                Terms { prover: prover.clone(), appraiser: Arc::new(PinnedKeyAppraiser::new([SpkiHash(pin.0)])) };
            match tell(service, terms, &request).await {
                Ok(()) => return Ok(()),
                Err(error) => last = format!("{service}: {error}"),
            }
        }
        Err(last)
    };
    let late = async {
        smol::Timer::after(LIMIT).await;
        Err(format!("no answer within {} s", LIMIT.as_secs()))
    };
    all.or(late).await
}

fn request(handover: &HandOver, succeeded: bool, code: &str, message: &str) -> ReportRequest {
    let end = (0..=message.len().min(MESSAGE)).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
    ReportRequest {
        disk_uuid: handover.disk_uuid.clone(),
        succeeded,
        code: code.into(),
        message: message.get(..end).unwrap_or_default().into(),
    }
}

async fn tell(service: &str, terms: Terms, request: &ReportRequest) -> Result<(), String> {
    let stream = TcpStream::connect(service).await.map_err(|error| error.to_string())?;
    let proven = latchkey_channel::connect(stream, Role::Report, terms, HANDSHAKE_TIME)
        .await
        .map_err(|error| format!("{}: {error}", error.code()))?;
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
