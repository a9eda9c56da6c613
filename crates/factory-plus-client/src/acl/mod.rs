//! Access control lists, followed at the authorisation service for as long as they are used.

mod cache;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use latchkey_factory_plus::grants::Access;
use latchkey_factory_plus::{Upn, uuids};
use serde::Deserialize as _;
use smol::{Task, Timer};

use cache::Cache;

use crate::notify::{Notify, Reading, State, Watch};
use crate::within::within;
use crate::{Client, auth};

/// How access control lists are followed.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Lists, by UPN, that nobody is asked about: root, and what is needed before the
    /// authorisation service runs.
    pub fixed: BTreeMap<Upn, Arc<[Access]>>,
    /// How long the list heard last is used while the authorisation service does not answer.
    pub grace: Duration,
    /// How long to wait for a list that was not asked for before.
    pub patience: Duration,
    /// How long a list is followed that nobody uses.
    pub unused: Duration,
    /// How many are followed at once; the one used longest ago gives way. A site of 100 clusters has some 400 principals. Less than the subscriptions of [`Limits`](crate::Limits).
    pub most: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            fixed: BTreeMap::new(),
            grace: Duration::from_mins(1),
            patience: Duration::from_secs(5),
            unused: Duration::from_mins(5),
            most: 1000,
        }
    }
}

/// Why there is no list. Nobody may do anything then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// The authorisation service is not followed, and was not for longer than a list may be used.
    #[error("the permissions of {upn} are not known: {why}")]
    Unreachable {
        /// Whose.
        upn: Upn,
        /// Why, with what helps.
        why: Arc<str>,
    },
    /// It does not tell us.
    #[error(
        "the permissions of {upn} are not known: the authorisation service answers {status}; grant our principal to read access control lists"
    )]
    Refused {
        /// Whose.
        upn: Upn,
        /// What a GET would have answered.
        status: u16,
    },
    /// What it tells is no list.
    #[error(
        "the permissions of {upn} are not known: the authorisation service tells no list of permissions and targets: {why}"
    )]
    BadList {
        /// Whose.
        upn: Upn,
        /// What is wrong with it.
        why: Arc<str>,
    },
}

/// Follows access control lists. Clones are one.
#[derive(Clone)]
pub struct Follower(Arc<Inner>);

struct Inner {
    settings: Settings,
    notify: Notify,
    cache: Mutex<Cache<Followed>>,
    _sweeper: Task<()>,
}

/// One principal's list.
struct Followed {
    watch: Watch,
    /// What was heard as number so and so, as a list.
    read: Mutex<Option<(u64, Arc<[Access]>)>>,
}

impl Follower {
    /// At the authorisation service of a client's centre.
    pub fn new(client: &Client, settings: Settings) -> Self {
        let notify = client.service(uuids::service::AUTH).notify();
        Self(Arc::new_cyclic(|inner| Inner {
            cache: Mutex::new(Cache::new(settings.most, settings.unused)),
            _sweeper: smol::spawn(sweep(Weak::clone(inner), settings.unused / 4)),
            settings,
            notify,
        }))
    }

    /// What whom Kerberos calls `upn` may do. Many who ask for the same one wait for one answer.
    pub async fn access(&self, upn: &Upn) -> Result<Arc<[Access]>, AccessError> {
        if let Some(list) = self.0.settings.fixed.get(upn) {
            return Ok(Arc::clone(list));
        }
        let follow = || Followed { watch: self.0.notify.watch(&auth::acl(upn)), read: Mutex::default() };
        let followed = self.0.cache().of(upn, Instant::now(), follow);
        let patience = self.0.settings.patience;
        let listening = async {
            loop {
                let (number, state, reading) = followed.watch.heard();
                match judge(upn, &state, reading, Instant::now(), self.0.settings.grace) {
                    Some(Ok(reading)) => return followed.list(upn, number, &reading),
                    Some(Err(error)) => return Err(error),
                    None => drop(followed.watch.after(number).await),
                }
            }
        };
        within(patience, listening).await.unwrap_or_else(|| {
            let why = format!("the authorisation service did not answer within {} s", patience.as_secs_f32());
            Err(AccessError::Unreachable { upn: upn.clone(), why: why.into() })
        })
    }

