//! Writes.

use latchkey_factory_plus::Uuid;

use crate::{Dump, Json, Preconditions};

/// What is written: each all or not at all, but for [`Write::Load`].
#[derive(Debug, Clone)]
pub enum Write {
    /// A new object of a class. Its owner is the caller.
    CreateObject {
        /// The primary class.
        class: Uuid,
        /// Its UUID; a random one if there is none.
        uuid: Option<Uuid>,
    },
    /// The end of an object and of all entries about it.
    DeleteObject(Uuid),
    /// Makes the second a direct member of the first, a class.
    AddMember(Uuid, Uuid),
    /// Ends that.
    RemoveMember(Uuid, Uuid),
    /// Makes the second a direct subclass of the first.
    AddSubclass(Uuid, Uuid),
    /// Ends that.
    RemoveSubclass(Uuid, Uuid),
    /// An entry's new value: application, object.
    Put(Uuid, Uuid, Json, Preconditions),
    /// A merge patch (RFC 7396) of an entry. There need not be one yet.
    Patch(Uuid, Uuid, Json, Preconditions),
    /// The end of an entry.
    Delete(Uuid, Uuid, Preconditions),
    /// A dump: its objects at once, then its entries one by one, up to the first that fails.
    Load(Box<Dump>),
}
