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

/// By a clock that runs ahead while nothing happens.
#[cfg(test)]
mod tests {
    use super::*;
    use http::{Request, Response};
    use kube::client::{Body, Client};
    use latchkey_kubelet_certificates::CLIENT_SIGNER;
    use serde_json::{Value, json};
    use std::future::pending;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};
    use tower::BoxError;

    /// What is asked for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Ask {
        Listing,
        NextPage,
        Watch,
    }

    impl Ask {
        fn of(query: &str) -> Self {
            if query.contains("watch=true") {
                Self::Watch
            } else if query.contains("continue=") {
                Self::NextPage
            } else {
                Self::Listing
            }
        }
    }

    /// What was asked: its query, and when.
    type Asked = Arc<Mutex<Vec<(Ask, String, Instant)>>>;

    struct Followed {
        shared: Arc<Shared>,
        asked: Asked,
    }

    impl Followed {
        /// Follows what is answered so: what is asked for, and how often it was before. `None` is never answered.
        fn of(answers: impl Fn(Ask, usize) -> Option<Response<Body>> + Send + 'static) -> Self {
            let asked = Asked::default();
            let noted = Arc::clone(&asked);
            let service = tower::service_fn(move |request: Request<Body>| {
                let query = request.uri().query().unwrap_or_default();
                let ask = Ask::of(query);
                let mut noted = noted.lock().unwrap();
                let before = noted.iter().filter(|(before, ..)| *before == ask).count();
                noted.push((ask, query.to_owned(), Instant::now()));
                let answer = answers(ask, before);
                async move {
                    match answer {
                        Some(answer) => Ok::<_, BoxError>(answer),
                        None => pending().await,
                    }
                }
            });
            let shared = Arc::new(Shared::of(Client::new(service, "n")));
            tokio::spawn(follow(Arc::clone(&shared), CLIENT_SIGNER));
            Self { shared, asked }
        }

        /// The names of those that wait.
        fn names(&self) -> Vec<String> {
            let waiting = self.shared.requests.of(CLIENT_SIGNER).requests().all();
            waiting.iter().map(|request| request.name().to_owned()).collect()
        }

        fn is_listed(&self) -> bool {
            self.shared.as_of([Watched::Requests(CLIENT_SIGNER)]).is_some()
        }

        fn all(&self, ask: Ask) -> Vec<(String, Instant)> {
            let asked = self.asked.lock().unwrap();
            asked.iter().filter(|(of, ..)| *of == ask).map(|(_, query, at)| (query.clone(), *at)).collect()
        }
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(test);
    }

    fn seconds(seconds: u64) -> tokio::time::Sleep {
        sleep(Duration::from_secs(seconds))
    }

    fn request(name: &str, revision: u64) -> Value {
        json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": { "name": name, "uid": format!("uid-of-{name}"), "resourceVersion": revision.to_string() },
            "spec": { "request": "", "signerName": CLIENT_SIGNER, "username": name },
        })
    }

    fn says(code: u16, what: &Value) -> Response<Body> {
        Response::builder().status(code).body(Body::from(format!("{what}\n").into_bytes())).unwrap()
    }

    fn page(revision: u64, names: &[&str], next: Option<&str>) -> Response<Body> {
        let items: Vec<_> = names.iter().map(|name| request(name, revision)).collect();
        let list = json!({
            "kind": "CertificateSigningRequestList", "apiVersion": "certificates.k8s.io/v1",
            "metadata": { "resourceVersion": revision.to_string(), "continue": next }, "items": items,
        });
        says(200, &list)
    }

    fn failure(code: u16) -> Value {
        json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "reason": "No", "code": code })
    }

    fn event(kind: &str, object: &Value) -> Response<Body> {
        says(200, &json!({ "type": kind, "object": object }))
    }

    #[test]
    fn a_watch_that_ends_goes_on_where_it_was() {
        run(async {
            let followed = Followed::of(|ask, before| match (ask, before) {
                (Ask::Watch, 0) => Some(event("ADDED", &request("b", 8))),
                (Ask::Watch, 1) => Some(event("DELETED", &request("a", 9))),
                (Ask::Watch, _) => None,
                _ => Some(page(7, &["a"], None)),
            });
            seconds(5).await;
            assert_eq!(followed.names(), ["b"]);
            let from: Vec<_> = followed.all(Ask::Watch).into_iter().map(|(query, _)| query).collect();
            for (query, revision) in from.iter().zip([7, 8, 9]) {
                assert!(query.contains(&format!("resourceVersion={revision}")), "{from:?}");
            }
            assert_eq!((from.len(), followed.all(Ask::Listing).len()), (3, 1));
        });
    }

    /// Before the watch is answered, and in the middle of it.
    #[test]
    fn what_the_api_server_has_forgotten_is_listed_anew_whatever_its_revision() {
        let answers: [fn() -> Response<Body>; 2] = [|| says(410, &failure(410)), || event("ERROR", &failure(410))];
        for gone in answers {
            run(async move {
                let followed = Followed::of(move |ask, before| match (ask, before) {
                    (Ask::Watch, 0) => Some(gone()),
                    (Ask::Watch, _) => None,
                    (_, 0) => Some(page(1000, &["a", "lost"], None)),
                    _ => Some(page(40, &["a", "later"], None)),
                });
                seconds(5).await;
                assert_eq!(followed.names(), ["a", "later"]);
                assert_eq!(followed.all(Ask::Listing).len(), 2);
                assert_eq!(followed.shared.problem(), None, "what was wrong is not any more");
            });
        }
    }

    #[test]
    fn a_page_that_fails_is_told_keeps_nobody_of_those_before_it_waiting_and_is_asked_for_again() {
        run(async {
            let mended = Arc::new(AtomicBool::new(false));
            let is_mended = Arc::clone(&mended);
            let followed = Followed::of(move |ask, _| match ask {
                Ask::Listing => Some(page(7, &["a"], Some("more"))),
                Ask::NextPage if is_mended.load(Ordering::Relaxed) => Some(page(7, &["b"], None)),
                Ask::NextPage => Some(says(500, &failure(500))),
                Ask::Watch => None,
            });
            seconds(60).await;
            assert_eq!(followed.names(), ["a"]);
            assert!(followed.shared.problem().is_some() && !followed.is_listed());
            let tries = followed.all(Ask::NextPage).len();
            assert!((10..30).contains(&tries), "{tries} in a minute");
            mended.store(true, Ordering::Relaxed);
            seconds(5).await;
            assert_eq!(followed.names(), ["a", "b"]);
            assert_eq!((followed.shared.problem(), followed.is_listed()), (None, true));
        });
    }

    #[test]
    fn a_page_that_does_not_come_is_told_and_asked_for_again() {
        run(async {
            let followed = Followed::of(|ask, before| match (ask, before) {
                (Ask::Listing, _) => Some(page(7, &["a"], Some("more"))),
                (Ask::NextPage, 1..) => Some(page(7, &["b"], None)),
                _ => None,
            });
            sleep(PAGE_TIME + Duration::from_millis(50)).await;
            assert!(followed.shared.problem().unwrap().contains("does not go on"));
            seconds(1).await;
            assert_eq!(followed.names(), ["a", "b"]);
            assert_eq!(followed.shared.problem(), None);
        });
    }

    #[test]
    fn a_watch_that_is_not_answered_hides_nothing_for_longer_than_a_minute() {
        run(async {
            let followed = Followed::of(|ask, before| match ask {
                Ask::Watch => None,
                _ => Some(page(7, if before == 0 { &["a"] } else { &["b"] }, None)),
            });
            seconds(200).await;
            assert_eq!(followed.names(), ["b"]);
            let listed: Vec<_> = followed.all(Ask::Listing).into_iter().map(|(_, at)| at).collect();
            let between: Vec<_> = listed.windows(2).map(|pair| pair[1] - pair[0]).collect();
            assert!(between.len() >= 3 && between.iter().all(|time| *time <= ANYWAY + SOONEST), "{between:?}");
        });
    }
}
