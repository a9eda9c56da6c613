//! A watch that begins anew by itself when it ends, with a listing where the API server has forgotten what came since (410): kube's
//! watcher does that. What is here gives it pauses.

use futures_util::{Stream, StreamExt as _};
use kube::Resource;
use kube::api::Api;
use kube::runtime::watcher::{self, Event, watcher};
use serde::de::DeserializeOwned;
use std::fmt::{self, Debug};
use std::pin::Pin;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Objects of one answer to a listing.
pub const PAGE: u32 = 200;
/// Seconds until a watch is asked for anew, by the API server's clock; kube's, for a watch that says nothing, some seconds later.
pub const WATCH_SECONDS: u32 = 30;

/// Pauses between attempts that fail: soon at first, and never so long that a server which is back goes unnoticed.
#[derive(Debug, Default)]
pub struct Pauses(u32);

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        const MOST: u32 = 5;
        let pause = Duration::from_millis(125 << self.0);
        self.0 = (self.0 + 1).min(MOST);
        Some(pause)
    }
}

impl Pauses {
    /// The pause before a watch is asked for more. The beginning of a listing is no answer yet, nor are its first pages its end.
    fn after<K>(&mut self, said: &watcher::Result<Event<K>>) -> Option<Duration> {
        match said {
            Err(_) => self.next(),
            Ok(Event::Init | Event::InitApply(_)) => None,
            Ok(Event::InitDone | Event::Apply(_) | Event::Delete(_)) => {
                *self = Self::default();
                None
            }
        }
    }
}

/// A watch with its pauses. kube's own way to pause takes the beginning of a listing for a success: an API server that is too slow to
/// list would be asked for eight listings a second.
pub struct Events<K> {
    watch: Pin<Box<dyn Stream<Item = watcher::Result<Event<K>>> + Send>>,
    pauses: Pauses,
    until: Option<Instant>,
}

impl<K> Debug for Events<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("pauses", &self.pauses).finish_non_exhaustive()
    }
}

impl<K: Resource + Clone + DeserializeOwned + Debug + Send + 'static> Events<K> {
    /// The watch of these objects; nobody is asked yet.
    pub fn of(api: Api<K>, config: watcher::Config) -> Self {
        Self { watch: Box::pin(watcher(api, config)), pauses: Pauses::default(), until: None }
    }

    /// What it says next; who stops waiting misses nothing.
    pub async fn next(&mut self) -> Option<watcher::Result<Event<K>>> {
        if let Some(until) = self.until {
            sleep_until(until).await;
        }
        let said = self.watch.next().await?;
        self.until = self.pauses.after(&said).map(|pause| Instant::now() + pause);
        Some(said)
    }
}

/// How everything is watched here: pages of [`PAGE`], asked for anew each [`WATCH_SECONDS`].
pub fn config() -> watcher::Config {
    watcher::Config::default().page_size(PAGE).timeout(WATCH_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;

    fn pauses_after(said: &[watcher::Result<Event<ConfigMap>>]) -> Vec<Option<u128>> {
        let mut pauses = Pauses::default();
        said.iter().map(|said| pauses.after(said).map(|pause| pause.as_millis())).collect()
    }

    #[test]
    fn listings_that_fail_are_asked_for_less_and_less_until_one_comes_to_its_end() {
        let fails = || Err(watcher::Error::NoResourceVersion);
        let object = ConfigMap::default;
        let said = [Ok(Event::Init), fails(), Ok(Event::Init), Ok(Event::InitApply(object())), fails()];
        assert_eq!(pauses_after(&said), [None, Some(125), None, None, Some(250)]);
        let said = [fails(), fails(), fails(), fails(), fails(), fails(), fails()];
        assert_eq!(pauses_after(&said), [125, 250, 500, 1000, 2000, 4000, 4000].map(Some));
        let said = [fails(), fails(), Ok(Event::InitDone), fails(), fails(), Ok(Event::Apply(object())), fails()];
        assert_eq!(pauses_after(&said), [Some(125), Some(250), None, Some(125), Some(250), None, Some(125)]);
    }
}
