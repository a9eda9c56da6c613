//! Which resource is looked at when.

use latchkey_factory_plus::Realm;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use latchkey_connection_limits::Backoff;
use latchkey_kubernetes_client::{Connection, Follower};
use smol::future::FutureExt as _;

use super::act::{Act, Read, now};
use super::decide::{Decision, Held, decide, trim_at};
use super::resource::Resource;
use super::rivals::{Id, Rivals};
use super::watch::Type;
use crate::failure::Failure;

/// How often a key is tried that nobody asked for anew.
const EVERY: Duration = Duration::from_mins(10);
/// The longest pause after failures, in milliseconds.
const PAUSE_MS: u64 = 60_000;
/// Resources that are worked on at once: the API server makes each write durable, and the KDC waits for none of that.
const AT_ONCE: usize = 32;
/// Rounds of finding out and carrying out, before something is taken for contested.
const ROUNDS: usize = 5;

/// Keeps the keys of a namespace.
pub(crate) struct Work {
    act: Act,
    keys: Follower<Resource>,
    locals: Follower<Resource>,
    known: BTreeMap<Id, Known>,
}

struct Known {
    resource: Arc<Resource>,
    due: Instant,
    backoff: Backoff,
    /// Whether somebody has to change something; another resource's end may be that.
    refused: bool,
}

impl Work {
    pub(crate) fn new(act: Act, connection: &Connection, namespace: &str, realm: &Realm) -> Self {
        let keys = Type::KerberosKey.follow(connection, namespace, realm);
        let locals = Type::LocalSecret.follow(connection, namespace, realm);
        Self { act, keys, locals, known: BTreeMap::new() }
    }

    /// Never ends.
    pub(crate) async fn run(mut self) -> Infallible {
        loop {
            let next = self.known.values().map(|known| known.due).min();
            let timer = next.map_or_else(smol::Timer::never, smol::Timer::at);
            let due = async {
                timer.await;
            };
            self.keys.changed().or(self.locals.changed()).or(due).await;
            self.take_up();
            self.look().await;
        }
    }

    /// Takes up what changed.
    fn take_up(&mut self) {
        let mut left = false;
        let views = [(Type::KerberosKey, self.keys.view()), (Type::LocalSecret, self.locals.view())];
        for (kind, view) in views {
            // What is not listed yet is not gone.
            let Some(objects) = view.objects else { continue };
            let there = |name: &str| objects.keys().any(|key| key.name == name);
            let before = self.known.len();
            self.known.retain(|(of, name), _| *of != kind || there(name));
            left |= self.known.len() != before;
            for (key, resource) in objects.iter() {
                let (id, now) = ((kind, key.name.clone()), Instant::now());
                match self.known.get_mut(&id) {
                    Some(known) if *known.resource == **resource => {}
                    // Our own words on it are no news.
                    Some(known) if same_but_for_status(&known.resource, resource) => {
                        known.resource = Arc::clone(resource);
                    }
                    _ => {
                        let known =
                            Known { resource: Arc::clone(resource), due: now, backoff: backoff(&id), refused: false };
                        self.known.insert(id, known);
                    }
                }
            }
        }
        if left {
            self.known.values_mut().filter(|known| known.refused).for_each(|known| known.due = Instant::now());
        }
    }

    /// Looks at what is due.
    async fn look(&mut self) {
        let now = Instant::now();
        let resources = self.known.iter().map(|(id, known)| (id, &*known.resource));
        let rivals = Rivals::of(resources);
        let due: Vec<(Id, Arc<Resource>)> = self
            .known
            .iter()
            .filter(|(_, known)| known.due <= now)
            .map(|(id, known)| (id.clone(), Arc::clone(&known.resource)))
            .collect();
        let mut waiting = due.iter();
        let mut working = FuturesUnordered::new();
        let mut ended = vec![];
        loop {
            while working.len() < AT_ONCE
                && let Some((id, resource)) = waiting.next()
            {
                working.push(async { (id.clone(), settle(&self.act, id, resource, &rivals).await) });
            }
            match working.next().await {
                Some(end) => ended.push(end),
                None => break,
            }
        }
        drop(working);
        for (id, (end, resource)) in ended {
            if let Some(known) = self.known.get_mut(&id) {
                // What was written on it here is no news when the watch tells it.
                known.resource = Arc::new(resource);
                known.refused = end == End::Refused;
                let wait = match end {
                    End::Settled(wait) => wait,
                    End::Refused => EVERY,
                    End::Failed => Duration::from_millis(known.backoff.next_ms()),
                };
                if end != End::Failed {
                    known.backoff = backoff(&id);
                }
                known.due = Instant::now() + wait;
            }
        }
    }
}

