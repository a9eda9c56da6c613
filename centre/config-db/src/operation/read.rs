//! Reads.

use latchkey_factory_plus::Uuid;

use crate::{Depth, Preconditions, Query};

/// What is read, from memory.
#[derive(Debug, Clone, PartialEq)]
pub enum Read {
    /// All objects.
    Objects,
    /// The class of all objects of rank 0, of rank 1, and so on.
    Ranks,
    /// A class: its members and subclasses.
    Class(Uuid),
    /// A class's members.
    Members(Uuid, Depth),
    /// A class's subclasses.
    Subclasses(Uuid, Depth),
    /// Whether the second is a member of the first.
    IsMember(Uuid, Depth, Uuid),
    /// Whether the second is a subclass of the first.
    IsSubclass(Uuid, Depth, Uuid),
    /// The objects that an application has entries about.
    EntryObjects(Uuid),
    /// Those of them that are members of the second, a class.
    EntryObjectsOfClass(Uuid, Uuid),
    /// The entry of an application, the first, about an object.
    Entry(Uuid, Uuid, Preconditions),
    /// Entries of an application that meet conditions; of members of a class only, if one is named.
    Search(Uuid, Option<Uuid>, Query),
}
