//! A centre, set up from its data, with all rights as they are there.

mod clusters;
mod principals;
mod repositories;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use latchkey_auth::keeper::Keeper as AuthKeeper;
use latchkey_auth::rights::Rules;
use latchkey_auth::{Realms, follow, server as auth_server};
use latchkey_centre_service::{AccessConfig, AccessLists};
use latchkey_centre_setup::{Local, Setup};
use latchkey_cluster_manager::config::Config;
use latchkey_cluster_manager::keeper::Keeper;
use latchkey_cluster_manager::manager::{Manager, Place};
use latchkey_cluster_manager::web::Web;
use latchkey_cluster_manager::world::{Centre, Principals};
use latchkey_config_db::engine::Embedded;
use latchkey_config_db::server::{Callers, server as config_db_server};
use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::grants::Access;
use latchkey_factory_plus::uuids::{permission, service, special};
use latchkey_factory_plus_client::classes::Follower;
use latchkey_factory_plus_client::{Client, ConfigDb, Identity, Insecure, Limits, Service, Services, Settings, Trust};
use latchkey_factory_plus_server::testing::FakeVerifier;
use latchkey_factory_plus_server::{About, HttpConfig, HttpServer, Nothing, Running, Software};
use latchkey_git_client::Git;
use latchkey_git_server::repositories::Repositories;
use latchkey_git_server::server::GitServer;
use latchkey_group_commit::OpenError;
use latchkey_service_runtime::config::ConfigFile as _;
use latchkey_test_support::{Port, block_on, until, within};
use serde_json::json;
use tempfile::TempDir;

pub(crate) use principals::FakePrincipals;
use repositories::follow_repositories;

pub(crate) const REALM: &str = "EXAMPLE.ORG";
const ROOT: &str = "root@EXAMPLE.ORG";
pub(crate) const ADMIN: &str = "admin@EXAMPLE.ORG";
pub(crate) const NOBODY: &str = "nobody@EXAMPLE.ORG";
const MANAGER: &str = "sv1clustermanager@EXAMPLE.ORG";
const ALL: [&str; 7] =
    [ROOT, ADMIN, NOBODY, MANAGER, "sv1auth@EXAMPLE.ORG", "sv1git@EXAMPLE.ORG", "sv1enrol@EXAMPLE.ORG"];
const PASSWORD: &str = "right";

pub(crate) struct Rig {
    pub(crate) manager: Option<Served>,
    pub(crate) principals: Arc<FakePrincipals>,
    pub(crate) local: Local,
    services: Services,
    git: SocketAddr,
    own: Port,
    folder: TempDir,
    _servers: Vec<Running>,
    _tasks: Vec<smol::Task<()>>,
}

/// The cluster manager, running.
pub(crate) struct Served {
    running: Running,
    manager: Manager,
    _following: smol::Task<()>,
}

fn listen(address: SocketAddr) -> HttpConfig {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    serde_json::from_value(json!({"listen": [address], "admin_listen": any, "insecure": true})).unwrap()
}

fn client(name: &str, services: Services) -> Client {
    let identity = Identity::basic(&name.parse().unwrap(), &PASSWORD.to_owned().into()).unwrap();
    let trust = Trust::none().allowing(Insecure);
    Client::new(Settings { identity, trust, services, limits: Limits::default() })
}

fn start<H: latchkey_factory_plus_server::Handler>(server: HttpServer<H>) -> Running {
    server.start(Arc::new(Nothing), Arc::new(Nothing)).unwrap()
}

fn hold(permissions: &[Uuid]) -> Arc<[Access]> {
    permissions.iter().map(|permission| Access { permission: *permission, target: special::WILDCARD }).collect()
}

fn site(urls: &BTreeMap<&str, String>) -> latchkey_centre_setup::Site {
    let mut all = serde_json::to_value(urls).unwrap();
    all["mqtt"] = json!("mqtt://localhost:1883");
    serde_json::from_value(json!({
        "realm": REALM, "domain": "example.org", "prefix": "ACME", "administrator": "admin", "urls": all,
    }))
    .unwrap()
}

