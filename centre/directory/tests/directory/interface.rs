//! Statuses and bodies, as the contract has them.

use latchkey_directory::address::{Domain, Outside};
use latchkey_directory::advertised::{Advertised, Services};
use latchkey_directory::api::{Ask, Body, MayAdvertise, Method, answer};
use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::grants::Access;
use latchkey_factory_plus::uuids::{permission, service, special};
use proptest::prelude::*;
use serde_json::{Value, json};

const AUTH: &str = "http://auth.internal.example";

struct Site {
    services: Services,
    outside: Option<Outside>,
}

impl Site {
    /// Auth is configured, and the broker was told of.
    fn new() -> Self {
        let auth = Advertised { url: AUTH.parse().unwrap(), device: special::WILDCARD };
        let mut services = Services::new([(service::AUTH, auth)]);
        let mqtt = Advertised { url: "mqtt://mqtt.internal.example".parse().unwrap(), device: service::GIT };
        services.tell(service::MQTT, mqtt);
        Self { services, outside: None }
    }

    fn ask(&mut self, method: Method, path: &str, body: &Value, list: &[Access]) -> (u16, Value) {
        let ask = match Ask::read(method, path, body.to_string().as_bytes()) {
            Ok(ask) => ask,
            Err(refused) => return (refused.status, Value::Null),
        };
        let inside = Domain::try_from("internal.example".to_owned()).unwrap();
        let answer = if ask.is_write() {
            match MayAdvertise::check(ask, list, false) {
                Ok(may) => {
                    let decided = may.decide(&self.services);
                    decided.new.into_iter().for_each(|(service, advertised)| self.services.tell(service, advertised));
                    decided.answer
                }
                Err(refused) => refused,
            }
        } else {
            answer(&self.services, &ask, self.outside.as_ref(), Some(&inside))
        };
        let body = if let Body::Json(body) = answer.body { body } else { Value::Null };
        (answer.status, body)
    }

    fn get(&mut self, path: &str) -> (u16, Value) {
        self.ask(Method::Get, path, &Value::Null, &[])
    }
}

fn advertises(target: Uuid) -> [Access; 1] {
    [Access { permission: permission::ADVERTISE_SERVICE, target }]
}

fn at(of: Uuid) -> String {
    format!("/v1/service/{of}")
}

#[test]
fn a_service_is_at_one_address_or_none() {
    let mut site = Site::new();
    assert_eq!(site.get(&at(service::AUTH)), (200, json!([{"device": special::WILDCARD, "url": AUTH}])));
    let broker = json!([{"device": service::GIT, "url": "mqtt://mqtt.internal.example"}]);
    assert_eq!(site.get(&at(service::MQTT)), (200, broker));
    assert_eq!(site.get(&at(service::GIT)), (200, json!([])));
    assert_eq!(site.get("/v1/service/x").0, 410);
    assert_eq!(site.get("/v1/service"), (200, json!([service::AUTH, service::MQTT])));
    assert_eq!(site.get("/v1/nothing").0, 404);
    site.outside = Some(Outside::read("directory.example.org", Some("https")).unwrap());
    assert_eq!(site.get(&at(service::AUTH)).1[0]["url"], "https://auth.example.org");
    assert_eq!(site.get(&at(service::MQTT)).1[0]["url"], "mqtts://mqtt.example.org");
}

/// The npm client takes 404 for a device that nobody knows, and anything else but 200 for an error.
#[test]
fn a_device_is_unknown_and_one_that_is_no_uuid_can_never_be_one() {
    let mut site = Site::new();
    for device in [service::GIT, special::WILDCARD, service::AUTH] {
        assert_eq!(site.get(&format!("/v1/device/{device}")), (404, Value::Null));
        assert_eq!(site.get(&format!("/v1/device/{device}/")).0, 404);
    }
    let ask = Ask::read(Method::Get, &format!("/v1/device/{}", service::GIT), b"").unwrap();
    let Body::Text(why) = answer(&site.services, &ask, None, None).body else { panic!("it says why") };
    assert!(why.contains("device"), "{why}");
    for malformed in ["x", "%2e%2e", "00000000-0000-0000-0000-00000000000", "00000000-0000-0000-0000-00000000000g"] {
        assert_eq!(site.get(&format!("/v1/device/{malformed}")).0, 410, "{malformed}");
    }
    for method in [Method::Put, Method::Post] {
        assert_eq!(site.ask(method, &format!("/v1/device/{}", service::GIT), &Value::Null, &[]).0, 405);
    }
    assert_eq!(site.get("/v1/device").0, 404, "there is no list");
}

