//! Frames of change notification, version 2: JSON texts on a WebSocket at `/notify/v2`.
//!
//! The first frame of a client is `Bearer TOKEN`; the server answers with three characters, a status of HTTP. Then requests
//! go one way and updates the other. A subscription is known by the UUID that the client gave it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Uuid;

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "method", rename_all = "UPPERCASE", deny_unknown_fields)]
pub enum Request {
    /// Tell what GET answers at a URL, now and after each change.
    Watch {
        /// The subscription.
        uuid: Uuid,
        /// What to read.
        request: Read,
    },
    /// The same of everything directly below a path.
    Search {
        /// The subscription.
        uuid: Uuid,
        /// The path; it ends in `/`.
        parent: String,
        /// What a child's body must have, as a merge patch that would change nothing (RFC 7396); all children without one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        filter: Option<Value>,
    },
    /// End a subscription.
    Close {
        /// The subscription.
        uuid: Uuid,
    },
}

impl Request {
    /// The subscription.
    pub const fn uuid(&self) -> Uuid {
        match self {
            Self::Watch { uuid, .. } | Self::Search { uuid, .. } | Self::Close { uuid } => *uuid,
        }
    }
}

/// What a client wants read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Read {
    /// The path, from the service's root.
    pub url: String,
    /// GET where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<Method>,
}

/// How a resource is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// With its body.
    Get,
    /// Whether there is one, and its etag.
    Head,
}

/// What a server says of a subscription.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Update {
    /// The subscription.
    pub uuid: Uuid,
    /// 201 first, 200 later; 400, 403, 404, 410 (closed, as asked), 500, 503 end it.
    pub status: u16,
    /// What a read of the resource, or of the parent of a search, or of `child` answers now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Response>,
    /// The child that changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<String>,
    /// All children, at first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub children: Option<BTreeMap<String, Response>>,
}

/// What a read answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// The status that GET would have; 412 where a child no longer has what the filter wants.
    pub status: u16,
    /// The body; none where GET has none. JSON's null is a body.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// Headers, by lower-case name: `etag`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub headers: Map<String, Value>,
}

/// Reads a field that is there as a value, so that null is one.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl Update {
    /// Whether this is the subscription's last.
    pub const fn is_last(&self) -> bool {
        self.status >= 400
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn frames_are_those_of_the_contract() {
        let uuid = Uuid::constant("f24d354d-abc1-4e32-98e1-0667b3e40b61");
        let read = |frame: Value| serde_json::from_value::<Request>(frame);
        let watch = Request::Watch { uuid, request: Read { url: "v2/app/x".into(), method: None } };
        assert_eq!(read(json!({"uuid": uuid, "method": "WATCH", "request": {"url": "v2/app/x"}})).unwrap(), watch);
        assert_eq!(serde_json::to_value(&watch).unwrap()["method"], "WATCH");
        let search = json!({"uuid": uuid, "method": "SEARCH", "parent": "v2/app/x/object/", "filter": {"a": null}});
        assert!(matches!(read(search).unwrap(), Request::Search { filter: Some(_), .. }));
        assert_eq!(read(json!({"uuid": uuid, "method": "CLOSE"})).unwrap(), Request::Close { uuid });
        assert!(read(json!({"uuid": uuid, "method": "STEAL"})).is_err());
        assert!(read(json!({"uuid": uuid, "method": "WATCH", "request": {"url": "x", "method": "PUT"}})).is_err());
    }

    #[test]
    fn null_is_a_body() {
        let response: Response = serde_json::from_value(json!({"status": 200, "body": null})).unwrap();
        assert_eq!(response.body, Some(Value::Null));
        assert_eq!(serde_json::to_value(&response).unwrap(), json!({"status": 200, "body": null}));
        let none: Response = serde_json::from_value(json!({"status": 404})).unwrap();
        assert_eq!(none.body, None);
    }
}
