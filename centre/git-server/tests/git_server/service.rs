//! The server on the HTTP server that it ships with: credentials, large bodies, change notification.

#![allow(clippy::unwrap_used, reason = "a rig that fails shall fail there")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use crate::rig::{FLUX, MANAGER, NORD, PASSWORD, SOUTH, commit, fail, front, git, is_sound, noise, rights, succeed};
use latchkey_centre_service::{AccessConfig, AccessLists};
use latchkey_factory_plus::uuids::service;
use latchkey_factory_plus_client::notify::Watch;
use latchkey_factory_plus_client::{Client, Identity, Insecure, Limits as ClientLimits, Services, Settings, Trust};
use latchkey_factory_plus_server::testing::FakeVerifier;
use latchkey_factory_plus_server::{About, HttpServer, Nothing, Running, Software};
use latchkey_git_server::backend::Limits;
use latchkey_git_server::git::GitLimits;
use latchkey_git_server::repositories::Repositories;
use latchkey_git_server::server::GitServer;
use latchkey_git_server::web::Web;
use latchkey_test_support::{block_on, output};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Access lists without an authorisation service: those of the rig.
fn lists() -> AccessLists {
    let fixed = USERS.map(|name| {
        let user = if name == FLUX { name } else { name.trim_end_matches("@EXAMPLE") };
        (name.parse().unwrap(), rights(user))
    });
    let access = AccessConfig { root: Some("root@EXAMPLE".parse().unwrap()), fixed: fixed.into() };
    AccessLists::new(&access, &client(Services::fixed([])))
}

fn client(services: Services) -> Client {
    let identity = Identity::basic(&FLUX.parse().unwrap(), &PASSWORD.to_owned().into()).unwrap();
    let (trust, limits) = (Trust::none().allowing(Insecure), ClientLimits::default());
    Client::new(Settings { identity, trust, services, limits })
}

const USERS: [&str; 5] = ["sv1clustermanager@EXAMPLE", FLUX, "admin@EXAMPLE", "root@EXAMPLE", "nobody@EXAMPLE"];

struct Service {
    directory: TempDir,
    web: Web,
    running: Running,
}

impl Service {
    /// `entries` are told to it, as the configuration database would.
    fn start(entries: Option<&[(latchkey_factory_plus::Uuid, Value)]>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let git = GitLimits::default();
        let repositories = Repositories::open(&directory.path().join("data"), git).unwrap();
        let server = GitServer::new(repositories, Limits::default());
        let web = Web::new(server, lists(), git, Duration::from_mins(5));
        if let Some(entries) = entries {
            web.all_entries(entries.iter().map(|(uuid, entry)| (*uuid, entry)));
        }
        let verifier = Arc::new(FakeVerifier::of(USERS.map(|name| (name, PASSWORD))));
        let config = json!({"listen": ["127.0.0.1:0"], "admin_listen": "127.0.0.1:0", "insecure": true});
        let about = About {
            version: "2.0.0",
            service: service::GIT,
            device: None,
            software: Software { vendor: "Latchkey", application: "test", revision: "0" },
        };
        let realm = "EXAMPLE".parse().unwrap();
        let config = serde_json::from_value(config).unwrap();
        let http = HttpServer::new(&config, about, realm, verifier, web.clone()).unwrap().feed(Arc::new(web.clone()));
        let running = http.start(Arc::new(Nothing), Arc::new(Nothing)).unwrap();
        Self { directory, web, running }
    }

    fn with_both() -> Self {
        Self::start(Some(&[(NORD, json!({"path": "cluster/Nord"})), (SOUTH, json!({"path": "cluster/South"}))]))
    }

    fn url(&self, user: &str, path: &str) -> String {
        let user = user.replace('/', "%2F").replace('@', "%40");
        format!("http://{user}:{PASSWORD}@{}/{path}", self.running.address())
    }

    fn nord(&self, user: &str) -> String {
        self.url(user, &format!("uuid/{NORD}"))
    }

    fn git(&self, arguments: &[&str]) -> Output {
        git(self.directory.path(), arguments)
    }

    fn working_copy(&self) -> PathBuf {
        succeed(self.git(&["clone", &self.nord(MANAGER), "copy"]));
        let copy = self.directory.path().join("copy");
        commit(&copy, "README.md", b"first");
        copy
    }

    fn page(&self, method: &str, user: &str, path: &str) -> u16 {
        front::request(self.running.address(), method, path, user).0
    }

    fn watch(&self, path: &str) -> Watch {
        let url = format!("http://{}", self.running.address()).parse().unwrap();
        client(Services::fixed([(service::GIT, url)])).service(service::GIT).notify().watch(path)
    }
}

#[test]
fn large_pushes_and_clones_go_through_the_http_server() {
    let service = Service::with_both();
    let copy = service.working_copy();
    let content = noise(30 << 20);
    commit(&copy, "large", &content);
    succeed(git(&copy, &["push", "origin", "main"]));
    is_sound(&service.directory.path().join("data").join(NORD.to_string()));
    succeed(service.git(&["clone", &service.url(FLUX, "git/cluster/Nord"), "second"]));
    assert!(fs::read(service.directory.path().join("second/large")).unwrap() == content);
}

#[test]
fn flux_clones_with_its_principal_and_password_sent_at_once() {
    let service = Service::with_both();
    let copy = service.working_copy();
    succeed(git(&copy, &["push", "origin", "main"]));
    let credentials = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, format!("{FLUX}:{PASSWORD}"));
    let header = format!("http.extraHeader=Authorization: Basic {credentials}");
    let url = format!("http://{}/uuid/{NORD}", service.running.address());
    succeed(service.git(&["-c", &header, "clone", "--depth=1", "--branch=main", &url, "flux"]));
    let south = url.replace(&NORD.to_string(), &SOUTH.to_string());
    let said = fail(service.git(&["-c", &header, "ls-remote", &south]));
    assert!(said.contains("403"), "{said}");
}

