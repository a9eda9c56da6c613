//! Changes of a model that can be taken back.

use latchkey_factory_plus::Uuid;

use crate::operation::Refusal;
use crate::{Entry, Json, Model, Mutation, Object};

/// The most objects of a database.
const MOST_OBJECTS: usize = 200_000;
/// The most entries of a database.
const MOST_ENTRIES: usize = 400_000;
/// The most bytes of all entries' JSON texts.
const MOST_BYTES: usize = 512 << 20;

/// A model that is being changed, and how to take that back.
#[derive(Debug)]
pub(crate) struct Transaction<'a> {
    model: &'a mut Model,
    done: Vec<Mutation>,
    inverses: Vec<Mutation>,
}

impl<'a> Transaction<'a> {
    /// Begins with no changes.
    pub(crate) const fn on(model: &'a mut Model) -> Self {
        Self { model, done: Vec::new(), inverses: Vec::new() }
    }

    /// The model with all changes so far.
    pub(crate) const fn model(&self) -> &Model {
        self.model
    }

    /// How much was done.
    pub(crate) const fn savepoint(&self) -> usize {
        self.done.len()
    }

    /// Takes back what was done after a savepoint.
    pub(crate) fn roll_back(&mut self, savepoint: usize) {
        while self.done.len() > savepoint {
            self.done.pop();
            if let Some(inverse) = self.inverses.pop() {
                self.model.apply(&inverse);
            }
        }
    }

    /// The changes, and their inverses in the same order.
    pub(crate) fn into_parts(self) -> (Vec<Mutation>, Vec<Mutation>) {
        (self.done, self.inverses)
    }

    fn change(&mut self, mutation: Mutation) {
        self.inverses.push(self.model.apply(&mutation));
        self.done.push(mutation);
    }

    /// Writes an object's row; a new etag comes with each change.
    pub(super) fn set_object(&mut self, uuid: Uuid, object: Object) -> Result<(), Refusal> {
        let before = self.model.object(uuid);
        if before.is_none() && self.model.objects().len() >= MOST_OBJECTS {
            return Err(Refusal::Full(format!("the database has {MOST_OBJECTS} objects, and takes no more")));
        }
        if before.is_none_or(|before| Object { etag: object.etag, ..before } != object) {
            self.change(Mutation::Object(uuid, Some(Object { etag: Uuid::random(), ..object })));
        }
        Ok(())
    }

    pub(super) fn remove_object(&mut self, uuid: Uuid) {
        self.change(Mutation::Object(uuid, None));
    }

    pub(super) fn set_member(&mut self, class: Uuid, object: Uuid, present: bool) {
        if self.model.is_direct_member(class, object) != present {
            self.change(Mutation::Member(class, object, present));
        }
    }

    pub(super) fn set_subclass(&mut self, class: Uuid, subclass: Uuid, present: bool) {
        if self.model.is_direct_subclass(class, subclass) != present {
            self.change(Mutation::Subclass(class, subclass, present));
        }
    }

    /// Writes an entry with a new etag. Its caller has seen that the value is another one.
    pub(super) fn set_entry(&mut self, application: Uuid, object: Uuid, json: Json) -> Result<(), Refusal> {
        let (entries, bytes) = self.model.size();
        let new = self.model.etag(application, object).is_none();
        if (new && entries >= MOST_ENTRIES) || bytes + json.text().len() > MOST_BYTES {
            return Err(Refusal::Full(format!(
                "the database has {entries} entries of {bytes} bytes, and takes at most {MOST_ENTRIES} of {MOST_BYTES}"
            )));
        }
        self.change(Mutation::Entry(application, object, Some(Entry { json, etag: Uuid::random() })));
        Ok(())
    }

    pub(super) fn remove_entry(&mut self, application: Uuid, object: Uuid) {
        self.change(Mutation::Entry(application, object, None));
    }

    /// An object that must be there.
    pub(super) fn object(&self, what: &'static str, uuid: Uuid) -> Result<Object, Refusal> {
        self.model.object(uuid).ok_or(Refusal::Missing { what, uuid })
    }
}
