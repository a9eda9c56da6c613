//! Reads, as they were permitted.

use latchkey_factory_plus::Uuid;
use serde_json::{Map, Value, json};

use crate::access::Permitted;
use crate::model::special::RANKS;
use crate::operation::{Answer, Preconditions, Read, Refusal};
use crate::{Depth, Model, Query};

pub(super) fn read(model: &Model, permitted: &Permitted<'_, Read>) -> Result<Answer, Refusal> {
    match permitted.operation() {
        Read::Objects => Ok(Answer::List(model.objects().map(|(uuid, _)| uuid).collect())),
        Read::Ranks => Ok(Answer::List(RANKS.to_vec())),
        Read::Class(class) => {
            known(model, "class", *class)?;
            let members = model.members(*class, Depth::Derived).into_iter().collect();
            Ok(Answer::Class { members, subclasses: model.subclasses(*class, Depth::Derived).into_iter().collect() })
        }
        Read::Members(class, depth) => {
            known(model, "class", *class)?;
            Ok(Answer::List(model.members(*class, *depth).into_iter().collect()))
        }
        Read::Subclasses(class, depth) => {
            known(model, "class", *class)?;
            Ok(Answer::List(model.subclasses(*class, *depth).into_iter().collect()))
        }
        Read::IsMember(class, Depth::Direct, object) => {
            present(model.is_direct_member(*class, *object), "such member", *object)
        }
        Read::IsMember(class, Depth::Derived, object) => {
            present(model.is_member(*class, *object), "such member", *object)
        }
        Read::IsSubclass(class, Depth::Direct, object) => {
            present(model.is_direct_subclass(*class, *object), "such subclass", *object)
        }
        Read::IsSubclass(class, Depth::Derived, object) => {
            present(model.is_subclass(*class, *object), "such subclass", *object)
        }
        Read::EntryObjects(application) => {
            is_application(model, *application)?;
            Ok(Answer::List(model.objects_of(*application)))
        }
        Read::EntryObjectsOfClass(application, class) => {
            is_application(model, *application)?;
            known(model, "class", *class)?;
            let members = model.members(*class, Depth::Derived);
            let objects = model.objects_of(*application).into_iter();
            Ok(Answer::List(objects.filter(|object| members.contains(object)).collect()))
        }
        Read::Entry(application, object, preconditions) => entry(model, *application, *object, preconditions),
        Read::Search(application, class, query) => Ok(Answer::Found(search(model, *application, *class, query))),
    }
}

/// `If-Match` that fails is 412 (RFC 9110, section 13.1.1; the original says 304); `If-None-Match` that fails is 304.
fn entry(model: &Model, application: Uuid, object: Uuid, preconditions: &Preconditions) -> Result<Answer, Refusal> {
    is_application(model, application)?;
    let etag = model.etag(application, object);
    if !preconditions.match_holds(etag) {
        return Err(Refusal::Precondition);
    }
    match (etag, model.entry(application, object)) {
        (Some(etag), _) if !preconditions.none_match_holds(Some(etag)) => Ok(Answer::NotModified(etag)),
        (_, Some(entry)) => Ok(Answer::Entry(entry)),
        (_, None) => Err(Refusal::Missing { what: "entry about", uuid: object }),
    }
}

/// Unknown applications and classes have no entries, as the contract says of this search alone.
fn search(model: &Model, application: Uuid, class: Option<Uuid>, query: &Query) -> Value {
    let members = class.map(|class| model.members(class, Depth::Derived));
    let entries =
        model.entries_of(application).filter(|(object, _)| members.as_ref().is_none_or(|of| of.contains(object)));
    let found = entries.map(|(object, entry)| (object, entry.json.value())).filter(|(_, value)| query.matches(value));
    if query.projects() {
        let projected = found.map(|(object, value)| (object.to_string(), Value::Object(query.project_value(&value))));
        Value::Object(projected.collect::<Map<_, _>>())
    } else {
        json!(found.map(|(object, _)| object).collect::<Vec<Uuid>>())
    }
}

fn is_application(model: &Model, uuid: Uuid) -> Result<(), Refusal> {
    if model.is_application(uuid) { Ok(()) } else { Err(Refusal::Missing { what: "application", uuid }) }
}

fn known(model: &Model, what: &'static str, uuid: Uuid) -> Result<(), Refusal> {
    model.object(uuid).map(drop).ok_or(Refusal::Missing { what, uuid })
}

fn present(is: bool, what: &'static str, uuid: Uuid) -> Result<Answer, Refusal> {
    if is { Ok(Answer::Present) } else { Err(Refusal::Missing { what, uuid }) }
}
