//! One subscription, as its reader sees it.

use std::fmt;
use std::sync::Arc;

use async_channel::Receiver;
use latchkey_factory_plus::Uuid;
use latchkey_sorted_json::is_met;

use super::{Event, Resource, Target};
use crate::Entry;
use crate::access::{Caller, Needing};
use crate::database::Shared;

/// A subscription: its first frame says what is there, each later one what changed. It ends when it is dropped.
pub struct Subscription {
    shared: Arc<Shared>,
    uuid: Uuid,
    target: Target,
    number: u64,
    events: Receiver<Event>,
    /// What is there, until it was told.
    first: Option<State>,
    /// 201 in the first frame.
    status: u16,
    told: Told,
}

/// What is there at one moment.
struct State {
    event: Event,
    /// Of a search.
    children: Option<Vec<(Uuid, Entry)>>,
}

/// What the reader was told last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Something,
    Forbidden,
    End,
}

impl Subscription {
    pub(crate) fn begin(shared: Arc<Shared>, uuid: Uuid, target: Target) -> Self {
        let (number, events, first) = join(&shared, &target);
        Self { shared, uuid, target, number, events, first: Some(first), status: 201, told: Told::Something }
    }

    /// The next frame, once there is one; `None` after the last. The caller's rights are checked for each: who lost them is told
    /// 403 once and nothing more, until they are there again. Nothing is lost when the future is dropped.
    pub async fn next(&mut self, caller: &Caller) -> Option<String> {
        if self.told == Told::End {
            return None;
        }
        loop {
            if let Some(frame) = self.recheck(caller) {
                return Some(frame);
            }
            if self.told != Told::Forbidden
                && let Some(State { event, children }) = self.first.take()
            {
                return Some(self.frame(&event, children.as_deref()));
            }
            match self.events.recv().await {
                Ok(_) if self.told == Told::Forbidden => {}
                Ok(event) if self.may(caller) => return Some(self.frame(&event, None)),
                Ok(_) => {} // the next turn says so
                Err(_) => return Some(self.end()),
            }
        }
    }

    /// What a change of the caller's rights makes of the subscription: 403, or everything anew; `None` if nothing.
    pub fn recheck(&mut self, caller: &Caller) -> Option<String> {
        match (self.told, self.may(caller)) {
            (Told::Something, false) => {
                self.told = Told::Forbidden;
                Some(self.frame(&Event::status(403), None))
            }
            (Told::Forbidden, true) => {
                self.told = Told::Something;
                self.shared.write().watchers.remove(self.target.resource, self.number);
                let (number, events, State { event, children }) = join(&self.shared, &self.target);
                (self.number, self.events, self.first) = (number, events, None);
                Some(self.frame(&event, children.as_deref()))
            }
            _ => None,
        }
    }

    /// Whether the last frame was given.
    pub fn has_ended(&self) -> bool {
        self.told == Told::End
    }

    fn may(&self, caller: &Caller) -> bool {
        self.target.needs().lacking(caller).is_none()
    }

    fn frame(&mut self, event: &Event, children: Option<&[(Uuid, Entry)]>) -> String {
        event.frame(self.uuid, std::mem::replace(&mut self.status, 200), children)
    }

    /// The reader was too slow.
    fn end(&mut self) -> String {
        self.told = Told::End;
        format!("{{\"uuid\":\"{}\",\"status\":503}}", self.uuid)
    }
}

/// What is there, and a place in the index, at one moment.
fn join(shared: &Shared, target: &Target) -> (u64, Receiver<Event>, State) {
    let mut shown = shared.write();
    let crate::database::Shown { model, watchers } = &mut *shown;
    let (number, events) = watchers.add(model, target);
    let event = Event::reading(model, target.resource);
    let event = if target.head { event.without_body() } else { event };
    let children = match target.resource {
        Resource::Entries(application) => {
            let met = |entry: &Entry| target.filter.as_ref().is_none_or(|filter| is_met(filter, &entry.json.value()));
            Some(model.entries_of(application).filter(|(_, entry)| met(entry)).collect())
        }
        _ => None,
    };
    (number, events, State { event, children })
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.shared.write().watchers.remove(self.target.resource, self.number);
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("uuid", &self.uuid).field("target", &self.target).finish_non_exhaustive()
    }
}
