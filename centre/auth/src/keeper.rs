//! What is known, kept durably, for many callers at once.
//!
//! A write is decided against everything that was written before it, and shown to nobody before it is durable. Writes that wait
//! while the disk is busy are written together; reads and the forming of access lists never wait for the disk.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_channel::Sender;
use event_listener::{Event, EventListener};
use latchkey_factory_plus::{Upn, Uuid};
use latchkey_group_commit::{OpenError, Store};
use smol::Timer;
use smol::future::FutureExt;

use crate::api::{self, Answer, Ask, Decided, Ground, Read, Write};
use crate::entries;
use crate::expand::{List, NoList};
use crate::model::Model;
use crate::rights::{Rights, Rules};
use crate::state::State;

/// How long the news of an object takes at most, from the configuration database to here.
const NEWS: Duration = Duration::from_secs(2);

/// How many writes are written together at most.
const GROUP: usize = 256;

const NOT_WRITTEN: &str = "nothing was written: the disk of the service does not take it; try again later";

/// Keeps everything. Clones are one.
#[derive(Clone)]
pub struct Keeper(Arc<Inner>);

struct Inner {
    store: Store,
    /// Writes that nobody has taken up yet, in their order.
    waiting: Mutex<VecDeque<Order>>,
    /// What is known, and what is decided and not durable yet; held from the decision of writes until they can be seen.
    writing: smol::lock::Mutex<Model>,
    known: Mutex<Known>,
    changed: Event,
}

/// A write, and who waits for its answer.
struct Order {
    caller: Upn,
    write: Write,
    done: Sender<Answer>,
}

struct Known {
    state: State,
    /// Whether the configuration database told all of it once. Until then lists lack what grants to classes give.
    heard: bool,
}

/// What a watcher was told of, to see whether it is still so.
#[derive(Debug, Clone)]
pub struct Seen {
    rights: List,
    principal: Option<Uuid>,
    list: Option<Result<List, NoList>>,
}

impl Seen {
    fn is_same(&self, other: &Self) -> bool {
        let same = |one: &List, other: &List| Arc::ptr_eq(one, other) || one == other;
        let same_list = match (&self.list, &other.list) {
            (Some(Ok(one)), Some(Ok(other))) => same(one, other),
            (one, other) => one == other,
        };
        same(&self.rights, &other.rights) && self.principal == other.principal && same_list
    }
}