fn same_but_for_status(one: &Resource, other: &Resource) -> bool {
    *one == Resource { status: one.status.clone(), ..other.clone() }
}

fn backoff(id: &Id) -> Backoff {
    let seed = id.1.bytes().fold(1_u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
    Backoff::new(seed).up_to(PAUSE_MS)
}

/// What became of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// All is as it is to be, for so long.
    Settled(Duration),
    /// Somebody has to change something.
    Refused,
    /// It is tried again.
    Failed,
}

/// Brings one resource to where it is to be, and says so on it: what became of it, and the resource as it is then.
async fn settle(act: &Act, id: &Id, seen: &Resource, rivals: &Rivals) -> (End, Resource) {
    // A watch may be late: what it told may still have a wish for a new key that this operator has met since.
    let (mut resource, writing) = match act.objects.read(id).await {
        Ok(Some(read)) => read,
        Ok(None) => return (End::Settled(EVERY), seen.clone()),
        Err(error) => {
            tracing::warn!(kind = id.0.title(), name = id.1, %error, "The resource was not read");
            return (End::Failed, seen.clone());
        }
    };
    let read = Read::of(writing);
    let (phase, message, end) = match settled(act, id, &mut resource, rivals, read).await {
        Ok(Came::Left) => return (End::Settled(EVERY), resource),
        Ok(Came::Right) => {
            ("Ready", "all is as it is to be".to_owned(), End::Settled(until_trim(&resource).min(EVERY)))
        }
        Ok(Came::Refused(why)) => ("Refused", why, End::Refused),
        // A right that was missing may be there again, which nobody tells.
        Err(Failure::Refused(why)) => ("Refused", why, End::Failed),
        Err(Failure::Again(why)) => ("Waiting", why, End::Failed),
    };
    if phase != "Ready" {
        tracing::warn!(kind = id.0.title(), name = id.1, phase, message, "A resource is not as it is to be");
    }
    let said = resource.status.as_ref() == Some(&(resource.generation, message.clone()));
    if !said && let Err(error) = act.objects.status(id, resource.generation, phase, &message).await {
        tracing::warn!(kind = id.0.title(), name = id.1, %error, "The status was not written");
        return (End::Failed, resource);
    }
    resource.status = Some((resource.generation, message));
    (end, resource)
}

/// What a resource came to, where nothing failed.
enum Came {
    /// It is left alone, or gone.
    Left,
    /// All is as it is to be.
    Right,
    /// It is not carried out: why.
    Refused(String),
}

async fn settled(
    act: &Act,
    id: &Id,
    resource: &mut Resource,
    rivals: &Rivals,
    mut read: Read,
) -> Result<Came, Failure> {
    for _ in 0..ROUNDS {
        let facts = match &resource.wanted {
            Ok(wanted) => act.facts(id, wanted, rivals, &mut read).await?,
            Err(_) => super::decide::Facts::none(now()),
        };
        let effects = match decide(resource, &facts) {
            Decision::Leave => return Ok(Came::Left),
            Decision::Refuse(why) => return Ok(Came::Refused(why)),
            Decision::Do(effects) if effects.is_empty() && resource.deleting => return Ok(Came::Left),
            Decision::Do(effects) => effects,
        };
        for effect in &effects {
            tracing::info!(kind = id.0.title(), name = id.1, effect = effect.word(), "Carrying out");
            act.carry_out(id, &resource.wanted, effect, &mut read).await?;
            effect.note(resource, now());
        }
        // Whether the key of one that was disabled serves is found out once it is enabled.
        if !resource.deleting && (effects.is_empty() || facts.held != (Held::Something { serves: None })) {
            act.account(id, resource).await?;
            return Ok(Came::Right);
        }
    }
    Err(Failure::Again("somebody else changes the same keys all the time".into()))
}

fn until_trim(resource: &Resource) -> Duration {
    trim_at(resource).map_or(Duration::MAX, |at| Duration::from_secs(at.saturating_sub(now()).max(1)))
}
