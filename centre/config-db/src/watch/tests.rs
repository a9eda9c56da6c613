//! What a change costs, however many watch it.

use async_channel::Receiver;
use latchkey_factory_plus::Uuid;
use serde_json::{Value, json};

use super::event::READINGS;
use super::{Event, Resource, Target, Watchers};
use crate::{Depth, Entry, Json, Model, Mutation, Object};

const CLASS: Uuid = Uuid::constant("c0000000-0000-4000-8000-000000000001");
const APP: Uuid = Uuid::constant("a0000000-0000-4000-8000-000000000001");
const X: Uuid = Uuid::constant("00000000-0000-4000-8000-00000000000a");
const MANY: usize = 100;

/// What was told to each of [`MANY`] watchers.
struct Rig {
    model: Model,
    watchers: Watchers,
    told: Vec<Receiver<Event>>,
}

impl Rig {
    fn watching(resource: Resource, filter: Option<Value>) -> Self {
        let mut model = Model::default();
        let object = Object { class: Uuid::NIL, rank: 1, owner: Uuid::NIL, deleted: false, etag: Uuid::NIL };
        model.apply(&Mutation::Object(CLASS, Some(object)));
        let mut watchers = Watchers::default();
        let target = Target { resource, head: false, filter };
        let told = (0..MANY).map(|_| watchers.add(&model, &target).1).collect();
        Self { model, watchers, told }
    }

    /// How often the model was read for these changes.
    fn readings(&mut self, mutations: &[Mutation]) -> usize {
        let before = READINGS.get();
        self.watchers.publish(&mut self.model, mutations);
        READINGS.get() - before
    }

    /// The one event that all were told, in one copy of its body.
    fn event(&self) -> Event {
        let events: Vec<Event> = self.told.iter().map(|told| told.try_recv().unwrap()).collect();
        let place = |event: &Event| event.body.as_ref().unwrap().text().as_ptr();
        assert!(events.iter().all(|event| *event == events[0] && place(event) == place(&events[0])));
        assert!(self.told.iter().all(Receiver::is_empty), "told once");
        events[0].clone()
    }
}

/// §11.15
#[test]
fn a_class_is_read_once_for_a_change_however_many_watch_it() {
    let before = READINGS.get();
    let mut rig = Rig::watching(Resource::Members(CLASS, Depth::Derived), None);
    assert_eq!(READINGS.get() - before, 1, "who comes later finds what the first one read");
    assert_eq!(rig.readings(&[Mutation::Member(CLASS, X, true)]), 1);
    assert_eq!(rig.event().body, Some(Json::of(&json!([X]))));
    assert_eq!(rig.readings(&[Mutation::Member(CLASS, X, true), Mutation::Member(CLASS, X, true)]), 1);
    assert!(rig.told.iter().all(Receiver::is_empty), "nothing changed");
    assert_eq!(rig.readings(&[Mutation::Member(Uuid::NIL, X, true)]), 0, "nobody watches this one");
}

#[test]
fn a_change_of_an_entry_reads_nothing_however_many_search_for_it() {
    for filter in [None, Some(json!({ "n": 1 }))] {
        let mut rig = Rig::watching(Resource::Entries(APP), filter);
        let entry = Entry { etag: X, json: Json::of(&json!({ "n": 1, "much": "x".repeat(1000) })) };
        assert_eq!(rig.readings(&[Mutation::Entry(APP, X, Some(entry.clone()))]), 0);
        let event = rig.event();
        assert_eq!((event.status, event.child, event.body), (201, Some(X), Some(entry.json)));
    }
}
