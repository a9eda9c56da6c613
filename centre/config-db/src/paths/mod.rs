//! Paths of HTTP, of version 2 and of version 1, and what they mean; no HTTP here.

use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::uuids::application::CONFIG_SCHEMA;
use latchkey_factory_plus::uuids::class::{APPLICATION, RANK_1};

use crate::operation::{Preconditions, Read, Write};
use crate::{Depth, Dump, Json, Query};

/// What a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// `/ping`.
    Ping,
    /// `/token`.
    Token,
    /// `/load`.
    Load,
    /// `/notify/v2`: a WebSocket.
    Notify,
    /// All objects: a list, and where new ones are posted.
    Objects,
    /// The classes of ranks.
    Ranks,
    /// An object.
    Object(Uuid),
    /// A class.
    Class(Uuid),
    /// Its members.
    Members(Uuid, Depth),
    /// Its subclasses.
    Subclasses(Uuid, Depth),
    /// One member.
    Member(Uuid, Depth, Uuid),
    /// One subclass.
    Subclass(Uuid, Depth, Uuid),
    /// The objects that an application has entries about.
    EntryObjects(Uuid),
    /// Those of them in a class.
    EntryObjectsOfClass(Uuid, Uuid),
    /// An entry.
    Entry(Uuid, Uuid),
    /// A search of an application's entries, in a class if there is one.
    Search(Uuid, Option<Uuid>),
}

/// Why a path names nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// 404.
    #[error("there is nothing at this path")]
    Unknown,
    /// 410: something that should be a UUID is none.
    #[error("a part of this path should be a UUID, 36 characters in lower case, and is not")]
    NoUuid,
    /// 403: what version 1 once had.
    #[error("this part of version 1 is gone; use version 2")]
    Withdrawn,
}

impl PathError {
    /// The status of HTTP.
    pub const fn status(self) -> u16 {
        match self {
            Self::Unknown => 404,
            Self::NoUuid => 410,
            Self::Withdrawn => 403,
        }
    }
}

/// What a method does at a resource.
#[derive(Debug, Clone)]
pub enum Action {
    /// From memory.
    Read(Read),
    /// Durably.
    Write(Write),
}

impl Resource {
    /// Reads a path, without its query, as it stands in the request: parts of it that are encoded are no UUIDs.
    pub fn parse(path: &str) -> Result<Self, PathError> {
        let path = path.strip_prefix('/').ok_or(PathError::Unknown)?;
        let parts: Vec<&str> = path.split('/').collect();
        match parts.as_slice() {
            ["ping"] => Ok(Self::Ping),
            ["token"] => Ok(Self::Token),
            ["load"] => Ok(Self::Load),
            ["notify", "v2"] => Ok(Self::Notify),
            ["v2", rest @ ..] => version_2(rest),
            ["v1", rest @ ..] => version_1(rest),
            _ => Err(PathError::Unknown),
        }
    }

    /// What GET (and HEAD) reads here; `None` where there is nothing to read from the database.
    pub fn read(self, preconditions: Preconditions, query: Query) -> Option<Read> {
        Some(match self {
            Self::Objects => Read::Objects,
            Self::Ranks => Read::Ranks,
            Self::Class(class) => Read::Class(class),
            Self::Members(class, depth) => Read::Members(class, depth),
            Self::Subclasses(class, depth) => Read::Subclasses(class, depth),
            Self::Member(class, depth, object) => Read::IsMember(class, depth, object),
            Self::Subclass(class, depth, object) => Read::IsSubclass(class, depth, object),
            Self::EntryObjects(application) => Read::EntryObjects(application),
            Self::EntryObjectsOfClass(application, class) => Read::EntryObjectsOfClass(application, class),
            Self::Entry(application, object) => Read::Entry(application, object, preconditions),
            Self::Search(application, class) => Read::Search(application, class, query),
            Self::Ping | Self::Token | Self::Load | Self::Notify | Self::Object(_) => return None,
        })
    }

    /// What PUT writes here; `None` where nothing can be put. Only an entry has a body.
    pub fn put(self, body: Option<Json>, preconditions: Preconditions) -> Option<Write> {
        match self {
            Self::Member(class, Depth::Direct, object) => Some(Write::AddMember(class, object)),
            Self::Subclass(class, Depth::Direct, object) => Some(Write::AddSubclass(class, object)),
            Self::Entry(application, object) => Some(Write::Put(application, object, body?, preconditions)),
            _ => None,
        }
    }

    /// What PATCH writes here.
    pub fn patch(self, body: Json, preconditions: Preconditions) -> Option<Write> {
        match self {
            Self::Entry(application, object) => Some(Write::Patch(application, object, body, preconditions)),
            _ => None,
        }
    }

