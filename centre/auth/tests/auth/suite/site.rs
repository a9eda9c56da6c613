//! A small site: principals, a role, permissions, and the requests of somebody.

use std::collections::{BTreeMap, BTreeSet};

use latchkey_auth::Realms;
use latchkey_auth::api::{Answer, Ask, Body, Ground, Method, decide, read};
use latchkey_auth::model::{Change, Model};
use latchkey_auth::rights::Rules;
use latchkey_auth::state::State;
use latchkey_factory_plus::grants::Grant;
use latchkey_factory_plus::uuids::{class, permission, role, special};
use latchkey_factory_plus::{Upn, Uuid, uuids};
use serde_json::{Value, json};

/// A UUID that says its number.
pub(crate) fn number(number: u8) -> Uuid {
    Uuid::from_bytes([number; 16])
}

pub(crate) fn upn(text: &str) -> Upn {
    text.parse().unwrap()
}

pub(crate) const ROOT: &str = "root@R";
pub(crate) const MANAGER: &str = "sv1clustermanager@R";
pub(crate) const EDGE: &str = "op1krbkeys/North@R";
pub(crate) const NOBODY: &str = "nobody@R";

/// The cluster manager's principal.
pub(crate) fn manager() -> Uuid {
    number(1)
}

/// The edge of the cluster North.
pub(crate) fn edge() -> Uuid {
    number(2)
}

/// What the edge made for itself.
pub(crate) fn edges_own() -> Uuid {
    number(3)
}

/// Somebody else.
pub(crate) fn other() -> Uuid {
    number(4)
}

pub(crate) struct Site {
    pub(crate) state: State,
    next: u8,
}

impl Site {
    /// The cluster manager names anybody and grants Git's pull; the edge names what is its own.
    pub(crate) fn new() -> Self {
        let rules = Rules {
            realms: Realms::new("R".parse().unwrap(), BTreeSet::new()),
            root: Some(upn(ROOT)),
            fixed: BTreeMap::new(),
        };
        let mut site = Self { state: State::new(rules, Model::default()), next: 100 };
        let permissions = [
            permission::GIT_PULL,
            permission::GIT_PUSH,
            permission::MANAGE_ACL,
            permission::READ_ACL,
            permission::MANAGE_KERBEROS,
            permission::READ_KERBEROS,
        ];
        site.members(class::PERMISSION, permissions);
        site.members(permission::GIT, [permission::GIT_PULL, permission::GIT_PUSH]);
        site.members(permission::AUTH, [permission::MANAGE_ACL, permission::READ_ACL]);
        site.members(class::PRINCIPAL, [manager(), edge(), edges_own(), other()]);
        site.members(role::CLUSTER_MANAGER, [manager()]);
        site.state.set_owner(edges_own(), Some(edge()));
        site.name(manager(), MANAGER);
        site.name(edge(), EDGE);
        site.grant(role::CLUSTER_MANAGER, permission::MANAGE_KERBEROS, special::WILDCARD, false);
        site.grant(role::CLUSTER_MANAGER, permission::READ_KERBEROS, special::WILDCARD, false);
        site.grant(role::CLUSTER_MANAGER, permission::MANAGE_ACL, permission::GIT_PULL, false);
        site.grant(role::CLUSTER_MANAGER, permission::READ_ACL, permission::GIT, true);
        site.grant(edge(), permission::MANAGE_KERBEROS, special::MINE, true);
        site
    }

    pub(crate) fn members(&mut self, class: Uuid, members: impl IntoIterator<Item = Uuid>) {
        self.state.set_members(class, members.into_iter().collect::<BTreeSet<_>>());
    }

    pub(crate) fn name(&mut self, principal: Uuid, name: &str) {
        self.state.apply(&Change::Name { principal, name: upn(name) });
    }

    pub(crate) fn grant(&mut self, principal: Uuid, permission: Uuid, target: Uuid, plural: bool) -> Uuid {
        let uuid = self.fresh();
        self.state.apply(&Change::Grant { uuid, grant: Grant { principal, permission, target, plural } });
        uuid
    }

    fn fresh(&mut self) -> Uuid {
        self.next += 1;
        number(self.next)
    }

    /// Asks as somebody, and does what is decided.
    pub(crate) fn ask(&mut self, caller: &str, method: Method, path: &str, body: &[u8]) -> Answer {
        let asked = match Ask::read(method, path, body) {
            Ok(asked) => asked,
            Err(refused) => return refused,
        };
        let rights = self.state.rights(upn(caller)).unwrap();
        match asked {
            Ask::Read(asked) => read(&mut self.state, &rights, &asked),
            Ask::Write(write) => {
                let mut next = self.next;
                let mut fresh = || {
                    next += 1;
                    number(next)
                };
                let state = &self.state;
                let ground = Ground { rules: state.rules(), objects: state.objects(), model: state.model() };
                let decided = decide(ground, &rights, write, &mut fresh);
                self.next = next;
                for change in &decided.changes {
                    self.state.apply(change);
                }
                decided.answer
            }
        }
    }

    pub(crate) fn get(&mut self, caller: &str, path: &str) -> (u16, Value) {
        seen(self.ask(caller, Method::Get, path, b""))
    }

    pub(crate) fn post(&mut self, caller: &str, path: &str, body: &Value) -> (u16, Value) {
        seen(self.ask(caller, Method::Post, path, body.to_string().as_bytes()))
    }

    pub(crate) fn put(&mut self, caller: &str, path: &str, body: &Value) -> u16 {
        self.ask(caller, Method::Put, path, body.to_string().as_bytes()).status
    }

    pub(crate) fn delete(&mut self, caller: &str, path: &str) -> u16 {
        self.ask(caller, Method::Delete, path, b"").status
    }
}

/// Status and JSON of an answer; text and nothing are null.
pub(crate) fn seen(answer: Answer) -> (u16, Value) {
    match answer.body {
        Body::Json(value) => (answer.status, value),
        Body::Empty | Body::Text(_) => (answer.status, Value::Null),
    }
}

pub(crate) fn grant(principal: Uuid, permission: Uuid, target: Uuid, plural: bool) -> Value {
    json!({"principal": principal, "permission": permission, "target": target, "plural": plural})
}

pub(crate) fn identity_path(principal: Uuid) -> String {
    format!("/v2/principal/{principal}/kerberos")
}

/// A dump for this service.
pub(crate) fn dump(fields: &Value) -> Value {
    let mut dump = json!({"service": uuids::service::AUTH, "version": 2});
    for (name, value) in fields.as_object().unwrap() {
        dump[name] = value.clone();
    }
    dump
}
