//! Watchers, by what they watch.

use std::collections::{HashMap, HashSet};

use async_channel::{Receiver, Sender, unbounded};
use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::uuids::application::REGISTRATION;
use latchkey_factory_plus::uuids::class::APPLICATION;
use latchkey_sorted_json::is_met;
use serde_json::Value;

use super::{Event, Resource, Target};
use crate::{Depth, Entry, Model, Mutation};

/// How many changes wait for a watcher; one that reads more slowly is dropped.
const WAITING_EVENTS: usize = 1024;

/// Watchers, by what they watch.
#[derive(Debug, Default)]
pub struct Watchers {
    watched: HashMap<Resource, Watched>,
    next_number: u64,
}

#[derive(Debug)]
struct Watched {
    watchers: Vec<Watcher>,
    /// What a list's watchers were told last.
    last: Event,
}

#[derive(Debug)]
struct Watcher {
    number: u64,
    events: Sender<Event>,
    head: bool,
    filter: Option<Value>,
}

impl Watchers {
    /// Adds a watcher, who is told of all changes from now on.
    pub(crate) fn add(&mut self, model: &Model, target: &Target) -> (u64, Receiver<Event>) {
        // A bounded channel would take the room for all of them at once; see [`Watcher::tell`] for the bound.
        let (events, told) = unbounded();
        self.next_number += 1;
        let Target { resource, head, filter } = target;
        let watcher = Watcher { number: self.next_number, events, head: *head, filter: filter.clone() };
        let place = self.watched.entry(*resource);
        let last = || Watched { watchers: Vec::new(), last: Event::reading(model, *resource) };
        place.or_insert_with(last).watchers.push(watcher);
        (self.next_number, told)
    }

    /// Forgets a watcher.
    pub(crate) fn remove(&mut self, resource: Resource, number: u64) {
        if let Some(watched) = self.watched.get_mut(&resource) {
            watched.watchers.retain(|watcher| watcher.number != number);
            if watched.watchers.is_empty() {
                self.watched.remove(&resource);
            }
        }
    }

    /// Changes the model, and tells whom it concerns. Lists are told of once, as they are after all changes.
    pub(crate) fn publish(&mut self, model: &mut Model, mutations: &[Mutation]) {
        let mut lists = HashSet::new();
        for mutation in mutations {
            self.collect_lists(model, mutation, &mut lists);
            let inverse = model.apply(mutation);
            self.collect_lists(model, mutation, &mut lists);
            match (mutation, inverse) {
                (Mutation::Entry(application, object, after), Mutation::Entry(_, _, before)) => {
                    self.tell_of_entry(*application, *object, before.as_ref(), after.as_ref());
                }
                (Mutation::Object(uuid, after), Mutation::Object(_, before)) if self.watches_registration(*uuid) => {
                    let registration = |object: crate::Object| object.registration(*uuid);
                    let (before, after) = (before.map(registration), after.map(registration));
                    self.tell_of_entry(REGISTRATION, *uuid, before.as_ref(), after.as_ref());
                }
                _ => {}
            }
        }
        for resource in lists {
            self.tell_of_list(model, resource);
        }
    }

    /// The lists that a change may concern, if anybody watches them.
    fn collect_lists(&self, model: &Model, mutation: &Mutation, lists: &mut HashSet<Resource>) {
        if self.watched.is_empty() {
            return;
        }
        let mut add = |resource| {
            if self.watched.contains_key(&resource) {
                lists.insert(resource);
            }
        };
        let above = |class| model.superclasses(class, Depth::Derived).into_iter().chain([class]);
        match mutation {
            Mutation::Entry(application, ..) => add(Resource::EntryObjects(*application)),
            Mutation::Object(uuid, _) => {
                add(Resource::EntryObjects(REGISTRATION));
                for depth in [Depth::Direct, Depth::Derived] {
                    add(Resource::Members(*uuid, depth));
                    add(Resource::Subclasses(*uuid, depth));
                }
            }
            Mutation::Member(class, member, _) => {
                add(Resource::Members(*class, Depth::Direct));
                above(*class).for_each(|class| add(Resource::Members(class, Depth::Derived)));
                add(Resource::EntryObjects(*member)); // it may be an application from now on
            }
            Mutation::Subclass(class, _, _) => {
                add(Resource::Subclasses(*class, Depth::Direct));
                for class in above(*class) {
                    add(Resource::Subclasses(class, Depth::Derived));
                    add(Resource::Members(class, Depth::Derived));
                }
                if above(*class).any(|class| class == APPLICATION) {
                    // Others may be applications from now on. This happens once in a site's life.
                    self.watched.keys().filter(|key| matches!(key, Resource::EntryObjects(_))).copied().for_each(add);
                }
            }
        }
    }

    fn watches_registration(&self, object: Uuid) -> bool {
        [Resource::Entry(REGISTRATION, object), Resource::Entries(REGISTRATION)]
            .iter()
            .any(|resource| self.watched.contains_key(resource))
    }

    fn tell_of_list(&mut self, model: &Model, resource: Resource) {
        if let Some(watched) = self.watched.get_mut(&resource) {
            let now = Event::reading(model, resource);
            if now != watched.last {
                watched.watchers.retain(|watcher| watcher.tell(now.clone()));
                watched.last = now;
            }
        }
    }

    fn tell_of_entry(&mut self, application: Uuid, object: Uuid, before: Option<&Entry>, after: Option<&Entry>) {
        if before == after {
            return;
        }
        let event = match after {
            Some(entry) => Event::of_entry(if before.is_some() { 200 } else { 201 }, entry),
            None => Event::status(404),
        };
        if let Some(watched) = self.watched.get_mut(&Resource::Entry(application, object)) {
            watched.watchers.retain(|watcher| watcher.tell(event.clone()));
        }
        if let Some(watched) = self.watched.get_mut(&Resource::Entries(application)) {
            let event = Event { child: Some(object), ..event };
            // Values are made once, and only where somebody has a filter.
            let values = watched.watchers.iter().any(|watcher| watcher.filter.is_some());
            let value = |entry: Option<&Entry>| entry.filter(|_| values).map(|entry| entry.json.value());
            let (before, after) = (value(before), value(after));
            watched.watchers.retain(|watcher| match watcher.filtered(&event, before.as_ref(), after.as_ref()) {
                Some(event) => watcher.tell(event),
                None => true,
            });
        }
    }
}

impl Watcher {
    /// Whether the watcher stays.
    fn tell(&self, event: Event) -> bool {
        let event = if self.head { event.without_body() } else { event };
        // Nobody else sends at the same time: the index is under one lock.
        self.events.len() < WAITING_EVENTS && self.events.try_send(event).is_ok()
    }

    /// What a change of an entry is to a search with this watcher's filter.
    fn filtered(&self, event: &Event, before: Option<&Value>, after: Option<&Value>) -> Option<Event> {
        let Some(filter) = &self.filter else { return Some(event.clone()) };
        let met = |value: Option<&Value>| value.is_some_and(|value| is_met(filter, value));
        match (met(before), met(after)) {
            (_, true) => Some(event.clone()),
            (true, false) if after.is_none() => Some(event.clone()),
            (true, false) => Some(Event { child: event.child, ..Event::status(412) }),
            (false, false) => None,
        }
    }
}