    /// What DELETE writes here.
    pub fn delete(self, preconditions: Preconditions) -> Option<Write> {
        match self {
            Self::Object(object) => Some(Write::DeleteObject(object)),
            Self::Member(class, Depth::Direct, object) => Some(Write::RemoveMember(class, object)),
            Self::Subclass(class, Depth::Direct, object) => Some(Write::RemoveSubclass(class, object)),
            Self::Entry(application, object) => Some(Write::Delete(application, object, preconditions)),
            _ => None,
        }
    }

    /// What the post of a body writes here, whose errors are texts for people (422).
    pub fn post(self, body: &[u8]) -> Option<Result<Write, String>> {
        match self {
            Self::Objects => Some(new_object(body)),
            Self::Load => {
                let dump = Dump::parse(body).map_err(|error| error.to_string());
                Some(dump.map(|dump| Write::Load(Box::new(dump))))
            }
            _ => None,
        }
    }
}

/// The body of a new object. An owner is read and not used: the owner is the caller, as in the original.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct NewObject {
    class: Uuid,
    #[serde(default)]
    uuid: Option<Uuid>,
    #[serde(default, rename = "owner")]
    _owner: Option<Uuid>,
}

fn new_object(body: &[u8]) -> Result<Write, String> {
    let NewObject { class, uuid, .. } = serde_json::from_slice(body).map_err(|error| {
        format!("a new object is {{\"class\": UUID}}, and \"uuid\" and \"owner\" if you like: {error}")
    })?;
    Ok(Write::CreateObject { class, uuid })
}

fn version_2(parts: &[&str]) -> Result<Resource, PathError> {
    Ok(match parts {
        ["object"] => Resource::Objects,
        ["object", "rank"] => Resource::Ranks,
        ["object", object] => Resource::Object(uuid(object)?),
        ["class"] => Resource::Members(RANK_1, Depth::Derived),
        ["app"] => Resource::Members(APPLICATION, Depth::Derived),
        ["class", class] => Resource::Class(uuid(class)?),
        ["class", class, "member"] => Resource::Members(uuid(class)?, Depth::Derived),
        ["class", class, "subclass"] => Resource::Subclasses(uuid(class)?, Depth::Derived),
        ["class", class, "direct", "member"] => Resource::Members(uuid(class)?, Depth::Direct),
        ["class", class, "direct", "subclass"] => Resource::Subclasses(uuid(class)?, Depth::Direct),
        ["class", class, "member", object] => Resource::Member(uuid(class)?, Depth::Derived, uuid(object)?),
        ["class", class, "subclass", object] => Resource::Subclass(uuid(class)?, Depth::Derived, uuid(object)?),
        ["class", class, "direct", "member", object] => Resource::Member(uuid(class)?, Depth::Direct, uuid(object)?),
        ["class", class, "direct", "subclass", object] => {
            Resource::Subclass(uuid(class)?, Depth::Direct, uuid(object)?)
        }
        ["app", application, "object"] => Resource::EntryObjects(uuid(application)?),
        ["app", application, "object", object] => Resource::Entry(uuid(application)?, uuid(object)?),
        ["app", application, "class", class] => Resource::EntryObjectsOfClass(uuid(application)?, uuid(class)?),
        // Of version 1, wanted of version 2 (upstream #644), where it is exact, too.
        ["app", application, "search"] => Resource::Search(uuid(application)?, None),
        ["app", application, "class", class, "search"] => Resource::Search(uuid(application)?, Some(uuid(class)?)),
        _ => return Err(PathError::Unknown),
    })
}

/// Version 1: other names of what version 2 has.
fn version_1(parts: &[&str]) -> Result<Resource, PathError> {
    match parts {
        ["save"] | ["app", _] => Err(PathError::Withdrawn),
        ["app", application, "device" | "schema" | "app", object] => {
            Ok(Resource::Entry(uuid(application)?, uuid(object)?))
        }
        ["app", application, "config-schema"] => Ok(Resource::Entry(CONFIG_SCHEMA, uuid(application)?)),
        ["app", application, "config"] => Ok(Resource::EntryObjects(uuid(application)?)),
        ["app" | "class" | "object"]
        | ["class" | "object", _]
        | ["app", _, "object" | "search"]
        | ["app", _, "object", _]
        | ["app", _, "class", _, "search"] => match version_2(parts)? {
            // A class of version 1 is the list of its members.
            Resource::Class(class) => Ok(Resource::Members(class, Depth::Derived)),
            other => Ok(other),
        },
        _ => Err(PathError::Unknown),
    }
}

fn uuid(text: &str) -> Result<Uuid, PathError> {
    text.parse().map_err(|_| PathError::NoUuid)
}

#[cfg(test)]
mod tests;
