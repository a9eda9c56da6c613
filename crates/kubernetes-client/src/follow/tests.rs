//! What is asked of an API server that does not do what it should, by a clock that runs ahead while nothing happens.

use super::{NotTaken, Objects, PAGE_TIME, Sink, listen};
use crate::bounded::BoundAnswers;
use crate::error::{ApiCode, ApiError};
use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Api;
use kube::client::{Body, Client};
use kube::runtime::watcher::Event;
use serde_json::json;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::future::pending;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::time::{Sleep, sleep};
use tower::{BoxError, Layer as _};

/// What the sinks of these tests ask for.
const AGAIN: Duration = Duration::from_secs(10);

/// What was told, when a listing was complete, and what failed.
#[derive(Debug, Default)]
struct Told {
    names: BTreeSet<String>,
    listing: BTreeSet<String>,
    /// When each complete listing was asked for.
    listed: Vec<Instant>,
    failures: Vec<ApiError>,
}

struct Collect(Arc<Mutex<Told>>);

impl Sink<ConfigMap> for Collect {
    async fn take(&mut self, event: Event<ConfigMap>, asked: Instant) -> Result<(), NotTaken> {
        let mut told = self.0.lock().unwrap();
        match event {
            Event::Init => told.listing.clear(),
            Event::InitApply(map) => drop(told.listing.insert(map.metadata.name.unwrap())),
            Event::InitDone => {
                told.names = std::mem::take(&mut told.listing);
                told.listed.push(asked);
            }
            Event::Apply(map) => drop(told.names.insert(map.metadata.name.unwrap())),
            Event::Delete(map) => drop(told.names.remove(&map.metadata.name.unwrap())),
        }
        Ok(())
    }

    fn failed(&mut self, failure: ApiError) {
        self.0.lock().unwrap().failures.push(failure);
    }

    fn again(&self) -> Duration {
        AGAIN
    }

    fn hears_on(&self) -> bool {
        true
    }
}

/// How a request is answered: `None` never is.
type Answers = dyn Fn(&str, usize) -> Option<Response<Says>> + Send + Sync;

/// A body that says this, after some time, and ends or does not.
struct Says(Option<Bytes>, bool, Option<Pin<Box<Sleep>>>);

impl http_body::Body for Says {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(wait) = &mut self.2 {
            ready!(wait.as_mut().poll(context));
            self.2 = None;
        }
        match (self.0.take(), self.1) {
            (Some(bytes), _) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            (None, true) => Poll::Ready(None),
            (None, false) => Poll::Pending,
        }
    }
}

/// An answer of the API server: what it lists, at a revision.
fn listing(revision: u64, names: &[&str]) -> Response<Says> {
    let items: Vec<_> = names
        .iter()
        .map(|name| json!({ "metadata": { "name": name, "namespace": "n", "resourceVersion": revision.to_string() } }))
        .collect();
    let list = json!({
        "kind": "ConfigMapList", "apiVersion": "v1", "metadata": { "resourceVersion": revision.to_string() }, "items": items,
    });
    Response::new(Says(Some(list.to_string().into_bytes().into()), true, None))
}

/// Follows for so long what is answered so: the query of each request, and how many came before it.
fn followed(time: Duration, answers: Arc<Answers>) -> Told {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let asked = Mutex::new(0);
        let service = tower::service_fn(move |request: Request<Body>| {
            let number = {
                let mut asked = asked.lock().unwrap();
                *asked += 1;
                *asked - 1
            };
            let answer = answers(request.uri().query().unwrap_or_default(), number);
            async move {
                match answer {
                    Some(answer) => Ok::<_, BoxError>(answer),
                    None => pending().await,
                }
            }
        });
        let client = Client::new(BoundAnswers.layer(service), "n");
        let api = Api::namespaced(client, "n");
        let objects =
            Objects { about: "configmaps", api, labels: String::new(), fields: String::new(), page: 10, most: 10 };
        let told = Arc::new(Mutex::new(Told::default()));
        let listening = tokio::spawn(listen(objects, Collect(Arc::clone(&told))));
        sleep(time).await;
        listening.abort();
        let _ended = listening.await;
        Arc::into_inner(told).unwrap().into_inner().unwrap()
    })
}

fn is_watch(query: &str) -> bool {
    query.contains("watch=true")
}

