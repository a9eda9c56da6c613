//! What each operation needs, as data. Nothing else decides on permissions, but for what only a registration's content shows
//! (`execute::registration`).

use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::uuids::application::{CONFIG_SCHEMA, REGISTRATION, WRITE_SCOPE};
use latchkey_factory_plus::uuids::permission::{
    CREATE_OBJECT, CREATE_SPECIFIC_OBJECT, DELETE_OBJECT, LIST_OBJECTS, READ_CONFIG, READ_MEMBERS, READ_SUBCLASSES,
    TAKE_FROM, WRITE_CONFIG, WRITE_MEMBERS, WRITE_MEMBERSHIPS, WRITE_SUBCLASSES, WRITE_SUPERCLASSES,
};
use latchkey_factory_plus::uuids::special::WILDCARD;

use super::{Read, Write};
use crate::Depth;
use crate::access::{Need, Needing, Needs};

impl Needing for Read {
    fn needs(&self) -> Needs {
        match self {
            Self::Objects | Self::Ranks => Needs::all([(LIST_OBJECTS, WILDCARD)]),
            Self::Class(class) => Needs::all([(READ_MEMBERS, *class), (READ_SUBCLASSES, *class)]),
            Self::Members(class, depth) | Self::IsMember(class, depth, _) => Needs::all([(members(*depth), *class)]),
            Self::Subclasses(class, depth) | Self::IsSubclass(class, depth, _) => {
                Needs::all([(subclasses(*depth), *class)])
            }
            Self::EntryObjects(application)
            | Self::EntryObjectsOfClass(application, _)
            | Self::Entry(application, ..)
            | Self::Search(application, ..) => Needs::all([(READ_CONFIG, *application)]),
        }
    }
}

impl Needing for Write {
    fn needs(&self) -> Needs {
        match self {
            Self::CreateObject { class, uuid: None } => Needs::all([(CREATE_OBJECT, *class)]),
            Self::CreateObject { class, uuid: Some(_) } => Needs::all([(CREATE_SPECIFIC_OBJECT, *class)]),
            Self::DeleteObject(object) => Needs::all([(DELETE_OBJECT, *object)]),
            Self::AddMember(class, object) | Self::RemoveMember(class, object) => {
                let needs = Needs::all([(WRITE_MEMBERS, *class), (WRITE_MEMBERSHIPS, *object)]);
                Needs { or_unchanged: Some(Need { permission: READ_MEMBERS, target: *class }), ..needs }
            }
            Self::AddSubclass(class, subclass) | Self::RemoveSubclass(class, subclass) => {
                Needs::all([(WRITE_SUBCLASSES, *class), (WRITE_SUPERCLASSES, *subclass)])
            }
            Self::Put(application, object, ..) | Self::Delete(application, object, _) => {
                writing(*application, *object, Needs::all([(WRITE_CONFIG, *application)]))
            }
            Self::Patch(application, object, ..) => {
                let needs = Needs::all([(READ_CONFIG, *application), (WRITE_CONFIG, *application)]);
                writing(*application, *object, needs)
            }
            Self::Load(_) => Needs::all(LOAD.map(|permission| (permission, WILDCARD))),
        }
    }
}

/// What loading a dump needs, each for everything.
const LOAD: [Uuid; 7] = [
    CREATE_SPECIFIC_OBJECT,
    WRITE_MEMBERS,
    WRITE_MEMBERSHIPS,
    WRITE_SUBCLASSES,
    WRITE_SUPERCLASSES,
    TAKE_FROM,
    WRITE_CONFIG,
];

/// Applications whose entries say what others may do; no scope of single objects opens them.
const WITHOUT_SCOPE: [Uuid; 3] = [REGISTRATION, CONFIG_SCHEMA, WRITE_SCOPE];

fn writing(application: Uuid, object: Uuid, needs: Needs) -> Needs {
    let scope = (!WITHOUT_SCOPE.contains(&application)).then_some((application, object));
    let unchanged = Need { permission: READ_CONFIG, target: application };
    Needs { or_scope: scope, or_unchanged: Some(unchanged), ..needs }
}

/// Direct members are the business of whoever writes them.
const fn members(depth: Depth) -> Uuid {
    match depth {
        Depth::Derived => READ_MEMBERS,
        Depth::Direct => WRITE_MEMBERS,
    }
}

const fn subclasses(depth: Depth) -> Uuid {
    match depth {
        Depth::Derived => READ_SUBCLASSES,
        Depth::Direct => WRITE_SUBCLASSES,
    }
}
