//! The objects of one kind as the API server has them: listed, watched, and listed anew by time, after any failure, and whatever the
//! watch says. A listing is all there was when it was asked for; what the watch tells since then only comes sooner.

mod known;
#[cfg(test)]
mod tests;

use crate::Connection;
use crate::connection::too_slow;
use crate::error::{ApiError, watch_failed};
use crate::watch::{Events, Pauses, WATCH_SECONDS};
use event_listener::Event as Wake;
use futures_util::future::{Either, select};
use known::Known;
pub use known::{Key, Standing};
use kube::Resource;
use kube::api::Api;
use kube::runtime::watcher::{self, Event};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tokio::time::{self, sleep, timeout};

/// Everything is listed anew after this: a watch that lost something without saying so is mended then.
const AGAIN: Duration = Duration::from_mins(10);
/// The same where some have no room.
const AGAIN_LEFT_OUT: Duration = Duration::from_secs(30);
/// A watch that fails does so at once: one that has not by then goes on.
const SETTLED: Duration = Duration::from_secs(1);
/// How long a listing may be without a next page.
const PAGE_TIME: Duration = Duration::from_secs(10);

/// Which objects are followed, and how many at most.
pub struct Objects<K> {
    /// What they are called in errors, such as `nodes`.
    pub about: &'static str,
    /// The kind, and the namespace where it is one.
    pub api: Api<K>,
    /// By labels, as selectors are written; all where it is empty.
    pub labels: String,
    /// By fields, as selectors are written; all where it is empty.
    pub fields: String,
    /// Objects of one answer to a listing: where they are large, few.
    pub page: u32,
    /// Objects that are kept. Beyond them the view says so, and the rest is left out.
    pub most: usize,
}

impl<K> Debug for Objects<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects").field("about", &self.about).field("most", &self.most).finish_non_exhaustive()
    }
}

/// The objects as they were known at one time.
#[derive(Clone, Debug)]
pub struct View<T> {
    /// What was kept of each; `None` until all were listed once.
    pub objects: Option<Arc<BTreeMap<Key, Arc<T>>>>,
    /// Whether they are up to date.
    pub standing: Standing,
}

/// Follows the objects of one kind; ends when dropped.
#[derive(Debug)]
pub struct Follower<T> {
    shared: Arc<Shared<T>>,
    task: JoinHandle<()>,
    seen: u64,
}

impl<T> Drop for Follower<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Debug)]
struct Shared<T> {
    known: Mutex<Known<T>>,
    changed: Wake,
}

impl Connection {
    /// Follows objects. `keep` says what is kept of each: little, and what it gives for an object that is not wanted is `None`. Who
    /// follows is told where that changed, however often the object does.
    pub fn follow<K, T>(&self, objects: Objects<K>, keep: impl Fn(K) -> Option<T> + Send + 'static) -> Follower<T>
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
        T: PartialEq + Send + Sync + 'static,
    {
        let shared = Arc::new(Shared { known: Mutex::new(Known::new()), changed: Wake::new() });
        let sink = Keeping { about: objects.about, most: objects.most, shared: Arc::clone(&shared), keep };
        let task = self.handle().spawn(listen(objects, sink));
        Follower { shared, task, seen: 0 }
    }
}

impl<T> Follower<T> {
    /// Waits until something is known that this has not returned for: objects, or another standing. Several changes in a row may be
    /// one. Works on any runtime; nothing is lost if the future is dropped.
    pub async fn changed(&mut self) {
        loop {
            let changed = self.shared.changed.listen();
            let number = self.shared.lock().number;
            if number > self.seen {
                self.seen = number;
                return;
            }
            changed.await;
        }
    }