/// That no time between two listings, nor until the end of so long, was longer than this.
fn assert_never_older_than(most: Duration, told: &Told, begun_before_end: Duration) {
    let between = told.listed.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(between.clone().all(|time| time <= most), "{:?}", between.collect::<Vec<_>>());
    let span = told.listed.last().unwrap().duration_since(told.listed[0]);
    assert!(span + most >= begun_before_end, "the last of {} was {span:?} after the first", told.listed.len());
}

#[test]
fn a_watch_that_is_asked_for_and_not_answered_freezes_nothing() {
    let time = Duration::from_mins(2);
    let told = followed(
        time,
        Arc::new(|query, number| {
            // Something that was written after the first listing.
            (!is_watch(query)).then(|| listing(7, if number == 0 { &["a"] } else { &["a", "denied"] }))
        }),
    );
    assert_never_older_than(AGAIN, &told, time);
    assert!(told.names.contains("denied"));
    assert!(told.failures.iter().all(|failure| failure.code == ApiCode::TooSlow), "{:?}", told.failures);
}

#[test]
fn a_watch_that_is_answered_and_says_nothing_freezes_nothing() {
    let time = Duration::from_mins(2);
    let told = followed(
        time,
        Arc::new(|query, number| {
            let silent = || Response::new(Says(None, false, None));
            Some(if is_watch(query) { silent() } else { listing(7, if number == 0 { &["a"] } else { &["b"] }) })
        }),
    );
    assert_never_older_than(AGAIN + Duration::from_secs(1), &told, time);
    assert_eq!(told.names, BTreeSet::from(["b".to_owned()]));
    assert_eq!(told.failures, []);
}

#[test]
fn a_listing_that_is_asked_for_and_not_answered_is_asked_for_again() {
    let time = Duration::from_mins(2);
    // The second one is swallowed.
    let lists = Mutex::new(0);
    let told = followed(
        time,
        Arc::new(move |query, _| {
            if is_watch(query) {
                return None;
            }
            let mut lists = lists.lock().unwrap();
            *lists += 1;
            (*lists != 2).then(|| listing(7, &["a"]))
        }),
    );
    assert_never_older_than(AGAIN + Duration::from_secs(8), &told, time);
    assert!(told.failures.iter().any(|failure| failure.code == ApiCode::TooSlow));
}

/// A proxy or an API server that is frozen in the middle of it.
#[test]
fn a_listing_whose_answer_does_not_end_is_asked_for_again() {
    let time = Duration::from_mins(2);
    let lists = Mutex::new(0);
    let told = followed(
        time,
        Arc::new(move |query, _| {
            if is_watch(query) {
                return None;
            }
            let mut lists = lists.lock().unwrap();
            *lists += 1;
            let half = || Response::new(Says(Some(Bytes::from_static(b"{\"kind\":")), false, None));
            Some(if *lists == 2 { half() } else { listing(7, &["a"]) })
        }),
    );
    assert_never_older_than(AGAIN + PAGE_TIME, &told, time);
}

#[test]
fn while_a_listing_takes_long_the_watch_before_it_is_heard() {
    // The second listing is asked for after ten seconds and never answered; what the watch tells, it tells after twelve.
    let late = || {
        let object = json!({ "metadata": { "name": "late", "namespace": "n", "resourceVersion": "8" } });
        let object = json!({ "type": "ADDED", "object": { "apiVersion": "v1", "kind": "ConfigMap", "metadata": object["metadata"] } });
        let wait = Box::pin(sleep(AGAIN + Duration::from_secs(2)));
        Response::new(Says(Some(format!("{object}\n").into_bytes().into()), false, Some(wait)))
    };
    let told = followed(
        AGAIN + Duration::from_secs(4),
        Arc::new(move |query, number| match (is_watch(query), number) {
            (true, _) => Some(late()),
            (false, 0) => Some(listing(7, &["a"])),
            (false, _) => None,
        }),
    );
    assert_eq!((told.listed.len(), told.failures.len()), (1, 0));
    assert_eq!(told.names, BTreeSet::from(["a".to_owned(), "late".to_owned()]));
}

/// As after a restore of etcd, or where its last writes are lost.
#[test]
fn a_listing_is_the_truth_whatever_its_revision() {
    let told = followed(
        Duration::from_mins(1),
        Arc::new(|query, number| {
            if is_watch(query) {
                return None;
            }
            Some(if number == 0 { listing(1000, &["a", "lost"]) } else { listing(40, &["a", "later"]) })
        }),
    );
    assert_eq!(told.names, BTreeSet::from(["a".to_owned(), "later".to_owned()]));
}
