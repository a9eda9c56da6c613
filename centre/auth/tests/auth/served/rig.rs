//! Both services in this process, over real sockets. Fakes stand where a KDC and a configuration database would be.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use latchkey_auth::api::{Ask, Method};
use latchkey_auth::keeper::Keeper;
use latchkey_auth::rights::Rules;
use latchkey_auth::{Realms, server};
use latchkey_directory as directory;
use latchkey_factory_plus::grants::Access;
use latchkey_factory_plus::uuids::{class, permission, service, special};
use latchkey_factory_plus::{Realm, Upn, Uuid};
use latchkey_factory_plus_client::{Client, Identity, Insecure, Limits, Services, Settings, Trust};
use latchkey_factory_plus_server::testing::FakeVerifier;
use latchkey_factory_plus_server::{Authenticated, HttpConfig, Nothing, Running};
use latchkey_test_support::block_on;
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const ROOT: &str = "root@R";
pub(crate) const MANAGER: &str = "sv1clustermanager@R";
pub(crate) const READER: &str = "sv1reader@R";
pub(crate) const PASSWORD: &str = "right";

/// The manager's principal.
pub(crate) const MANAGER_UUID: Uuid = Uuid::constant("26d192cf-73c1-4c14-93cf-1e63743bab99");
/// An account.
pub(crate) const ACCOUNT: Uuid = Uuid::constant("97756c9a-38e6-4238-b78c-3df6f227a699");

pub(crate) struct Rig {
    pub(crate) keeper: Keeper,
    pub(crate) auth: Running,
    pub(crate) directory: Running,
    _folder: TempDir,
}

/// Everybody's password is [`PASSWORD`].
pub(crate) fn verifier() -> Arc<FakeVerifier> {
    Arc::new(FakeVerifier::of([ROOT, MANAGER, READER, "sv1auth@R"].map(|name| (name, PASSWORD))))
}

pub(crate) fn loopback() -> HttpConfig {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    serde_json::from_value(json!({"listen": [any], "admin_listen": any, "insecure": true})).unwrap()
}

pub(crate) fn realm() -> Realm {
    "R".parse().unwrap()
}

/// The directory's lists, in the place of a follower of auth: it lets the manager advertise one service, and load.
struct FakeLists;

impl directory::server::Callers for FakeLists {
    fn held<'a>(&'a self, caller: &'a Authenticated) -> directory::server::Asking<'a> {
        let line = |target| Access { permission: permission::ADVERTISE_SERVICE, target };
        let is_manager = caller.upn().as_str() == MANAGER;
        let targets: &[Uuid] = if is_manager { &[service::GIT, special::WILDCARD] } else { &[] };
        let list = targets.iter().copied().map(line).collect();
        Box::pin(async move { Ok(directory::server::Held { is_root: false, list }) })
    }
}

impl Rig {
    /// The manager may everything, the reader reads access lists.
    pub(crate) fn new() -> Self {
        let rig = Self::unheard();
        let permissions = [
            permission::READ_ACL,
            permission::MANAGE_ACL,
            permission::READ_KERBEROS,
            permission::MANAGE_KERBEROS,
            permission::GIT_PULL,
        ];
        let classes = vec![
            (class::PERMISSION, BTreeSet::from(permissions)),
            (class::PRINCIPAL, BTreeSet::from([MANAGER_UUID, ACCOUNT])),
        ];
        rig.keeper.heard(classes, Vec::new(), true);
        let all: BTreeMap<_, _> = permissions.into_iter().map(|held| (held, Value::Null)).collect();
        let dump = json!({
            "service": service::AUTH,
            "version": 2,
            "identities": {MANAGER_UUID.to_string(): {"kerberos": MANAGER}},
            "grants": {MANAGER_UUID.to_string(): all},
        });
        assert_eq!(rig.as_root(Method::Post, "/load", &dump), 200);
        rig
    }

    /// Without classes, identities and grants.
    pub(crate) fn unheard() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let rules = Rules {
            realms: Realms::new("R".parse().unwrap(), BTreeSet::new()),
            root: Some(ROOT.parse().unwrap()),
            fixed: BTreeMap::new(),
        };
        let keeper = Keeper::open(&folder.path().join("auth.redb"), rules).unwrap();
        let nothing = || (Arc::new(Nothing), Arc::new(Nothing));
        let (pages, reload) = nothing();
        let auth = server::server(&loopback(), realm(), verifier(), &keeper).unwrap().start(pages, reload).unwrap();
        let at = directory::advertised::Advertised {
            url: format!("http://{}", auth.address()).parse().unwrap(),
            device: special::WILDCARD,
        };
        let services = directory::advertised::Services::new([(service::AUTH, at)]);
        let kept = directory::keeper::Keeper::open(&folder.path().join("directory.redb"), services).unwrap();
        let rules = directory::server::Rules {
            domain: Some("internal.example".to_owned().try_into().unwrap()),
            trusted_proxies: vec!["127.0.0.2".parse().unwrap()],
        };
        let of = (kept, rules, Arc::new(FakeLists) as _);
        let (pages, reload) = nothing();
        let directory =
            directory::server::server(&loopback(), realm(), verifier(), of).unwrap().start(pages, reload).unwrap();
        Self { keeper, auth, directory, _folder: folder }
    }

    pub(crate) fn as_root(&self, method: Method, path: &str, body: &Value) -> u16 {
        let asked = Ask::read(method, path, body.to_string().as_bytes()).unwrap();
        block_on(self.keeper.ask(ROOT.parse::<Upn>().unwrap(), asked)).status
    }

    pub(crate) fn client(&self, name: &str) -> Client {
        client(name, Services::directory(format!("http://{}", self.directory.address()).parse().unwrap()))
    }
}

pub(crate) fn client(name: &str, services: Services) -> Client {
    let identity = Identity::basic(&name.parse().unwrap(), &PASSWORD.to_owned().into()).unwrap();
    let trust = Trust::none().allowing(Insecure);
    Client::new(Settings { identity, trust, services, limits: Limits::default() })
}
