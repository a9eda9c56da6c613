//! The database in memory: objects, classes and entries. No I/O; every change is a [`Mutation`], and has an inverse.

mod mutation;
mod relation;
mod row;
pub(crate) mod special;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::uuids::application::REGISTRATION;
use latchkey_factory_plus::uuids::class::APPLICATION;
use latchkey_sorted_json::Json;

pub use mutation::Mutation;
pub(crate) use relation::Relation;
pub(crate) use row::{Row, TABLES};

/// What is known of an object; its entry of the application [`REGISTRATION`] is made of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Object {
    /// Its primary class.
    pub class: Uuid,
    /// 0 for individuals, 1 for classes of individuals, and so on.
    pub rank: u8,
    /// The principal who owns it.
    pub owner: Uuid,
    /// A mark: whether somebody declared it gone. It can still be read and written.
    pub deleted: bool,
    /// The revision of the registration.
    pub etag: Uuid,
}

/// What an application knows of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its value.
    pub json: Json,
    /// Its revision: another one after each change of the value.
    pub etag: Uuid,
}

/// All objects, classes and entries.
#[derive(Debug, Clone, Default)]
pub struct Model {
    objects: BTreeMap<Uuid, Object>,
    entries: HashMap<Uuid, BTreeMap<Uuid, Entry>>,
    members: Relation,
    subclasses: Relation,
    entry_count: usize,
    entry_bytes: usize,
}

/// Whether members of subclasses count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Depth {
    /// Those that were made members or subclasses, one by one.
    Direct,
    /// Those of subclasses, of their subclasses, and so on, too.
    Derived,
}

impl Model {
    /// An object, if there is one.
    pub fn object(&self, object: Uuid) -> Option<Object> {
        self.objects.get(&object).copied()
    }

    /// All objects, in order.
    pub fn objects(&self) -> impl ExactSizeIterator<Item = (Uuid, Object)> {
        self.objects.iter().map(|(uuid, object)| (*uuid, *object))
    }

    /// Whether an object is an application: a member of that class.
    pub fn is_application(&self, object: Uuid) -> bool {
        self.is_member(APPLICATION, object)
    }

    /// What an application knows of an object. Registrations are made here.
    pub fn entry(&self, application: Uuid, object: Uuid) -> Option<Entry> {
        if application == REGISTRATION {
            return self.objects.get(&object).map(|found| found.registration(object));
        }
        self.entries.get(&application)?.get(&object).cloned()
    }

    /// An entry's revision alone.
    pub fn etag(&self, application: Uuid, object: Uuid) -> Option<Uuid> {
        if application == REGISTRATION {
            return self.objects.get(&object).map(|found| found.etag);
        }
        Some(self.entries.get(&application)?.get(&object)?.etag)
    }

    /// The objects that an application knows something of, in order.
    pub fn objects_of(&self, application: Uuid) -> Vec<Uuid> {
        if application == REGISTRATION {
            return self.objects.keys().copied().collect();
        }
        self.entries.get(&application).into_iter().flat_map(BTreeMap::keys).copied().collect()
    }