    /// What is known now. Cheap: objects are shared.
    pub fn view(&self) -> View<T> {
        let known = self.shared.lock();
        View { objects: known.listed.then(|| Arc::clone(&known.objects)), standing: known.standing.clone() }
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, Known<T>> {
        // What is changed under a lock is changed whole.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where goes what is told of objects.
pub trait Sink<K>: Send + 'static {
    /// Takes it over. Between [`Event::Init`] and [`Event::InitDone`] come the objects of a listing that was asked for at `asked`: it
    /// has all that happened before.
    ///
    /// # Errors
    /// [`NotTaken`]; everything is listed anew then.
    fn take(&mut self, event: Event<K>, asked: Instant) -> impl Future<Output = Result<(), NotTaken>> + Send;

    /// Nothing is told, for this reason; it is asked for again.
    fn failed(&mut self, failure: ApiError);

    /// The watch goes on that follows a listing.
    fn goes_on(&mut self) {}

    /// Until everything is listed anew.
    fn again(&self) -> Duration;

    /// Whether a watch that goes on is heard until the next listing is complete, however long that takes. What it tells comes among the
    /// listing's objects, and what happened since the listing was asked for is told once more after it, in the same order.
    fn hears_on(&self) -> bool {
        false
    }
}

/// What was told could not be taken over; who could not has said why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotTaken;

/// Where a follower is with the API server.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// A listing is under way: since when nothing of it came.
    Listing(time::Instant),
    /// Everything was listed just now; after a watch that failed it is seen first whether this one goes on.
    Settling(time::Instant),
    /// Since then it goes on.
    Watching(time::Instant),
}

impl Phase {
    /// How long to wait for what comes next.
    fn patience(self, again: Duration) -> Duration {
        match self {
            Self::Listing(came) => PAGE_TIME.saturating_sub(came.elapsed()),
            Self::Settling(listed) => SETTLED.saturating_sub(listed.elapsed()),
            Self::Watching(listed) => again.saturating_sub(listed.elapsed()),
        }
    }
}

/// What is said next, and whether the former watch says it; that one ends silently.
async fn next_of<K>(events: &mut Events<K>, former: &mut Option<Events<K>>) -> (Option<watcher::Result<Event<K>>>, bool)
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let Some(watch) = former.as_mut() else { return (events.next().await, false) };
    let said = match select(pin!(events.next()), pin!(watch.next())).await {
        Either::Left((said, _)) => return (said, false),
        Either::Right((said, _)) => said,
    };
    if let Some(Ok(event @ (Event::Apply(_) | Event::Delete(_)))) = said {
        return (Some(Ok(event)), true);
    }
    // It would begin anew, and that is under way.
    *former = None;
    (events.next().await, false)
}

/// Has a sink told of objects, on the client's thread. Never ends by itself. Each failure ends in another listing, and so does time:
/// neither what a watch says nor that it says nothing is believed for longer.
pub async fn listen<K, S>(objects: Objects<K>, mut sink: S)
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    S: Sink<K>,
{
    let Objects { about, api, labels, fields, page, most: _ } = objects;
    let mut config = watcher::Config::default().page_size(page).timeout(WATCH_SECONDS);
    config.label_selector = Some(labels).filter(|labels| !labels.is_empty());
    config.field_selector = Some(fields).filter(|fields| !fields.is_empty());
    let (mut pauses, mut former) = (Pauses::default(), None);
    loop {
        let mut events = Events::of(api.clone(), config.clone());
        let mut asked = time::Instant::now();
        let mut phase = Phase::Listing(asked);
        let ended = loop {
            let next = timeout(phase.patience(sink.again()), next_of(&mut events, &mut former)).await;
            match (next, phase) {
                (Ok((Some(Ok(event)), is_of_former)), _) => {
                    match event {
                        _ if is_of_former => {}
                        // Nobody was asked yet.
                        Event::Init => {
                            asked = time::Instant::now();
                            phase = Phase::Listing(asked);
                        }
                        Event::InitApply(_) => phase = Phase::Listing(time::Instant::now()),
                        Event::InitDone => {
                            phase = Phase::Settling(time::Instant::now());
                            former = None;
                        }
                        Event::Apply(_) | Event::Delete(_) => {}
                    }
                    if sink.take(event, asked.into_std()).await == Err(NotTaken) {
                        former = None;
                        break Err(None);
                    }
                }
                (Ok((Some(Err(error)), _)), _) => break Err(Some(watch_failed(about, &error))),
                (Ok((None, _)) | Err(_), Phase::Listing(_)) => break Err(Some(too_slow(about, PAGE_TIME))),
                (Ok((None, _)) | Err(_), Phase::Settling(listed)) => {
                    phase = Phase::Watching(listed);
                    sink.goes_on();
                }
                (Ok((None, _)), Phase::Watching(_)) => break Ok(()),
                (Err(_), Phase::Watching(_)) => {
                    former = Some(events).filter(|_| sink.hears_on());
                    break Ok(());
                }
            }
        };
        if let Err(failure) = ended {
            if matches!(phase, Phase::Watching(_)) {
                pauses = Pauses::default();
            }
            if let Some(failure) = failure {
                sink.failed(failure);
            }
            sleep(pauses.next().unwrap_or_default()).await;
        }
    }
}

/// The sink of a [`Follower`].
struct Keeping<T, F> {
    about: &'static str,
    most: usize,
    shared: Arc<Shared<T>>,
    keep: F,
}

impl<K, T, F> Sink<K> for Keeping<T, F>
where
    K: Resource + Send + 'static,
    T: PartialEq + Send + Sync + 'static,
    F: Fn(K) -> Option<T> + Send + 'static,
{
    async fn take(&mut self, event: Event<K>, _: Instant) -> Result<(), NotTaken> {
        self.shared.tell(|known| known.take(self.about, self.most, event, &self.keep));
        Ok(())
    }

    fn failed(&mut self, failure: ApiError) {
        self.shared.tell(|known| known.stand(self.about, Standing::Stale(failure)));
    }

    fn goes_on(&mut self) {
        self.shared.tell(|known| known.go_on(self.about, self.most));
    }

    fn again(&self) -> Duration {
        if self.shared.lock().left_out { AGAIN_LEFT_OUT } else { AGAIN }
    }
}

impl<T> Shared<T> {
    /// Changes what is known, and tells who follows if that is news.
    fn tell(&self, change: impl FnOnce(&mut Known<T>) -> bool) {
        let news = change(&mut self.lock());
        if news {
            self.changed.notify(usize::MAX);
        }
    }
}