#[test]
fn who_is_not_known_is_asked_who_he_is() {
    let service = Service::with_both();
    let url = format!("http://{}/uuid/{NORD}", service.running.address());
    let said = fail(service.git(&["ls-remote", &url]));
    assert!(said.contains("could not read Username"), "{said}");
    let said = fail(service.git(&["ls-remote", &service.nord("stranger")]));
    assert!(said.contains("Authentication failed"), "{said}");
}

#[test]
fn statuses_are_those_of_the_contract() {
    let service = Service::with_both();
    let unknown = "/v1/status/cccccccc-0000-4000-8000-000000000003";
    for (method, user, path, status) in [
        ("GET", FLUX, format!("/v1/status/{NORD}"), 200),
        ("GET", FLUX, format!("/v1/status/{SOUTH}"), 403),
        ("GET", MANAGER, unknown.to_owned(), 404),
        ("GET", "root", unknown.to_owned(), 404),
        ("GET", "nobody", "/v1/status".to_owned(), 200),
        ("GET", "nobody", "/v1/storage".to_owned(), 403),
        ("GET", "admin", "/v1/storage".to_owned(), 200),
        ("DELETE", "admin", format!("/v1/storage/{NORD}"), 404),
        ("PUT", "admin", format!("/v1/storage/{NORD}"), 405),
        ("GET", MANAGER, "/nothing".to_owned(), 404),
        ("GET", MANAGER, format!("/uuid/{NORD}/HEAD"), 403),
        ("GET", MANAGER, format!("/uuid/{NORD}/objects/info/packs"), 403),
        ("GET", MANAGER, format!("/uuid/{NORD}/../{SOUTH}/info/refs?service=git-upload-pack"), 404),
        ("GET", "nobody", "/git/cluster/Nord/info/refs?service=git-upload-pack".to_owned(), 404),
        ("GET", "nobody", "/git/cluster/None/info/refs?service=git-upload-pack".to_owned(), 404),
    ] {
        assert_eq!(service.page(method, user, &path), status, "{method} {path} {user}");
    }
}

#[test]
fn nothing_is_said_not_to_exist_before_the_entries_were_read() {
    let service = Service::start(None);
    assert_eq!(service.page("GET", MANAGER, &format!("/v1/status/{NORD}")), 503);
    service.web.all_entries([(NORD, &json!({"path": "cluster/Nord"}))]);
    assert_eq!(service.page("GET", MANAGER, &format!("/v1/status/{NORD}")), 200);
}

#[test]
fn a_watcher_is_told_of_pushes_and_entries() {
    let service = Service::with_both();
    let mut watch = service.watch(&format!("v1/status/{NORD}"));
    let told = |watch: &mut Watch, wanted: (u16, Option<Value>)| {
        block_on(async {
            loop {
                let reading = watch.reading();
                let seen = reading.map(|reading| (reading.status, reading.body.map(|body| (*body).clone())));
                if seen.as_ref() == Some(&wanted) {
                    return;
                }
                watch.changed().await;
            }
        });
    };
    told(&mut watch, (200, Some(json!({}))));
    let copy = service.working_copy();
    let head = succeed(git(&copy, &["rev-parse", "HEAD"]));
    succeed(git(&copy, &["push", "origin", "main"]));
    told(&mut watch, (200, Some(json!({"main": head}))));
    service.web.entry(NORD, None);
    told(&mut watch, (404, None));
    service.web.entry(NORD, Some(&json!({"path": "cluster/Nord"})));
    told(&mut watch, (200, Some(json!({"main": head}))));
}

/// A directory with everything that the example's configuration names.
fn configured() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let config = json!({
        "schema": 1,
        "http": { "listen": ["127.0.0.1:0"], "admin_listen": "127.0.0.1:0", "insecure": true },
        "repositories": "repositories",
        "kerberos": {
            "realm": "EXAMPLE", "service": "HTTP/localhost",
            "helper": "helper", "keytab": "keytab", "replay_cache": "replays",
        },
        "centre": {
            "principal": "sv1git@EXAMPLE", "password_file": "password", "insecure": true,
            "services": { "auth": "http://127.0.0.1:1", "config_db": "http://127.0.0.1:2" },
        },
    });
    let file = directory.path().join("config.json");
    fs::write(&file, config.to_string()).unwrap();
    private(&directory.path().join("password"), PASSWORD);
    (directory, file)
}

fn private(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

fn check(file: &Path) -> Output {
    output(Command::new(env!("CARGO_BIN_EXE_latchkey-git-server")).arg("--config").arg(file).arg("--check")).unwrap()
}

#[test]
fn check_says_what_the_server_would_do_and_opens_nothing() {
    let (directory, file) = configured();
    let said = succeed(check(&file));
    assert!(said.contains("HTTP/localhost") && said.contains("without TLS"), "{said}");
    assert!(!directory.path().join("repositories").exists());
}

#[test]
fn a_password_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let (directory, file) = configured();
    fs::set_permissions(directory.path().join("password"), fs::Permissions::from_mode(0o644)).unwrap();
    let checked = check(&file);
    assert_eq!(checked.status.code(), Some(2));
    let said = fail(checked);
    assert!(said.contains("password"), "{said}");
}