    /// How many lists are followed.
    pub fn followed(&self) -> usize {
        self.0.cache().len()
    }
}

impl Inner {
    fn cache(&self) -> MutexGuard<'_, Cache<Followed>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower").field("followed", &self.followed()).finish_non_exhaustive()
    }
}

async fn sweep(follower: Weak<Inner>, pause: Duration) {
    loop {
        Timer::after(pause.max(Duration::from_millis(10))).await;
        let Some(follower) = follower.upgrade() else { return };
        follower.cache().sweep(Instant::now());
    }
}

/// Whether a reading may be used at `now`; `None` is to wait for one.
fn judge(
    upn: &Upn,
    state: &State,
    reading: Option<Reading>,
    now: Instant,
    grace: Duration,
) -> Option<Result<Reading, AccessError>> {
    let told = match (state, reading) {
        (State::Fresh, reading) => reading?,
        (State::Stale { since, .. }, Some(reading)) if now.saturating_duration_since(*since) <= grace => reading,
        (State::Stale { reason, .. }, _) => {
            return Some(Err(AccessError::Unreachable { upn: upn.clone(), why: Arc::clone(reason) }));
        }
        (State::Waiting, _) => return None,
    };
    match told.status {
        200..=299 | 404 => Some(Ok(told)),
        status => Some(Err(AccessError::Refused { upn: upn.clone(), status })),
    }
}

impl Followed {
    fn list(&self, upn: &Upn, number: u64, reading: &Reading) -> Result<Arc<[Access]>, AccessError> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, list)) = read.as_ref().filter(|(of, _)| *of == number) {
            return Ok(Arc::clone(list));
        }
        let list: Arc<[Access]> = match (reading.status, &reading.body) {
            (404, _) => Arc::default(),
            (_, Some(body)) => Vec::<Access>::deserialize(&**body)
                .map_err(|error| AccessError::BadList { upn: upn.clone(), why: error.to_string().into() })?
                .into(),
            (_, None) => return Err(AccessError::BadList { upn: upn.clone(), why: "no body".into() }),
        };
        *read = Some((number, Arc::clone(&list)));
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const GRACE: Duration = Duration::from_mins(1);

    fn a() -> Upn {
        "a@R".parse().unwrap()
    }

    fn reading(status: u16) -> Reading {
        Reading { status, body: Some(Arc::new(json!([]))), etag: None }
    }

    #[test]
    fn a_list_is_used_for_a_bounded_time_without_the_service_and_not_after() {
        let since = Instant::now();
        let stale = State::Stale { since, reason: "gone".into() };
        let judged = |after: Duration| judge(&a(), &stale, Some(reading(200)), since + after, GRACE).unwrap();
        assert!(judged(Duration::ZERO).is_ok() && judged(GRACE).is_ok());
        let error = judged(GRACE + Duration::from_millis(1)).unwrap_err();
        assert_eq!(error, AccessError::Unreachable { upn: a(), why: "gone".into() });
        assert!(judge(&a(), &stale, None, since, GRACE).unwrap().is_err());
    }

    #[test]
    fn what_is_not_told_is_waited_for_and_what_is_refused_is_not() {
        let now = Instant::now();
        assert_eq!(judge(&a(), &State::Waiting, None, now, GRACE), None);
        assert!(judge(&a(), &State::Fresh, Some(reading(404)), now, GRACE).unwrap().is_ok());
        for status in [403, 500, 301] {
            let judged = judge(&a(), &State::Fresh, Some(reading(status)), now, GRACE).unwrap();
            assert_eq!(judged, Err(AccessError::Refused { upn: a(), status }));
        }
    }
}