impl Rig {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let verifier = Arc::new(FakeVerifier::of(ALL.map(|name| (name, PASSWORD))));
        let realm = || REALM.parse().unwrap();
        let [config_db_port, auth_port, git_port, own, directory] = [(); 5].map(|()| Port::reserve());
        let url = |port: &Port| format!("http://127.0.0.1:{}", port.number());
        let services = Services::fixed(
            [(service::CONFIG_DB, &config_db_port), (service::AUTH, &auth_port), (service::GIT, &git_port)]
                .map(|(service, port)| (service, url(port).parse().unwrap())),
        )
        .with(service::CLUSTER_MANAGER, url(&own).parse().unwrap());

        let database = latchkey_config_db::ConfigDb::start(Embedded::at(folder.path().join("config-db"))).unwrap();
        let reads =
            [permission::READ_CONFIG, permission::READ_MEMBERS, permission::READ_SUBCLASSES, permission::LIST_OBJECTS];
        let fixed = [("sv1auth@EXAMPLE.ORG".parse().unwrap(), hold(&reads).to_vec())].into();
        let access = AccessConfig { root: Some(ROOT.parse().unwrap()), fixed };
        let asking = client("root@EXAMPLE.ORG", services.clone());
        let callers = Callers::new(AccessLists::new(&access, &asking), &asking);
        let http = listen(config_db_port.address());
        let config_db = start(config_db_server(&http, realm(), verifier.clone(), &database, &callers).unwrap());

        let rules = Rules {
            realms: Realms::new(realm(), BTreeSet::new()),
            root: Some(ROOT.parse().unwrap()),
            fixed: BTreeMap::new(),
        };
        let keeper = AuthKeeper::open(&folder.path().join("auth"), rules).unwrap();
        let follower = Follower::new(&client("sv1auth@EXAMPLE.ORG", services.clone()));
        let following_classes = smol::spawn(follow::follow(keeper.clone(), follower));
        let auth =
            start(auth_server::server(&listen(auth_port.address()), realm(), verifier.clone(), &keeper).unwrap());

        let urls = BTreeMap::from([
            ("config_db", url(&config_db_port)),
            ("auth", url(&auth_port)),
            ("git", url(&git_port)),
            ("cluster_manager", url(&own)),
            ("directory", url(&directory)),
        ]);
        let local = Local::new();
        let setup = Setup::new(&site(&urls), &local).unwrap();
        let root = client(ROOT, services.clone());
        block_on(async {
            ConfigDb::of(&root).load(&serde_json::to_value(&setup.config_db).unwrap()).await.unwrap();
            let dump = serde_json::to_value(&setup.auth).unwrap();
            root.service(service::AUTH).post_only("load", &dump).await.unwrap();
        });

        let limits = latchkey_git_server::git::GitLimits::default();
        let repositories = Repositories::open(&folder.path().join("repositories"), limits).unwrap();
        let server = GitServer::new(repositories, latchkey_git_server::backend::Limits::default());
        let lists = AccessConfig { root: Some(ROOT.parse().unwrap()), ..AccessConfig::default() };
        let lists = AccessLists::new(&lists, &asking);
        let patience = Duration::from_mins(5);
        let web = latchkey_git_server::web::Web::new(server, lists, limits, patience);
        let software = Software { vendor: "", application: "git", revision: "" };
        let about = About { version: "2.0.0", service: service::GIT, device: None, software };
        let git = HttpServer::new(&listen(git_port.address()), about, realm(), verifier, web.clone()).unwrap();
        let git = start(git);
        let entries = client("sv1git@EXAMPLE.ORG", services.clone());
        let following_entries = smol::spawn(follow_repositories(entries, web));