    /// The entries of an application, in order of objects.
    pub fn entries_of(&self, application: Uuid) -> Box<dyn Iterator<Item = (Uuid, Entry)> + '_> {
        if application == REGISTRATION {
            return Box::new(self.objects.iter().map(|(uuid, object)| (*uuid, object.registration(*uuid))));
        }
        let stored = self.entries.get(&application).into_iter().flatten();
        Box::new(stored.map(|(uuid, entry)| (*uuid, entry.clone())))
    }

    /// The applications that have an entry about an object; not [`REGISTRATION`], which has one about each.
    pub fn applications_about(&self, object: Uuid) -> Vec<Uuid> {
        let about = self.entries.iter().filter(|(_, entries)| entries.contains_key(&object));
        let mut found: Vec<Uuid> = about.map(|(application, _)| *application).collect();
        found.sort_unstable();
        found
    }

    /// A class's members.
    pub fn members(&self, class: Uuid, depth: Depth) -> BTreeSet<Uuid> {
        let direct = |class| self.members.below(class).copied();
        match depth {
            Depth::Direct => direct(class).collect(),
            Depth::Derived => self.subclasses.all_below(class).into_iter().chain([class]).flat_map(direct).collect(),
        }
    }

    /// A class's subclasses, itself not among them.
    pub fn subclasses(&self, class: Uuid, depth: Depth) -> BTreeSet<Uuid> {
        match depth {
            Depth::Direct => self.subclasses.below(class).copied().collect(),
            Depth::Derived => self.subclasses.all_below(class),
        }
    }

    /// A class's superclasses, itself not among them.
    pub fn superclasses(&self, class: Uuid, depth: Depth) -> BTreeSet<Uuid> {
        match depth {
            Depth::Direct => self.subclasses.above(class).copied().collect(),
            Depth::Derived => self.subclasses.all_above(class),
        }
    }

    /// The classes that an object was made a member of.
    pub fn classes_of(&self, object: Uuid) -> impl Iterator<Item = Uuid> {
        self.members.above(object).copied()
    }

    /// Whether an object is a member of a class, or of one of its subclasses.
    pub fn is_member(&self, class: Uuid, object: Uuid) -> bool {
        self.members.above(object).any(|direct| *direct == class || self.subclasses.reaches(class, *direct))
    }

    /// Whether an object was made a member of a class.
    pub fn is_direct_member(&self, class: Uuid, object: Uuid) -> bool {
        self.members.contains(class, object)
    }

    /// Whether a class is a subclass of another, over any number of steps.
    pub fn is_subclass(&self, class: Uuid, subclass: Uuid) -> bool {
        self.subclasses.reaches(class, subclass)
    }

    /// Whether a class was made a subclass of another.
    pub fn is_direct_subclass(&self, class: Uuid, subclass: Uuid) -> bool {
        self.subclasses.contains(class, subclass)
    }

    /// Objects that are of a primary class, whether or not they are its direct members, or owned by a principal.
    pub fn depend_on(&self, class_or_owner: Uuid) -> Vec<Uuid> {
        let depends = |object: &Object| object.class == class_or_owner || object.owner == class_or_owner;
        self.objects()
            .filter(|(uuid, object)| *uuid != class_or_owner && depends(object))
            .map(|(uuid, _)| uuid)
            .collect()
    }

    /// How many entries there are, and the bytes of their JSON texts.
    pub const fn size(&self) -> (usize, usize) {
        (self.entry_count, self.entry_bytes)
    }

    /// Makes a change, and gives the one that takes it back.
    pub fn apply(&mut self, mutation: &Mutation) -> Mutation {
        match mutation {
            Mutation::Object(uuid, Some(object)) => Mutation::Object(*uuid, self.objects.insert(*uuid, *object)),
            Mutation::Object(uuid, None) => Mutation::Object(*uuid, self.objects.remove(uuid)),
            Mutation::Member(class, object, present) => {
                Mutation::Member(*class, *object, self.members.set(*class, *object, *present))
            }
            Mutation::Subclass(class, subclass, present) => {
                Mutation::Subclass(*class, *subclass, self.subclasses.set(*class, *subclass, *present))
            }
            Mutation::Entry(application, object, entry) => {
                Mutation::Entry(*application, *object, self.set_entry(*application, *object, entry.clone()))
            }
        }
    }

    fn set_entry(&mut self, application: Uuid, object: Uuid, entry: Option<Entry>) -> Option<Entry> {
        if let Some(entry) = &entry {
            self.entry_bytes += entry.json.text().len();
            self.entry_count += 1;
        }
        let entries = self.entries.entry(application).or_default();
        let before = match entry {
            Some(entry) => entries.insert(object, entry),
            None => entries.remove(&object),
        };
        if entries.is_empty() {
            self.entries.remove(&application);
        }
        if let Some(before) = &before {
            self.entry_bytes -= before.json.text().len();
            self.entry_count -= 1;
        }
        before
    }
}

impl Object {
    /// Its entry of the application [`REGISTRATION`].
    pub fn registration(&self, uuid: Uuid) -> Entry {
        let Self { class, rank, owner, deleted, etag } = self;
        let value = serde_json::json!({
            "uuid": uuid, "class": class, "rank": rank, "owner": owner, "deleted": deleted, "strict": true,
        });
        Entry { json: value.into(), etag: *etag }
    }
}

#[cfg(test)]
mod tests;
