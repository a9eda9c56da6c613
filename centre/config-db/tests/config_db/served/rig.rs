//! Both services in this process, over real sockets, and a client that shows statuses and headers as they come.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;

use async_tungstenite::WebSocketStream;
use async_tungstenite::tungstenite::Message;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_auth::api::{Ask, Method};
use latchkey_auth::keeper::Keeper;
use latchkey_auth::rights::Rules;
use latchkey_auth::{Realms, server as auth_server};
use latchkey_centre_service::{AccessConfig, AccessLists};
use latchkey_config_db::engine::Embedded;
use latchkey_config_db::server::{Callers, server};
use latchkey_config_db::{ConfigDb, Uuid};
use latchkey_factory_plus::grants::Access;
use latchkey_factory_plus::uuids::class::{APPLICATION, PERMISSION, PRINCIPAL, RANK_1};
use latchkey_factory_plus::uuids::permission::{READ_ACL, READ_KERBEROS};
use latchkey_factory_plus::uuids::special::WILDCARD;
use latchkey_factory_plus::uuids::{permission, service};
use latchkey_factory_plus::{Realm, Upn};
use latchkey_factory_plus_client::{Client, Identity, Insecure, Limits, Services, Settings, Trust};
use latchkey_factory_plus_server::testing::FakeVerifier;
use latchkey_factory_plus_server::{HttpConfig, Nothing, Running};
use latchkey_test_support::{PATIENCE, block_on, within};
use serde_json::{Value, json};
use smol::stream::StreamExt as _;
use tempfile::TempDir;

pub(crate) const CLASS: Uuid = Uuid::constant("c0000000-0000-4000-8000-000000000001");
pub(crate) const OTHER: Uuid = Uuid::constant("c0000000-0000-4000-8000-000000000002");
pub(crate) const APP: Uuid = Uuid::constant("a0000000-0000-4000-8000-000000000001");
pub(crate) const X: Uuid = Uuid::constant("00000000-0000-4000-8000-00000000000a");
pub(crate) const Y: Uuid = Uuid::constant("00000000-0000-4000-8000-00000000000b");
pub(crate) const Z: Uuid = Uuid::constant("00000000-0000-4000-8000-00000000000c");

/// Passes every check.
pub(crate) const ROOT: &str = "root@R";
/// Its access list is the authorisation service's, where it has the UUID [`MANAGER_UUID`].
pub(crate) const MANAGER: &str = "sv1clusters@R";
pub(crate) const MANAGER_UUID: Uuid = Uuid::constant("26d192cf-73c1-4c14-93cf-1e63743bab99");
/// This service's own account.
const OWN: &str = "sv1configdb@R";
pub(crate) const PASSWORD: &str = "right";

/// Permission and target.
pub(crate) type Held = (Uuid, Uuid);

pub(crate) struct Rig {
    keeper: Keeper,
    running: Running,
    _auth: Running,
    _folder: TempDir,
}

pub(crate) fn realm() -> Realm {
    "R".parse().unwrap()
}

pub(crate) fn loopback() -> HttpConfig {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    serde_json::from_value(json!({"listen": [any], "admin_listen": any, "insecure": true})).unwrap()
}

fn lines(held: &[Held]) -> Vec<Access> {
    held.iter().map(|(permission, target)| Access { permission: *permission, target: *target }).collect()
}

impl Rig {
    /// With these principals, who hold this.
    pub(crate) fn with<'a>(users: impl IntoIterator<Item = (&'a str, &'a [Held])>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let fixed: BTreeMap<Upn, Vec<Access>> =
            users.into_iter().map(|(name, held)| (name.parse().unwrap(), lines(held))).collect();
        let names = fixed.keys().map(Upn::as_str).chain([ROOT, MANAGER, OWN]);
        let verifier = Arc::new(FakeVerifier::of(names.map(|name| (name, PASSWORD))));
        let nothing = || (Arc::new(Nothing), Arc::new(Nothing));

