//! A centre with what a new one contains: configuration database and directory, in this process, over real sockets. Who calls is
//! judged by a fake in the place of the KDC.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use latchkey_centre_service::{AccessConfig, AccessLists};
use latchkey_centre_setup::{Local, Setup, Site};
use latchkey_config_db::engine::Embedded;
use latchkey_config_db::server::{Callers, server as config_db_server};
use latchkey_directory::advertised::{Advertisement, Services as Advertised};
use latchkey_directory::keeper::Keeper;
use latchkey_directory::server::{Rules, server as directory_server};
use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::grants::Access;
use latchkey_factory_plus::uuids::{application, class, permission, service};
use latchkey_factory_plus_client::notify::Watch;
use latchkey_factory_plus_client::{
    Client, ConfigDb, Identity, Insecure, Limits, Precondition, Services, Settings, Trust,
};
use latchkey_factory_plus_server::testing::FakeVerifier;
use latchkey_factory_plus_server::{Handler, HttpConfig, HttpServer, Nothing, Running};
use latchkey_test_support::{Port, block_on, within};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::front::Front;

pub(crate) const CLUSTER: Uuid = Uuid::constant("c1c1c1c1-c1c1-41c1-81c1-c1c1c1c1c1c1");
pub(crate) const REALM: &str = "EXAMPLE.ORG";
const ROOT: &str = "root@EXAMPLE.ORG";
pub(crate) const SYNC: &str = "op1sync/Bolt@EXAMPLE.ORG";
const PASSWORD: &str = "right";

pub(crate) struct Centre {
    pub(crate) local: Local,
    pub(crate) git: String,
    /// Where the configuration database listens.
    port: Port,
    directory: SocketAddr,
    services: Services,
    folder: TempDir,
    config_db: Option<Running>,
    _directory: Running,
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

fn start<H: Handler>(server: HttpServer<H>) -> Running {
    server.start(Arc::new(Nothing), Arc::new(Nothing)).unwrap()
}

fn verifier() -> Arc<FakeVerifier> {
    Arc::new(FakeVerifier::of([ROOT, SYNC].map(|name| (name, PASSWORD))))
}

/// What the role "Edge sync" holds (`crates/centre-setup/data/grants.json`), and what the cluster manager grants for the one cluster.
fn rights() -> Vec<Access> {
    let read = [
        application::K8S_RESOURCE_TEMPLATE,
        application::HELM_CHART_TEMPLATE,
        application::EDGE_DEPLOYMENT,
        application::EDGE_CLUSTER_STATUS,
    ];
    let read = read.map(|target| Access { permission: permission::READ_CONFIG, target });
    let write = Access { permission: permission::WRITE_EDGE_CLUSTER_STATUS, target: CLUSTER };
    read.into_iter().chain([write]).collect()
}

fn access() -> AccessConfig {
    AccessConfig { root: Some(ROOT.parse().unwrap()), fixed: [(SYNC.parse().unwrap(), rights())].into() }
}

fn site(directory: &str, config_db: &str, git: &str) -> Site {
    let urls = BTreeMap::from([
        ("directory", directory),
        ("config_db", config_db),
        ("git", git),
        ("auth", "https://auth.example.org"),
        ("cluster_manager", "https://clusters.example.org"),
        ("mqtt", "mqtts://mqtt.example.org"),
    ]);
    serde_json::from_value(json!({
        "realm": REALM, "domain": "example.org", "prefix": "ACME", "administrator": "admin", "urls": urls,
    }))
    .unwrap()
}

impl Centre {
    pub(crate) fn start() -> Self {
        let port = Port::reserve();
        let address = port.address();
        Self::start_at(port, address)
    }

    /// The same with something before the configuration database that Edge Sync has to pass, and the test has not.
    pub(crate) fn start_behind() -> (Self, Front) {
        let port = Port::reserve();
        let front = Front::before(port.address());
        (Self::start_at(port, front.way.address()), front)
    }

