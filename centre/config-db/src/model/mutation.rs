//! The changes that there are.

use latchkey_factory_plus::Uuid;

use super::{Entry, Object};

/// What stands at a place from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mutation {
    /// An object, or none.
    Object(Uuid, Option<Object>),
    /// Whether the second is a direct member of the first.
    Member(Uuid, Uuid, bool),
    /// Whether the second is a direct subclass of the first.
    Subclass(Uuid, Uuid, bool),
    /// The entry of an application about an object, or none.
    Entry(Uuid, Uuid, Option<Entry>),
}
