//! What is asked over HTTP, and what is answered. Version 1 of the interface.

pub use latchkey_centre_service::{Answer, Body};
use latchkey_factory_plus::grants::{Access, allows};
use latchkey_factory_plus::{Uuid, uuids};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::address::{Address, Domain, Outside};
use crate::advertised::{Advertised, Conflict, Services};
use crate::dump::Dump;

/// A method of HTTP; HEAD is answered as GET is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Read.
    Get,
    /// Put something there.
    Put,
    /// Make something.
    Post,
}

/// A question.
#[derive(Debug, Clone, PartialEq)]
pub enum Ask {
    /// Where a service is.
    Service(Uuid),
    /// The services that are somewhere.
    Services,
    /// The advertisement of a service.
    Advertisement(Uuid),
    /// Where a device is in Sparkplug.
    Device(Uuid),
    /// Advertise a service; clients did so themselves once.
    Advertise(Uuid, Advertised),
    /// Advertise all of a dump.
    Load(Dump),
}

/// An advertisement as clients send it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    url: Address,
    #[serde(default)]
    device: Option<Uuid>,
}

impl Ask {
    /// Reads a request. The path is as it was sent, without the query: nothing in it needs an escape.
    ///
    /// # Errors
    /// The answer to a request that asks nothing: 404 without a resource, 405 with another method's, 410 where a part of the path
    /// has to be a UUID and is none, 400 and 422 for bodies.
    pub fn read(method: Method, path: &str, body: &[u8]) -> Result<Self, Answer> {
        let path = path.strip_prefix('/').unwrap_or(path);
        let path = path.strip_suffix('/').unwrap_or(path);
        let segments: Vec<&str> = path.splitn(6, '/').collect();
        let other_method = |method: &str| Answer::refused(405, format_args!("this path takes {method}"));
        match (method, &segments[..]) {
            (Method::Get, ["v1", "service"]) => Ok(Self::Services),
            (Method::Get, ["v1", "service", of]) => Ok(Self::Service(uuid(of)?)),
            (Method::Get, ["v1", "device", of]) => Ok(Self::Device(uuid(of)?)),
            // The original misspells the word, and so does its client.
            (Method::Get, ["v1", "service", of, "advertisment" | "advertisement"]) => {
                Ok(Self::Advertisement(uuid(of)?))
            }
            (Method::Put, ["v1", "service", of, "advertisment" | "advertisement"]) => {
                let of = uuid(of)?;
                let Sent { url, device } = json_body(body)?;
                Ok(Self::Advertise(of, Advertised { url, device: device.unwrap_or(uuids::special::WILDCARD) }))
            }
            (Method::Post, ["load"] | ["v1", "load"]) => Ok(Self::Load(json_body(body)?)),
            (_, ["v1", "service"] | ["v1", "service" | "device", _]) => Err(other_method("GET")),
            (_, ["v1", "service", _, "advertisment" | "advertisement"]) => Err(other_method("GET and PUT")),
            (_, ["load"] | ["v1", "load"]) => Err(other_method("POST")),
            _ => Err(Answer::refused(404, "there is nothing here; the interface begins at /v1/service")),
        }
    }

    /// Whether the caller's access list matters for it.
    pub fn is_write(&self) -> bool {
        matches!(self, Self::Advertise(..) | Self::Load(_))
    }
}

fn uuid(text: &str) -> Result<Uuid, Answer> {
    text.parse().map_err(|error| Answer::refused(410, error))
}

fn json_body<T: DeserializeOwned>(body: &[u8]) -> Result<T, Answer> {
    serde_json::from_slice(body).map_err(|error| {
        let status = if error.is_data() { 422 } else { 400 };
        Answer::refused(status, format_args!("the body is not what is wanted here: {error}"))
    })
}

/// Answers a read. `outside` says how the client got here, where a proxy that is trusted said so; `inside` is the site's domain.
pub fn answer(services: &Services, ask: &Ask, outside: Option<&Outside>, inside: Option<&Domain>) -> Answer {
    let seen = |advertised: &Advertised| {
        let url = match (outside, inside) {
            (Some(outside), Some(inside)) => advertised.url.seen_from(outside, inside),
            _ => advertised.url.clone(),
        };
        json!({"device": advertised.device, "url": url})
    };
    match ask {
        Ask::Services => Answer::json(&services.all().map(|service| json!(service)).collect::<Vec<_>>()),
        Ask::Service(service) => Answer::json(&services.find(*service).map(seen).into_iter().collect::<Vec<_>>()),
        Ask::Advertisement(service) => match services.find(*service) {
            Some(advertised) => Answer::json(&seen(advertised)),
            None => Answer::refused(404, "this service is advertised nowhere"),
        },
        Ask::Device(_) => Answer::refused(404, "this directory knows no devices"),
        Ask::Advertise(..) | Ask::Load(_) => Answer::refused(500, "a write was asked as a read"),
    }
}

/// What a write advertises, once that is durable, and what its caller is told then.
#[derive(Debug, Clone, PartialEq)]
pub struct Decided {
    /// What is advertised from then on.
    pub new: Vec<(Uuid, Advertised)>,
    /// The answer.
    pub answer: Answer,
}

/// A witness: the caller may advertise this.
#[derive(Debug)]
pub struct MayAdvertise {
    wanted: Vec<(Uuid, Advertised)>,
    status: u16,
}

impl MayAdvertise {
    /// Whether a caller with this access list, or the root principal, may do the write.
    ///
    /// # Errors
    /// An answer: 403, or 422 for a dump that cannot be loaded.
    pub fn check(ask: Ask, list: &[Access], is_root: bool) -> Result<Self, Answer> {
        let may = |service| is_root || allows(list, uuids::permission::ADVERTISE_SERVICE, service);
        let needs = |service| {
            Answer::refused(403, format_args!("this needs the permission to advertise services, for {service}"))
        };
        match ask {
            Ask::Advertise(service, advertised) if may(service) => {
                Ok(Self { wanted: vec![(service, advertised)], status: 204 })
            }
            Ask::Advertise(service, _) => Err(needs(service)),
            Ask::Load(dump) if may(uuids::special::WILDCARD) => {
                let wanted = dump.advertised().map_err(|why| Answer::refused(422, why))?;
                // The npm client takes nothing but 200 for loaded, the original's set-up anything of success.
                Ok(Self { wanted, status: 200 })
            }
            Ask::Load(_) => Err(needs(uuids::special::WILDCARD)),
            _ => Err(Answer::refused(500, "a read was asked as a write")),
        }
    }

    /// What that changes.
    pub fn decide(self, services: &Services) -> Decided {
        match services.check(self.wanted) {
            Ok(new) => Decided { new, answer: Answer::empty(self.status) },
            Err(why @ (Conflict::Configured { .. } | Conflict::TooMany)) => {
                Decided { new: Vec::new(), answer: Answer::refused(409, why) }
            }
        }
    }
}