impl Keeper {
    /// Opens the file, or makes it.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(path: &Path, rules: Rules) -> Result<Self, OpenError> {
        let mut model = Model::default();
        let store =
            Store::open(path, entries::TABLES, |table, key, value| entries::read(&mut model, table, key, value))?;
        let writing = smol::lock::Mutex::new(model.clone());
        let known = Mutex::new(Known { state: State::new(rules, model), heard: false });
        Ok(Self(Arc::new(Inner { store, waiting: Mutex::default(), writing, known, changed: Event::new() })))
    }

    /// The durable file, for copies of one moment.
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// Whether this is the root principal, which passes every check.
    pub fn is_root(&self, caller: &Upn) -> bool {
        self.known().state.rules().root.as_ref() == Some(caller)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Each change of it is whole before the next statement that could panic.
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a caller whose name was proven. A write goes on to its end whatever becomes of the future.
    pub async fn ask(&self, caller: Upn, asked: Ask) -> Answer {
        match asked {
            Ask::Read(read) => self.read(caller, &read),
            Ask::Write(write) => {
                let (keeper, (done, answer)) = (self.clone(), async_channel::bounded(1));
                smol::spawn(async move {
                    let written = keeper.write(caller, write).await;
                    // Who has the answer may open the file anew.
                    drop(keeper);
                    // Nobody waits for it any more: the write is done all the same.
                    drop(done.send(written).await);
                })
                .detach();
                answer.recv().await.unwrap_or_else(|_| Answer::refused(500, "the write was given up"))
            }
        }
    }

    fn read(&self, caller: Upn, read: &Read) -> Answer {
        let mut known = self.known();
        match known.rights(caller, Some(read)) {
            Ok(rights) => api::read(&mut known.state, &rights, read),
            Err(refused) => refused,
        }
    }

    /// Writes. Who just made an object names it before the news of it came here, so that is waited for.
    async fn write(&self, caller: Upn, write: Write) -> Answer {
        let named = if let Write::Name(principal, _) = write { Some(principal) } else { None };
        let mut late = Timer::after(NEWS);
        loop {
            let changed = self.changed();
            let answer = self.write_now(caller.clone(), write.clone()).await;
            let is_news =
                named.is_some_and(|object| answer.status == 403 && !self.known().state.objects().knows(object));
            if !is_news || !changed_before(changed, &mut late).await {
                return answer;
            }
        }
    }

    async fn write_now(&self, caller: Upn, write: Write) -> Answer {
        let (done, answer) = async_channel::bounded(1);
        self.waiting().push_back(Order { caller, write, done });
        // Whoever holds this writes what all others have ordered until then.
        let mut ahead = self.0.writing.lock().await;
        loop {
            let group: Vec<Order> = {
                let mut waiting = self.waiting();
                let most = waiting.len().min(GROUP);
                waiting.drain(..most).collect()
            };
            if group.is_empty() {
                break;
            }
            self.write_group(group, &mut ahead).await;
        }
        drop(ahead);
        answer.recv().await.unwrap_or_else(|_| Answer::refused(500, "the write was given up"))
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Order>> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a group, all or none of what changes something. `ahead` is the model with all of it.
    async fn write_group(&self, group: Vec<Order>, ahead: &mut Model) {
        let mut decided = Vec::new();
        for Order { caller, write, done } in group {
            let Decided { changes, answer } = self.decide(caller, write, ahead).unwrap_or_else(Decided::from);
            for change in &changes {
                ahead.apply(change);
            }
            decided.push((changes, answer, done));
        }
        let changes = || decided.iter().flat_map(|(changes, ..)| changes);
        let entries: Vec<_> = changes().map(entries::write).collect();
        let written = if entries.is_empty() { Ok(()) } else { self.0.store.write(entries).await };
        let mut known = self.known();
        match &written {
            Ok(()) => changes().for_each(|change| drop(known.state.apply(change))),
            Err(error) => {
                tracing::error!(%error, "Nothing was written");
                *ahead = known.state.model().clone();
            }
        }
        drop(known);
        // What was refused is no news: whoever waits for some would be woken by its own try.
        if written.is_ok() && decided.iter().any(|(changes, ..)| !changes.is_empty()) {
            self.tell();
        }
        for (_, answer, done) in decided {
            // What was refused, was refused because of what was not written, perhaps: nobody is told of that.
            let answer = if written.is_ok() { answer } else { Answer::refused(503, NOT_WRITTEN) };
            // Nobody waits for it any more: it is done all the same.
            drop(done.try_send(answer));
        }
    }

    fn decide(&self, caller: Upn, write: Write, ahead: &Model) -> Result<Decided, Answer> {
        let mut known = self.known();
        let rights = known.rights(caller, None)?;
        let ground = Ground { rules: known.state.rules(), objects: known.state.objects(), model: ahead };
        Ok(api::decide(ground, &rights, write, &mut Uuid::random))
    }

    /// What the configuration database says, all of it together: members of classes, and owners of objects that changed.
    pub fn heard(&self, members: Vec<(Uuid, BTreeSet<Uuid>)>, owners: Vec<(Uuid, Option<Uuid>)>, all: bool) {
        let mut known = self.known();
        for (class, members) in members {
            known.state.set_members(class, members);
        }
        for (object, owner) in owners {
            known.state.set_owner(object, owner);
        }
        known.heard |= all;
        drop(known);
        self.tell();
    }

    /// Whether the configuration database told all of it once.
    pub fn has_heard(&self) -> bool {
        self.known().heard
    }

    /// The whole access list of who is called so, for what stands in this program; `None` before classes were heard of.
    pub fn list_of(&self, name: &Upn) -> Option<Result<List, NoList>> {
        let mut known = self.known();
        if !known.heard {
            return None;
        }
        let principal = known.state.model().identities().principal_of(name);
        Some(principal.map_or_else(|| Ok(List::default()), |principal| known.state.list(principal)))
    }

    /// How many identities and grants there are.
    pub fn counts(&self) -> (u64, u64) {
        let known = self.known();
        let model = known.state.model();
        (model.identities().all().count() as u64, model.grants().all().count() as u64)
    }

    /// The classes whose members matter. Principals and permissions that are known as such are none.
    pub fn classes(&self) -> BTreeSet<Uuid> {
        let known = self.known();
        let objects = known.state.objects();
        let is_class = |uuid: &Uuid| {
            use latchkey_factory_plus::uuids::class::{PERMISSION, PRINCIPAL};
            !objects.is_member(PRINCIPAL, *uuid) && !objects.is_member(PERMISSION, *uuid)
        };
        known.state.model().grants().classes().into_iter().filter(is_class).collect()
    }

    fn tell(&self) {
        self.0.changed.notify(usize::MAX);
    }

    /// Becomes ready when something changes after this call.
    pub fn changed(&self) -> EventListener {
        self.0.changed.listen()
    }

    /// Reads what is watched: an answer, unless it is the one that was `seen`.
    pub fn look(&self, caller: &Upn, read: &Read, seen: &mut Option<Seen>) -> Option<Answer> {
        let mut known = self.known();
        let rights = match known.rights(caller.clone(), Some(read)) {
            Ok(rights) => rights,
            Err(refused) => return Some(refused),
        };
        let principal = match read {
            Read::List(principal) => Some(*principal),
            Read::ListOf(name) => known.state.model().identities().principal_of(name),
            _ => None,
        };
        let list = principal.map(|principal| known.state.list(principal));
        let now = Seen { rights: rights.list().clone(), principal, list };
        let is_list = matches!(read, Read::List(_) | Read::ListOf(_));
        if is_list && seen.as_ref().is_some_and(|seen| seen.is_same(&now)) {
            return None;
        }
        *seen = Some(now);
        Some(api::read(&mut known.state, &rights, read))
    }
}

/// Whether something changed in time. The time is looked at first: changes may never end.
async fn changed_before(changed: EventListener, late: &mut Timer) -> bool {
    let news = async {
        changed.await;
        true
    };
    let too_late = async {
        late.await;
        false
    };
    too_late.or(news).await
}

impl Known {
    /// The rights of a caller, as far as they can be known: before the configuration database told anything, those of root are.
    fn rights(&mut self, caller: Upn, read: Option<&Read>) -> Result<Rights, Answer> {
        let is_root = self.state.rules().root.as_ref() == Some(&caller);
        let is_list = matches!(read, Some(Read::List(_) | Read::ListOf(_)));
        let is_self = matches!(read, Some(Read::WhoAmI | Read::WhoAmIBy(_)));
        if !self.heard && !is_self && (is_list || !is_root) {
            return Err(Answer::refused(
                503,
                "the configuration database has not told about classes yet; try again later",
            ));
        }
        Ok(self.state.rights(caller)?)
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keeper({})", self.0.store.path().display())
    }
}