        let mut rig = Self {
            manager: None,
            principals: Arc::default(),
            local,
            services,
            git: git.address(),
            own,
            folder,
            _servers: vec![config_db, auth, git],
            _tasks: vec![following_classes, following_entries],
        };
        rig.start_manager();
        rig
    }

    /// Starts the cluster manager, or starts it again.
    pub(crate) fn start_manager(&mut self) {
        self.manager = None;
        let config = self.config();
        let client = client(MANAGER, self.services.clone());
        // Calls of the one before may hold it for a moment yet.
        let opened = until("the links to be given back", || match Keeper::open(&config.data) {
            Err(OpenError::InUse(_)) => None,
            opened => Some(opened),
        });
        let keeper = Arc::new(opened.unwrap());
        let git = Git::new(&client, &self.folder.path().join("work"), None).unwrap();
        let principals: Arc<dyn Principals> = self.principals.clone();
        let centre = Centre::new(&client, git, principals, keeper);
        let place = Place {
            realm: REALM.parse().unwrap(),
            organisation: config.organisation.clone(),
            git: config.git().unwrap().to_string(),
            hosts: vec!["clusters.example.org".into()],
            names_held_ms: config.names_held_seconds * 1000,
        };
        let manager = Manager::new(place, centre);
        let web = Web::new(manager.clone(), AccessLists::new(&config.access, &client), &config).unwrap();
        let software = Software { vendor: "", application: "manager", revision: "" };
        let about = About { version: "2.0.0", service: service::CLUSTER_MANAGER, device: None, software };
        let verifier = Arc::new(FakeVerifier::of(ALL.map(|name| (name, PASSWORD))));
        let server = HttpServer::new(&config.http, about, REALM.parse().unwrap(), verifier, web.clone()).unwrap();
        let running = start(server.feed(Arc::new(web)));
        let following = manager.clone();
        let following = smol::spawn(async move { following.follow().await });
        block_on(within("the manager's start", async {
            loop {
                let changed = manager.changed();
                if manager.is_ready() {
                    return;
                }
                changed.await;
            }
        }));
        self.manager = Some(Served { running, manager, _following: following });
    }

    fn config(&self) -> Config {
        let url = |service| self.url(service);
        let config = json!({
            "schema": 1,
            "http": {"listen": [self.own.address()], "admin_listen": "127.0.0.1:0", "insecure": true},
            "kerberos": {"realm": REALM, "service": "HTTP/h", "keytab": "k", "replay_cache": "r", "helper": "h"},
            "centre": {"principal": MANAGER, "password_file": "p", "insecure": true, "services": {
                "config_db": url(service::CONFIG_DB), "auth": url(service::AUTH), "git": url(service::GIT),
                "cluster_manager": url(service::CLUSTER_MANAGER), "directory": "http://127.0.0.1:9",
            }},
            "data": "links",
            "organisation": "ACME",
            "kadmin": {"helper": "h", "principal": MANAGER, "password_file": "p"},
            "bootstrap": {"domain": "example.org", "krbkeys_image": "image:1"},
            // A test cannot wait for half a day; that names are held is shown by what is told meanwhile.
            "names_held_seconds": 1,
        });
        let path = self.folder.path().join("config.json");
        std::fs::write(&path, config.to_string()).unwrap();
        Config::load(&path).unwrap()
    }

    /// Where a service is.
    pub(crate) fn url(&self, service: Uuid) -> String {
        let client = client(ROOT, self.services.clone());
        block_on(client.service(service).authorization()).map_or_else(
            // The manager does not run yet.
            |_| format!("http://127.0.0.1:{}", self.own.number()),
            |(url, _)| url.to_string(),
        )
    }

    /// The cluster manager's own view, as long as it runs.
    pub(crate) fn manager_now(&self) -> Manager {
        self.manager.as_ref().unwrap().manager.clone()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.manager.as_ref().unwrap().running.address()
    }

    pub(crate) fn as_user(&self, name: &str) -> Client {
        client(name, self.services.clone())
    }

    /// The cluster manager, for somebody.
    pub(crate) fn service(&self, name: &str) -> Service {
        self.as_user(name).service(service::CLUSTER_MANAGER)
    }

    /// The configuration database, for the administrator.
    pub(crate) fn db(&self) -> ConfigDb {
        ConfigDb::of(&self.as_user(ADMIN))
    }
}
