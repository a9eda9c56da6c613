//! What can be watched.

use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::notify::{Method, Request};
use latchkey_factory_plus::uuids::permission::{
    READ_CONFIG, READ_MEMBERS, READ_SUBCLASSES, WRITE_MEMBERS, WRITE_SUBCLASSES,
};
use serde_json::Value;

use crate::Depth;
use crate::access::{Needing, Needs};

/// A resource that somebody may watch: what the index is by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Resource {
    /// Application, object.
    Entry(Uuid, Uuid),
    /// The objects that an application has entries about.
    EntryObjects(Uuid),
    /// All entries of an application.
    Entries(Uuid),
    Members(Uuid, Depth),
    Subclasses(Uuid, Depth),
}

/// What a subscription is about.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    pub(crate) resource: Resource,
    /// Whether bodies are left out.
    pub(crate) head: bool,
    /// What entries must have, as a merge patch that would change nothing.
    pub(crate) filter: Option<Value>,
}

impl Target {
    /// What a request asks to be told of; `None` where that cannot be watched (404), or the request ends a subscription.
    pub fn of(request: Request) -> Option<Self> {
        match request {
            Request::Watch { request: read, .. } => {
                let resource = watched(&read.url)?;
                let head = read.method == Some(Method::Head);
                (!head || matches!(resource, Resource::Entry(..))).then_some(Self { resource, head, filter: None })
            }
            Request::Search { parent, filter, .. } => match watched(&parent)? {
                Resource::EntryObjects(application) => {
                    Some(Self { resource: Resource::Entries(application), head: false, filter })
                }
                _ => None,
            },
            Request::Close { .. } => None,
        }
    }
}

/// The resource of a path, from the service's root; lists end in `/`.
fn watched(path: &str) -> Option<Resource> {
    let parts: Vec<&str> = path.strip_prefix('/').unwrap_or(path).split('/').collect();
    let uuid = |text: &str| text.parse::<Uuid>().ok();
    match parts.as_slice() {
        ["v1" | "v2", "app", application, "object", ""] => Some(Resource::EntryObjects(uuid(application)?)),
        ["v1" | "v2", "app", application, "object", object] => Some(Resource::Entry(uuid(application)?, uuid(object)?)),
        ["v2", "class", class, "member", ""] => Some(Resource::Members(uuid(class)?, Depth::Derived)),
        ["v2", "class", class, "direct", "member", ""] => Some(Resource::Members(uuid(class)?, Depth::Direct)),
        ["v2", "class", class, "subclass", ""] => Some(Resource::Subclasses(uuid(class)?, Depth::Derived)),
        ["v2", "class", class, "direct", "subclass", ""] => Some(Resource::Subclasses(uuid(class)?, Depth::Direct)),
        _ => None,
    }
}

impl Needing for Target {
    /// What the read of the same needs.
    fn needs(&self) -> Needs {
        let need = match self.resource {
            Resource::Entry(application, _) | Resource::EntryObjects(application) | Resource::Entries(application) => {
                (READ_CONFIG, application)
            }
            Resource::Members(class, Depth::Derived) => (READ_MEMBERS, class),
            Resource::Members(class, Depth::Direct) => (WRITE_MEMBERS, class),
            Resource::Subclasses(class, Depth::Derived) => (READ_SUBCLASSES, class),
            Resource::Subclasses(class, Depth::Direct) => (WRITE_SUBCLASSES, class),
        };
        Needs::all([need])
    }
}
