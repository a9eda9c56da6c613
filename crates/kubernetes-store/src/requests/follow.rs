//! Keeps the requests of one signer as the API server has them.

use super::waiting::Taken;
use crate::error::{ApiCode, elsewhere, watch_failed};
use crate::store::{Shared, Watched};
use futures_util::future::{Either, select};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::api::Api;
use kube::runtime::watcher::Event;
use latchkey_kubernetes_client::{Events, Pauses, config};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

const ABOUT: &str = "certificatesigningrequests";
/// Requests of one answer. Each may be as large as an object gets, by its requester's will; all of a page fit an answer.
const PAGE: u32 = 16;
/// What was left out is listed again after this, if nothing else makes room.
const AGAIN: Duration = Duration::from_secs(5);
/// Everything is listed again after this, whatever the watch says.
const ANYWAY: Duration = Duration::from_mins(1);
/// How long a listing may be without a next page.
const PAGE_TIME: Duration = Duration::from_secs(10);
/// Never sooner than this, and than some times what a listing takes: a flood is not to be read all the time.
const SOONEST: Duration = Duration::from_secs(1);
const SHARE: u32 = 4;

/// Never ends by itself.
pub(super) async fn follow(shared: Arc<Shared>, signer: &'static str) {
    let api: Api<CertificateSigningRequest> = Api::all(shared.client.clone());
    let config = config().page_size(PAGE).fields(&format!("spec.signerName={signer}"));
    let of_signer = shared.requests.of(signer);
    let (mut said, mut pauses) = (false, Pauses::default());
    loop {
        let mut events = Events::of(api.clone(), config.clone());
        let (mut begun, mut listed, mut enough) = (Instant::now(), None, false);
        let problem = loop {
            let left_out = of_signer.requests().has_left_out();
            if left_out != said {
                say(signer, left_out);
                said = left_out;
            }
            // A listing that is under way comes to its end, however long it takes, as long as its pages come.
            let event = match listed {
                Some(listed) if enough => {
                    time_to_list(&of_signer.room, begun, listed).await;
                    break None;
                }
                Some(listed) if left_out => {
                    match select(pin!(events.next()), pin!(time_to_list(&of_signer.room, begun, listed))).await {
                        Either::Left((event, _)) => event,
                        Either::Right(((), _)) => break None,
                    }
                }
                Some(listed) => match timeout_at(listed + ANYWAY, events.next()).await {
                    Ok(event) => event,
                    Err(_) => break None,
                },
                None => match timeout_at(Instant::now() + PAGE_TIME, events.next()).await {
                    Ok(event) => event,
                    Err(_) => break Some(elsewhere(ABOUT, ApiCode::TooSlow, "a listing does not go on")),
                },
            };
            let event = match event {
                None => break None,
                Some(Err(error)) => break Some(watch_failed(ABOUT, &error)),
                Some(Ok(event)) => event,
            };
            match event {
                Event::Init => (begun, listed) = (Instant::now(), None),
                Event::InitDone => listed = Some(Instant::now()),
                Event::Apply(_) | Event::Delete(_) => pauses = Pauses::default(),
                Event::InitApply(_) => {}
            }
            let taken = of_signer.requests().take(event);
            if taken == Taken::Enough {
                (listed, enough) = (Some(Instant::now()), true);
            }
            if taken != Taken::Nothing {
                if listed.is_some() {
                    shared.note_listed(Watched::Requests(signer), begun.into_std());
                }
                shared.tell(Watched::Requests(signer));
            }
        };
        match problem {
            None => pauses = Pauses::default(),
            Some(problem) => {
                shared.note_problem(Watched::Requests(signer), problem);
                sleep(pauses.next().unwrap_or_default()).await;
            }
        }
    }
}

/// Until those that were left out may have room: a listing began and ended at these times.
async fn time_to_list(room: &Notify, begun: Instant, listed: Instant) {
    let soonest = listed + SOONEST.max((listed - begun) * SHARE);
    sleep_until(soonest).await;
    // Late: there may be room all the same, where others answer.
    drop(timeout_at(soonest.max(listed + AGAIN), room.notified()).await);
}

fn say(signer: &str, left_out: bool) {
    if left_out {
        tracing::warn!(signer, "More certificate requests wait than are looked at; the rest is, when there is room");
    } else {
        tracing::info!(signer, "All certificate requests that wait are looked at again");
    }
}