    /// With a configuration database that listens at `port`, and that the directory says to be at `advertised`.
    fn start_at(port: Port, advertised: SocketAddr) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let git = "https://git.example.org".to_owned();
        let config_db = format!("http://{advertised}");
        let advertise = |service: Uuid, url: &str| {
            let entry: Advertisement = serde_json::from_value(json!({"service": service, "url": url})).unwrap();
            (service, entry.advertised())
        };
        let advertised = Advertised::new([advertise(service::CONFIG_DB, &config_db), advertise(service::GIT, &git)]);
        let keeper = Keeper::open(&folder.path().join("directory"), advertised).unwrap();
        let lists = Arc::new(AccessLists::new(&access(), &client(ROOT, Services::default())));
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let realm = REALM.parse().unwrap();
        let directory =
            start(directory_server(&listen(any), realm, verifier(), (keeper, Rules::default(), lists)).unwrap());
        let url = format!("http://{}", directory.address());
        let local = Local::new();
        let setup = Setup::new(&site(&url, &config_db, &git), &local).unwrap();
        let direct = format!("http://{}", port.address()).parse().unwrap();
        let mut centre = Self {
            local,
            git,
            port,
            directory: directory.address(),
            services: Services::directory(url.parse().unwrap()).with(service::CONFIG_DB, direct),
            folder,
            config_db: None,
            _directory: directory,
        };
        centre.start_config_db();
        block_on(async {
            let db = centre.db();
            db.load(&serde_json::to_value(&setup.config_db).unwrap()).await.unwrap();
            db.create_object(class::EDGE_CLUSTER, Some(CLUSTER)).await.unwrap();
        });
        centre
    }

    /// Starts the configuration database, or starts it again with its data.
    pub(crate) fn start_config_db(&mut self) {
        self.stop_config_db();
        let database = latchkey_config_db::ConfigDb::start(Embedded::at(self.folder.path().join("config-db"))).unwrap();
        let asking = client(ROOT, self.services.clone());
        let callers = Callers::new(AccessLists::new(&access(), &asking), &asking);
        let realm = REALM.parse().unwrap();
        let server = config_db_server(&listen(self.port.address()), realm, verifier(), &database, &callers);
        self.config_db = Some(start(server.unwrap()));
    }

    pub(crate) fn stop_config_db(&mut self) {
        self.config_db = None;
    }

    pub(crate) fn directory(&self) -> String {
        format!("http://{}", self.directory)
    }

    /// A client as Edge Sync has it.
    pub(crate) fn as_sync(&self) -> Client {
        client(SYNC, Services::directory(self.directory().parse().unwrap()))
    }

    /// The file with Edge Sync's password.
    pub(crate) fn password_file(&self) -> std::path::PathBuf {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.folder.path().join("password");
        std::fs::write(&path, PASSWORD).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    pub(crate) fn db(&self) -> ConfigDb {
        ConfigDb::of(&client(ROOT, self.services.clone()))
    }

    pub(crate) fn put(&self, app: Uuid, object: Uuid, entry: &Value) {
        block_on(self.db().put_entry(app, object, entry, &Precondition::None)).unwrap();
    }

    /// Makes an object, and a deployment of it.
    pub(crate) fn deploy(&self, entry: &Value) -> Uuid {
        let (_, object) = block_on(self.db().create_object(class::EDGE_DEPLOYMENT, None)).unwrap();
        self.put(application::EDGE_DEPLOYMENT, object.uuid, entry);
        object.uuid
    }

    pub(crate) fn remove(&self, app: Uuid, object: Uuid) {
        assert!(block_on(self.db().delete_entry(app, object, &Precondition::None)).unwrap());
    }

    pub(crate) fn status(&self) -> Option<Value> {
        let entry = block_on(self.db().entry(application::EDGE_CLUSTER_STATUS, CLUSTER)).unwrap();
        entry.map(|(entry, _)| entry)
    }

    /// Who follows what Edge Sync tells.
    pub(crate) fn watch(&self) -> Told {
        Told(self.db().watch_entry(application::EDGE_CLUSTER_STATUS, CLUSTER))
    }

    /// Waits until Edge Sync has told what `look` finds.
    pub(crate) fn until<T>(&self, what: &str, look: impl Fn(&Value) -> Option<T>) -> T {
        self.watch().until(what, look)
    }
}

pub(crate) struct Told(Watch);

impl Told {
    pub(crate) fn until<T>(&mut self, what: &str, look: impl Fn(&Value) -> Option<T>) -> T {
        block_on(within(what.to_owned(), async {
            loop {
                let body = self.0.reading().and_then(|reading| reading.body);
                if let Some(found) = body.as_deref().and_then(&look) {
                    return found;
                }
                self.0.changed().await;
            }
        }))
    }
}
