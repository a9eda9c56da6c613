//! One change of a resource, and its text in a frame. Bodies are not copied for each watcher until they are written out.

use std::fmt::Write as _;

use latchkey_factory_plus::Uuid;

use crate::{Entry, Json, Model};

use super::Resource;

/// What a read of a resource, or of a child of it, answers now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    /// The child of a search.
    pub(crate) child: Option<Uuid>,
    pub(crate) status: u16,
    pub(crate) etag: Option<Uuid>,
    pub(crate) body: Option<Json>,
}

#[cfg(test)]
thread_local! {
    /// How many readings a test's thread made.
    pub(crate) static READINGS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl Event {
    pub(crate) const fn status(status: u16) -> Self {
        Self { child: None, status, etag: None, body: None }
    }

    pub(crate) fn of_entry(status: u16, entry: &Entry) -> Self {
        Self { child: None, status, etag: Some(entry.etag), body: Some(entry.json.clone()) }
    }

    pub(crate) fn without_body(mut self) -> Self {
        self.body = None;
        self
    }

    /// What a read of a single resource answers.
    pub(crate) fn reading(model: &Model, resource: Resource) -> Self {
        #[cfg(test)]
        READINGS.with(|readings| readings.set(readings.get() + 1));
        let list = |there: bool, objects: &dyn Fn() -> Vec<Uuid>| {
            if there {
                Self { child: None, status: 200, etag: None, body: Some(Json::of(&serde_json::json!(objects()))) }
            } else {
                Self::status(404)
            }
        };
        match resource {
            Resource::Entry(application, object) => {
                model.entry(application, object).map_or(Self::status(404), |entry| Self::of_entry(200, &entry))
            }
            Resource::EntryObjects(application) => {
                list(model.is_application(application), &|| model.objects_of(application))
            }
            Resource::Members(class, depth) => {
                list(model.object(class).is_some(), &|| model.members(class, depth).into_iter().collect())
            }
            Resource::Subclasses(class, depth) => {
                list(model.object(class).is_some(), &|| model.subclasses(class, depth).into_iter().collect())
            }
            Resource::Entries(_) => Self::status(204),
        }
    }

    /// The response as JSON: status, body, etag.
    fn write_response(&self, text: &mut String) {
        // Writing to a string does not fail.
        let _ = write!(text, "{{\"status\":{}", self.status);
        if let Some(body) = &self.body {
            let _ = write!(text, ",\"body\":{body}");
        }
        if let Some(etag) = self.etag {
            let _ = write!(text, ",\"headers\":{{\"etag\":\"{etag}\"}}");
        }
        text.push('}');
    }

    /// A whole frame, of a subscription.
    pub(crate) fn frame(&self, subscription: Uuid, status: u16, children: Option<&[(Uuid, Entry)]>) -> String {
        let mut text = String::with_capacity(256 + self.body.as_ref().map_or(0, |body| body.text().len()));
        let _ = write!(text, "{{\"uuid\":\"{subscription}\",\"status\":{status},\"response\":");
        self.write_response(&mut text);
        if let Some(child) = self.child {
            let _ = write!(text, ",\"child\":\"{child}\"");
        }
        if let Some(children) = children {
            text.push_str(",\"children\":{");
            for (number, (child, entry)) in children.iter().enumerate() {
                let _ = write!(text, "{}\"{child}\":", if number == 0 { "" } else { "," });
                Self::of_entry(200, entry).write_response(&mut text);
            }
            text.push('}');
        }
        text.push('}');
        text
    }
}