#[test]
fn the_deprecated_advertisement_is_taken_or_refused_at_once() {
    for word in ["advertisment", "advertisement"] {
        let mut site = Site::new();
        let (path, body) = (format!("{}/{word}", at(service::GIT)), json!({"url": "https://git.example.org"}));
        assert_eq!(site.get(&path).0, 404);
        assert_eq!(site.ask(Method::Put, &path, &body, &[]).0, 403);
        assert_eq!(site.ask(Method::Put, &path, &body, &advertises(service::MQTT)).0, 403);
        assert_eq!(site.ask(Method::Put, &path, &body, &advertises(service::GIT)).0, 204);
        assert_eq!(site.get(&path), (200, json!({"device": special::WILDCARD, "url": "https://git.example.org"})));
        for bad in [json!({}), json!({"url": "javascript:x"}), json!({"url": "http://a", "more": 1}), json!("http://a")]
        {
            assert_eq!(site.ask(Method::Put, &path, &bad, &advertises(service::GIT)).0, 422, "{bad}");
        }
    }
}

#[test]
fn what_is_configured_nobody_advertises_elsewhere() {
    let mut site = Site::new();
    let path = format!("{}/advertisment", at(service::AUTH));
    let all = advertises(special::WILDCARD);
    assert_eq!(site.ask(Method::Put, &path, &json!({"url": "http://evil.example"}), &all).0, 409);
    assert_eq!(site.ask(Method::Put, &path, &json!({"url": AUTH}), &all).0, 204, "it says the same");
    assert_eq!(site.get(&at(service::AUTH)).1[0]["url"], AUTH);
}

#[test]
fn a_dump_is_loaded_as_a_whole_or_not_at_all() {
    let dump = |advertisements| json!({"service": service::DIRECTORY, "version": 1, "advertisements": advertisements});
    let git = json!({"service": service::GIT, "url": "http://git.internal.example", "device": service::GIT});
    let mut site = Site::new();
    assert_eq!(site.ask(Method::Post, "/load", &dump(json!([git])), &advertises(service::GIT)).0, 403);
    let all = advertises(special::WILDCARD);
    let elsewhere = json!({"service": service::AUTH, "url": "http://elsewhere.example"});
    for (bad, status) in [
        (dump(json!([git, elsewhere])), 409),
        (dump(json!([git, git])), 422),
        (dump(json!([{"service": service::GIT, "url": "x"}])), 422),
        (dump(json!([{"service": "x", "url": "http://x"}])), 422),
        (json!({"service": service::AUTH, "version": 1, "advertisements": [git]}), 422),
        (json!({"service": service::DIRECTORY, "version": 2, "advertisements": [git]}), 422),
        (json!({"service": service::DIRECTORY, "version": 1}), 422),
    ] {
        assert_eq!(site.ask(Method::Post, "/load", &bad, &all).0, status, "{bad}");
        assert_eq!(site.get(&at(service::GIT)), (200, json!([])), "{bad}");
    }
    assert_eq!(site.ask(Method::Post, "/load", &dump(json!([git])), &all).0, 200);
    assert_eq!(site.get(&at(service::GIT)).1[0]["url"], "http://git.internal.example");
    assert_eq!(site.get(&at(service::MQTT)).1.as_array().unwrap().len(), 1, "others stay");
}

#[test]
fn another_method_is_told_so() {
    let mut site = Site::new();
    for (method, path) in [
        (Method::Put, at(service::GIT)),
        (Method::Post, "/v1/service".into()),
        (Method::Get, "/load".into()),
        (Method::Post, format!("{}/advertisment", at(service::GIT))),
    ] {
        assert_eq!(site.ask(method, &path, &Value::Null, &[]).0, 405, "{path}");
    }
}

proptest! {
    #[test]
    fn no_path_and_no_body_is_a_panic_or_a_fault_of_ours(
        put in any::<bool>(),
        path in "(/v1|/load|)(/(service|device|advertisment|[%a-z0-9-]{0,40})){0,6}/?",
        body in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let method = if put { Method::Put } else { Method::Post };
        if let Err(refused) = Ask::read(method, &path, &body) {
            prop_assert!((400..500).contains(&refused.status));
        }
    }
}
