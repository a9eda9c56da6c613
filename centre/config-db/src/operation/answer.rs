//! What comes back.

use latchkey_factory_plus::Uuid;
use serde_json::{Value, json};

use crate::{Entry, Json};

/// What a read gives.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Objects or classes.
    List(Vec<Uuid>),
    /// A class.
    Class {
        /// Its members, derived ones too.
        members: Vec<Uuid>,
        /// Its subclasses, derived ones too.
        subclasses: Vec<Uuid>,
    },
    /// It is so; there is nothing more to say.
    Present,
    /// An entry.
    Entry(Entry),
    /// The entry that the caller knows already.
    NotModified(Uuid),
    /// Found entries: a list of objects, or a map from objects to what was asked for of them.
    Found(Value),
}

impl Answer {
    /// The status of HTTP.
    pub const fn status(&self) -> u16 {
        match self {
            Self::Present => 204,
            Self::NotModified(_) => 304,
            _ => 200,
        }
    }

    /// The body, as JSON.
    pub fn body(&self) -> Option<Json> {
        match self {
            Self::List(uuids) => Some(Json::of(&json!(uuids))),
            Self::Class { members, subclasses } => {
                Some(Json::of(&json!({"members": members, "subclasses": subclasses})))
            }
            Self::Entry(entry) => Some(entry.json.clone()),
            Self::Found(value) => Some(Json::of(value)),
            Self::Present | Self::NotModified(_) => None,
        }
    }

    /// The revision that the answer is of; a header has it in quotes.
    pub const fn etag(&self) -> Option<Uuid> {
        match self {
            Self::Entry(Entry { etag, .. }) | Self::NotModified(etag) => Some(*etag),
            _ => None,
        }
    }
}

/// What a write did. It is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// An object was created; its registration.
    ObjectCreated(Entry),
    /// The object was there; it is not marked as deleted (any more). Its registration.
    ObjectExisted(Entry),
    /// An entry was created.
    Created,
    /// It was done, or it was so already.
    Done,
    /// A dump was loaded.
    Loaded,
}

impl Outcome {
    /// The status of HTTP.
    pub const fn status(&self) -> u16 {
        match self {
            Self::ObjectCreated(_) | Self::Created => 201,
            // The npm client takes nothing but 200 for loaded, the original's set-up anything of success.
            Self::ObjectExisted(_) | Self::Loaded => 200,
            Self::Done => 204,
        }
    }

    /// The body, as JSON.
    pub const fn body(&self) -> Option<&Json> {
        match self {
            Self::ObjectCreated(entry) | Self::ObjectExisted(entry) => Some(&entry.json),
            Self::Created | Self::Done | Self::Loaded => None,
        }
    }
}