        let rules = Rules {
            realms: Realms::new(realm(), BTreeSet::new()),
            root: Some(ROOT.parse().unwrap()),
            fixed: [(OWN.parse().unwrap(), lines(&[(READ_ACL, WILDCARD), (READ_KERBEROS, WILDCARD)]).into())].into(),
        };
        let keeper = Keeper::open(&folder.path().join("auth"), rules).unwrap();
        let permissions = [
            permission::READ_CONFIG,
            permission::WRITE_CONFIG,
            permission::CREATE_OBJECT,
            permission::CREATE_SPECIFIC_OBJECT,
            permission::WRITE_MEMBERS,
            permission::WRITE_MEMBERSHIPS,
            permission::WRITE_SUBCLASSES,
            permission::WRITE_SUPERCLASSES,
            permission::TAKE_FROM,
        ];
        let classes = vec![(PERMISSION, BTreeSet::from(permissions)), (PRINCIPAL, BTreeSet::from([MANAGER_UUID]))];
        keeper.heard(classes, Vec::new(), true);
        let (pages, reload) = nothing();
        let auth = auth_server::server(&loopback(), realm(), verifier.clone(), &keeper).unwrap();
        let auth = auth.start(pages, reload).unwrap();

        let client = Client::new(Settings {
            identity: Identity::basic(&OWN.parse().unwrap(), &PASSWORD.to_owned().into()).unwrap(),
            trust: Trust::none().allowing(Insecure),
            services: Services::fixed([(service::AUTH, format!("http://{}", auth.address()).parse().unwrap())]),
            limits: Limits::default(),
        });
        let access = AccessConfig { root: Some(ROOT.parse().unwrap()), fixed };
        let callers = Callers::new(AccessLists::new(&access, &client), &client);
        let database = ConfigDb::start(Embedded::at(folder.path().join("config-db"))).unwrap();
        let served = server(&loopback(), realm(), verifier, &database, &callers).unwrap();
        let (pages, reload) = nothing();
        let running = served.start(pages, reload).unwrap();
        let rig = Self { keeper, running, _auth: auth, _folder: folder };
        rig.grant(&[]);
        for (class, uuid) in [(RANK_1, CLASS), (RANK_1, OTHER), (APPLICATION, APP), (CLASS, X), (CLASS, Y), (CLASS, Z)]
        {
            assert_eq!(rig.root("POST", "/v2/object", &json!({"class": class, "uuid": uuid})).status, 201);
        }
        rig
    }

    pub(crate) fn new() -> Self {
        Self::with([])
    }

    /// All that [`MANAGER`] holds from now on.
    pub(crate) fn grant(&self, held: &[Held]) {
        let mut grants: BTreeMap<String, Value> = BTreeMap::new();
        for (permission, target) in held {
            let targets = grants.entry(permission.to_string()).or_insert_with(|| json!({}));
            targets[target.to_string()] = json!(false);
        }
        let dump = json!({
            "service": service::AUTH,
            "version": 2,
            "identities": {MANAGER_UUID.to_string(): {"kerberos": MANAGER}},
            "grants": {MANAGER_UUID.to_string(): grants},
        });
        let asked = Ask::read(Method::Post, "/load", dump.to_string().as_bytes()).unwrap();
        let answer = block_on(self.keeper.ask(ROOT.parse().unwrap(), asked));
        assert_eq!(answer.status, 200, "{answer:?}");
    }

    /// A request of root with a JSON body.
    pub(crate) fn root(&self, method: &str, path: &str, body: &Value) -> Reply {
        self.ask(ROOT, method, path, &[], Some(body))
    }

    /// A request with a JSON body, if there is one: that of a PATCH is a merge patch.
    pub(crate) fn ask(
        &self,
        user: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Reply {
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let body = body.map(|body| (kind, body.to_string()));
        let body = body.as_ref().map(|(kind, text)| (*kind, text.as_str()));
        self.send(&format!("Basic {}", STANDARD.encode(format!("{user}:{PASSWORD}"))), method, path, headers, body)
    }

    pub(crate) fn get(&self, user: &str, path: &str) -> Reply {
        self.ask(user, "GET", path, &[], None)
    }

    /// One request on a connection of its own.
    pub(crate) fn send(
        &self,
        authorization: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<(&str, &str)>,
    ) -> Reply {
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n");
        let mut add = |name: &str, value: &str| request.extend([name, ": ", value, "\r\n"]);
        add("Authorization", authorization);
        for (name, value) in headers {
            add(name, value);
        }
        if let Some((kind, text)) = body {
            add("Content-Type", kind);
            add("Content-Length", &text.len().to_string());
        } else if method != "GET" && method != "HEAD" {
            add("Content-Length", "0");
        }
        request.push_str("\r\n");
        request.push_str(body.map_or("", |(_, text)| text));
        let mut stream = TcpStream::connect(self.running.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut read = String::new();
        stream.read_to_string(&mut read).unwrap();
        Reply::parse(&read)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.running.address()
    }

    pub(crate) fn token(&self, user: &str) -> String {
        let reply = self.ask(user, "POST", "/token", &[], None);
        reply.json()["token"].as_str().unwrap().to_owned()
    }

    /// The etag of an entry, in its quotes.
    pub(crate) fn etag(&self, object: Uuid) -> String {
        self.get(ROOT, &entry(object)).header("etag").unwrap().to_owned()
    }

    /// A WebSocket that has said who it is.
    pub(crate) async fn socket(&self, user: &str) -> Socket {
        let mut socket = self.open_socket().await;
        socket.say(&format!("Bearer {}", self.token(user))).await;
        assert_eq!(socket.text().await, "200");
        socket
    }

    /// A WebSocket that has said nothing.
    pub(crate) async fn open_socket(&self) -> Socket {
        let address = self.running.address();
        let stream = smol::net::TcpStream::connect(address).await.unwrap();
        let (socket, _) = async_tungstenite::client_async(format!("ws://{address}/notify/v2"), stream).await.unwrap();
        Socket(socket)
    }
}

/// The path of an entry of [`APP`].
pub(crate) fn entry(object: Uuid) -> String {
    format!("/v2/app/{APP}/object/{object}")
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Reply {
    fn parse(read: &str) -> Self {
        let (head, body) = read.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no response: {read:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head: head.to_owned(), body: body.to_owned() }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The JSON of a list, as strings in order.
    pub(crate) fn list(&self) -> BTreeSet<String> {
        serde_json::from_value(self.json()).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

pub(crate) struct Socket(WebSocketStream<smol::net::TcpStream>);

impl Socket {
    pub(crate) async fn say(&mut self, text: &str) {
        self.0.send(Message::text(text)).await.unwrap();
    }

    /// The next text; nothing after the last.
    pub(crate) async fn next_text(&mut self) -> Option<String> {
        loop {
            match within("a frame", self.0.next()).await {
                Some(Ok(Message::Text(text))) => return Some(text.to_string()),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                Some(Ok(other)) => panic!("{other:?}"),
            }
        }
    }

    pub(crate) async fn text(&mut self) -> String {
        self.next_text().await.unwrap()
    }

    pub(crate) async fn update(&mut self) -> Value {
        serde_json::from_str(&self.text().await).unwrap()
    }

    /// Watches, and gives the first update.
    pub(crate) async fn watch(&mut self, uuid: Uuid, url: &str) -> Value {
        self.say(&json!({"uuid": uuid, "method": "WATCH", "request": {"url": url}}).to_string()).await;
        self.update().await
    }

    /// Searches the entries of [`APP`], and gives the first update.
    pub(crate) async fn search(&mut self, uuid: Uuid, filter: Option<Value>) -> Value {
        let mut request = json!({"uuid": uuid, "method": "SEARCH", "parent": format!("v2/app/{APP}/object/")});
        if let Some(filter) = filter {
            request["filter"] = filter;
        }
        self.say(&request.to_string()).await;
        self.update().await
    }
}
