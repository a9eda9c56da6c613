//! What is asked: a method, a path and a body, read as a whole before anything is looked at.

use latchkey_factory_plus::grants::Grant;
use latchkey_factory_plus::{Upn, Uuid};

use super::path::{nothing, segments};
use super::{Answer, body};
use crate::dump::Dump;
use crate::model::Kind;

/// A method of HTTP; HEAD is answered as GET is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Read.
    Get,
    /// Put something there.
    Put,
    /// Make something.
    Post,
    /// Take something away.
    Delete,
}

/// A question.
#[derive(Debug, Clone, PartialEq)]
pub enum Ask {
    /// It changes nothing.
    Read(Read),
    /// It may change something.
    Write(Write),
}

/// What is read.
#[derive(Debug, Clone, PartialEq)]
pub enum Read {
    /// Which principals are called something.
    Principals,
    /// Everything that a principal is called.
    Principal(Uuid),
    /// What a principal is called in one way.
    Identity(Uuid, Kind),
    /// The ways there are.
    Kinds,
    /// All names of one kind.
    Names(Kind),
    /// Who is called so.
    Find(Upn),
    /// Everything that the caller is called.
    WhoAmI,
    /// One of it: the word stands for itself.
    WhoAmIBy(String),
    /// What grants are known by.
    Grants,
    /// A grant.
    Grant(Uuid),
    /// What grants like this are known by.
    FindGrants(Pattern),
    /// The access list of a principal.
    List(Uuid),
    /// The access list of whoever is called so.
    ListOf(Upn),
}

/// What grants are looked for by; what is not said, may be anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pattern {
    /// Who holds it.
    pub principal: Option<Uuid>,
    /// The permission.
    pub permission: Option<Uuid>,
    /// The target.
    pub target: Option<Uuid>,
    /// Whether the members of the target are meant.
    pub plural: Option<bool>,
}

impl Pattern {
    /// Whether a grant is like this.
    pub fn matches(&self, grant: &Grant) -> bool {
        self.principal.is_none_or(|wanted| wanted == grant.principal)
            && self.permission.is_none_or(|wanted| wanted == grant.permission)
            && self.target.is_none_or(|wanted| wanted == grant.target)
            && self.plural.is_none_or(|wanted| wanted == grant.plural)
    }
}

/// What is written.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Call a principal so.
    Name(Uuid, Upn),
    /// Take a principal's name away.
    Unname(Uuid),
    /// Make a grant.
    Grant(Grant),
    /// Put another grant in the place of this one.
    Replace(Uuid, Grant),
    /// End a grant.
    Revoke(Uuid),
    /// Make everything of a dump so.
    Load(Dump),
}

impl Ask {
    /// Reads a request. The path is as it was sent, without the query.
    ///
    /// # Errors
    /// The answer to a request that asks nothing: 404 without a resource, 405 with another method's, 410 where a part of the path
    /// has to be a UUID or a name and is none, 400 and 422 for bodies.
    pub fn read(method: Method, path: &str, body: &[u8]) -> Result<Self, Answer> {
        let segments = segments(path)?;
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        match method {
            Method::Get => read(&segments).map(Self::Read),
            Method::Post => post(&segments, body),
            Method::Put => put(&segments, body).map(Self::Write),
            Method::Delete => delete(&segments).map(Self::Write),
        }
    }
}

/// What can be watched: access lists, and the principals.
///
/// # Errors
/// As [`Ask::read`].
pub fn watched(path: &str) -> Result<Read, Answer> {
    match read(&segments(path)?.iter().map(String::as_str).collect::<Vec<_>>())? {
        watched @ (Read::List(_) | Read::ListOf(_) | Read::Principals) => Ok(watched),
        _ => Err(nothing()),
    }
}

fn read(segments: &[&str]) -> Result<Read, Answer> {
    Ok(match segments {
        ["v2", "principal"] => Read::Principals,
        ["v2", "principal", of] => Read::Principal(uuid(of)?),
        ["v2", "principal", of, word] => Read::Identity(uuid(of)?, kind(word)?),
        ["v2", "identity"] => Read::Kinds,
        ["v2", "identity", word] => Read::Names(kind(word)?),
        ["v2", "identity", word, of] => {
            kind(word)?;
            Read::Find(name(of)?)
        }
        ["v2", "whoami"] => Read::WhoAmI,
        ["v2", "whoami", word] => Read::WhoAmIBy((*word).into()),
        ["v2", "grant"] => Read::Grants,
        ["v2", "grant", "find"] | ["load"] => return Err(other_method("POST")),
        ["v2", "grant", of] => Read::Grant(uuid(of)?),
        ["v2", "acl", of] => Read::List(uuid(of)?),
        ["v2", "acl", word, of] => {
            kind(word)?;
            Read::ListOf(name(of)?)
        }
        _ => return Err(nothing()),
    })
}

fn post(segments: &[&str], sent: &[u8]) -> Result<Ask, Answer> {
    Ok(match segments {
        ["v2", "grant"] => Ask::Write(Write::Grant(body::grant(sent, None)?)),
        ["v2", "grant", "find"] => Ask::Read(Read::FindGrants(body::pattern(sent)?)),
        ["load"] => Ask::Write(Write::Load(body::json(sent)?)),
        _ => return Err(read(segments).map_or_else(|nothing| nothing, |_| other_method("GET"))),
    })
}

fn put(segments: &[&str], sent: &[u8]) -> Result<Write, Answer> {
    match segments {
        ["v2", "principal", of, word] => {
            let of = uuid(of)?;
            kind(word)?;
            Ok(Write::Name(of, body::json(sent)?))
        }
        ["v2", "grant", of] if *of != "find" => {
            let of = uuid(of)?;
            Ok(Write::Replace(of, body::grant(sent, Some(of))?))
        }
        _ => Err(read(segments).map_or_else(|nothing| nothing, |_| other_method("GET"))),
    }
}

fn delete(segments: &[&str]) -> Result<Write, Answer> {
    match segments {
        ["v2", "principal", of, word] => {
            let of = uuid(of)?;
            kind(word)?;
            Ok(Write::Unname(of))
        }
        ["v2", "grant", of] if *of != "find" => Ok(Write::Revoke(uuid(of)?)),
        _ => Err(read(segments).map_or_else(|nothing| nothing, |_| other_method("GET"))),
    }
}

fn uuid(text: &str) -> Result<Uuid, Answer> {
    text.parse().map_err(|error| Answer::refused(410, error))
}

fn name(text: &str) -> Result<Upn, Answer> {
    text.parse().map_err(|error| Answer::refused(410, error))
}

fn kind(word: &str) -> Result<Kind, Answer> {
    word.parse().map_err(|error| Answer::refused(404, error))
}

fn other_method(method: &str) -> Answer {
    Answer::refused(405, format_args!("this path takes another method, such as {method}"))
}
