//! Classes and owners, followed at a configuration database.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use event_listener::Event;
use latchkey_auth::api::Method;
use latchkey_auth::follow::follow;
use latchkey_factory_plus::notify::{self, Response, Update};
use latchkey_factory_plus::uuids::{application, class, permission, role, service, special};
use latchkey_factory_plus::{Uuid, uuids};
use latchkey_factory_plus_client::classes::Follower;
use latchkey_factory_plus_client::{Auth, Services};
use latchkey_factory_plus_server::{
    About, Answer, Authenticated, Feed, FeedRefusal, Handler, HttpServer, Nothing, Refusal, Request, Running, Software,
    Subscribing,
};
use latchkey_test_support::{block_on, within};
use serde_json::{Map, Value, json};
use smol::stream;

use crate::served::rig::{ACCOUNT, MANAGER, Rig, client, loopback, realm, verifier};

/// Stands where the configuration database would be: members of classes and registrations, watched and searched.
#[derive(Default)]
struct FakeConfigDb {
    members: Mutex<BTreeMap<Uuid, BTreeSet<Uuid>>>,
    owners: Mutex<BTreeMap<Uuid, Uuid>>,
    changed: Event,
}

impl FakeConfigDb {
    fn put(&self, class: Uuid, members: impl IntoIterator<Item = Uuid>) {
        self.members.lock().unwrap().insert(class, members.into_iter().collect());
        self.changed.notify(usize::MAX);
    }

    fn give(&self, object: Uuid, owner: Uuid) {
        self.owners.lock().unwrap().insert(object, owner);
        self.changed.notify(usize::MAX);
    }

    /// What a subscription is told now, but what it was told last.
    fn look(&self, request: &notify::Request, told: &mut Vec<Value>) -> Option<Update> {
        let status = if told.is_empty() { 201 } else { 200 };
        let good = |body: Value| Response { status: 200, body: Some(body), headers: Map::new() };
        let update = |response, child: Option<String>, children| Update {
            uuid: Uuid::NIL,
            status,
            response: Some(response),
            child,
            children,
        };
        if let notify::Request::Watch { request, .. } = request {
            let class: Uuid = request.url.strip_prefix("v2/class/")?.strip_suffix("/member/")?.parse().ok()?;
            let body = json!(self.members.lock().unwrap().get(&class).cloned().unwrap_or_default());
            let is_new = told.last() != Some(&body);
            told.push(body.clone());
            return is_new.then(|| update(good(body), None, None));
        }
        let owners = self.owners.lock().unwrap().clone();
        let registration = |owner: &Uuid| json!({"owner": owner});
        if told.is_empty() {
            told.push(json!(owners));
            let children =
                owners.iter().map(|(object, owner)| (object.to_string(), good(registration(owner)))).collect();
            return Some(update(Response { status: 204, body: None, headers: Map::new() }, None, Some(children)));
        }
        let before: BTreeMap<Uuid, Uuid> = serde_json::from_value(told[0].clone()).unwrap();
        let (object, owner) = owners.iter().find(|(object, owner)| before.get(object) != Some(owner))?;
        told[0][object.to_string()] = json!(owner);
        Some(update(good(registration(owner)), Some(object.to_string()), None))
    }
}

struct Told(Arc<FakeConfigDb>);

impl Feed for Told {
    fn watch(&self, _: Authenticated, request: notify::Request) -> Subscribing<'_> {
        let state = (Arc::clone(&self.0), request, Vec::new());
        let updates = stream::unfold(state, |(fake, request, mut told)| async move {
            loop {
                let changed = fake.changed.listen();
                if let Some(update) = fake.look(&request, &mut told) {
                    return Some((update.into(), (fake, request, told)));
                }
                changed.await;
            }
        });
        Box::pin(async move { Ok::<_, FeedRefusal>(Box::pin(updates) as _) })
    }
}

struct NoRequests;

impl Handler for NoRequests {
    async fn handle(&self, _: Request) -> Answer {
        Err(Refusal::not_found("this fake only tells of changes"))
    }
}

fn serve(fake: &Arc<FakeConfigDb>) -> Running {
    let software = Software { vendor: "", application: "fake", revision: "" };
    let about = About { version: "2.0.0", service: service::CONFIG_DB, device: None, software };
    let server = HttpServer::new(&loopback(), about, realm(), verifier(), NoRequests).unwrap();
    server.feed(Arc::new(Told(Arc::clone(fake)))).start(Arc::new(Nothing), Arc::new(Nothing)).unwrap()
}

#[test]
fn access_lists_follow_the_configuration_database() {
    assert_eq!(application::REGISTRATION, uuids::application::REGISTRATION);
    let fake = Arc::new(FakeConfigDb::default());
    fake.put(class::PERMISSION, [permission::READ_ACL, permission::GIT_PULL, permission::MANAGE_KERBEROS]);
    fake.put(class::PRINCIPAL, [ACCOUNT]);
    let config_db = serve(&fake);
    let rig = Rig::unheard();
    let own = Uuid::random();
    let grants = json!({role::ADMINISTRATOR.to_string(): {
        permission::READ_ACL.to_string(): null,
        permission::GIT_PULL.to_string(): {special::MINE.to_string(): true},
    }});
    let named = json!({ACCOUNT.to_string(): {"kerberos": MANAGER}});
    let dump = json!({"service": service::AUTH, "version": 2, "identities": named, "grants": grants});
    assert_eq!(rig.as_root(Method::Post, "/load", &dump), 200);

    let at = Services::fixed([(service::CONFIG_DB, format!("http://{}", config_db.address()).parse().unwrap())]);
    let following = smol::spawn(follow(rig.keeper.clone(), Follower::new(&client("sv1auth@R", at))));
    let until = |lines: usize| {
        let keeper = rig.keeper.clone();
        let asked = move || {
            let read = latchkey_auth::api::watched(&format!("v2/acl/{ACCOUNT}")).unwrap();
            let answer = keeper.look(&crate::served::rig::ROOT.parse().unwrap(), &read, &mut None).unwrap();
            if let latchkey_auth::api::Body::Json(list) = answer.body { list.as_array().map(Vec::len) } else { None }
        };
        let keeper = rig.keeper.clone();
        block_on(within(format!("{lines} lines"), async move {
            loop {
                let changed = keeper.changed();
                if asked() == Some(lines) {
                    return;
                }
                changed.await;
            }
        }));
    };
    until(0);
    // The wildcard, and everything owned as such.
    fake.put(role::ADMINISTRATOR, [ACCOUNT]);
    until(2);
    assert_eq!(block_on(Auth::of(&rig.client(MANAGER)).acl(&MANAGER.parse().unwrap())).unwrap().len(), 2);
    fake.give(own, ACCOUNT);
    until(3);
    fake.give(own, MANAGER_OTHER);
    until(2);
    // A class that a new grant names is followed from then on; one that no grant names any more is forgotten.
    let pull =
        json!({"principal": class::EDGE_SERVICE, "permission": permission::GIT_PULL, "target": own, "plural": false});
    fake.put(class::EDGE_SERVICE, [ACCOUNT]);
    assert_eq!(rig.as_root(Method::Post, "/v2/grant", &pull), 201);
    until(3);
    fake.put(role::ADMINISTRATOR, []);
    until(1);
    drop(following);
}

const MANAGER_OTHER: Uuid = Uuid::constant("11111111-2222-4333-8444-555555555555");
