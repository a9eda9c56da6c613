//! The service, in a process of its own.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;

use latchkey_centre_service::{AccessConfig, AccessLists};
use latchkey_config_db::engine::{Embedded, Engine, Postgres};
use latchkey_config_db::server::{Callers, server};
use latchkey_config_db::{Caller, ConfigDb, Json, Preconditions, Uuid, Write};
use latchkey_factory_plus::grants::Access;
use latchkey_factory_plus::uuids::class::{APPLICATION, INDIVIDUAL};
use latchkey_factory_plus::uuids::permission::{READ_CONFIG, WRITE_CONFIG};
use latchkey_factory_plus::uuids::service::AUTH;
use latchkey_factory_plus_client::{Client, Identity, Insecure, Limits, Services, Settings, Trust};
use latchkey_factory_plus_server::testing::FakeVerifier;
use latchkey_factory_plus_server::{HttpConfig, Nothing};
use latchkey_test_support::spawn;
use serde_json::json;

use crate::content::{APP, ENTRIES, WATCHED, WATCHED_ENTRIES, object, value};

/// The argument before the place.
pub(crate) const SERVE: &str = "--serve";
/// Names the program that serves, where it is not this one: the same, built for another target.
const SERVER: &str = "LATCHKEY_BENCH_SERVER";
const GRANTS: u8 = 50;

pub(crate) struct Service {
    pub(crate) address: SocketAddr,
    process: Child,
    /// It ends when this does.
    input: Option<ChildStdin>,
}

impl Service {
    pub(crate) fn start(place: &str) -> Self {
        let server = std::env::var_os(SERVER).map_or_else(|| std::env::current_exe().unwrap(), PathBuf::from);
        let mut command = Command::new(server);
        command.arg(SERVE).arg(place).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = spawn(command).unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let input = process.stdin.take();
        Self { address: line.trim().parse().unwrap(), process, input }
    }

    pub(crate) fn token(&self) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        // admin:pw
        let head = "POST /token HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\nAuthorization: Basic YWRtaW46cHc=\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply.split("\"token\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
    }

    /// Resident memory of the process now.
    pub(crate) fn memory(&self) -> u64 {
        latchkey_bench::memory_of(self.process.id()).unwrap()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.input.take());
        drop(self.process.wait());
    }
}

/// A place is a directory, or the connection string of a `PostgreSQL`.
fn database(place: &str) -> ConfigDb {
    let engine: Box<dyn Engine> = if place.starts_with("host=") {
        Box::new(Postgres::at(place).unwrap())
    } else {
        Box::new(Embedded::at(Path::new(place).join("config-db")))
    };
    ConfigDb::start(engine).unwrap()
}

/// All entries, by another process than that whose memory is measured.
pub(crate) fn fill(place: &str) {
    let database = database(place);
    let root = |write| database.write(Caller::root(), write);
    let create = |class, uuid| Write::CreateObject { class, uuid: Some(uuid) };
    let put = |app, number| Write::Put(app, object(number), Json::of(&value(number)), Preconditions::default());
    let numbers = || 0..ENTRIES;
    let writes = [APP, WATCHED].map(|app| create(APPLICATION, app)).into_iter();
    let writes = writes.chain(numbers().map(|number| create(INDIVIDUAL, object(number))));
    let writes = writes.chain(numbers().map(|number| put(APP, number)));
    let writes: Vec<Write> = writes.chain((0..WATCHED_ENTRIES).map(|number| put(WATCHED, number))).collect();
    smol::block_on(async {
        let mut writes = writes.into_iter().peekable();
        while writes.peek().is_some() {
            let group: Vec<_> = writes.by_ref().take(1000).map(root).collect();
            for write in group {
                write.await.unwrap();
            }
        }
    });
}

/// Serves until its input ends.
pub(crate) fn serve(place: &str) {
    let config: HttpConfig = serde_json::from_value(json!({
        "listen": ["127.0.0.1:0"], "admin_listen": "127.0.0.1:0", "insecure": true
    }))
    .unwrap();
    let client = Client::new(Settings {
        identity: Identity::basic(&"sv1configdb@R".parse().unwrap(), &"pw".to_owned().into()).unwrap(),
        trust: Trust::none().allowing(Insecure),
        // Nobody asks: the one caller's permissions are known.
        services: Services::fixed([(AUTH, "http://127.0.0.1:1".parse().unwrap())]),
        limits: Limits::default(),
    });
    let access = AccessConfig { root: None, fixed: BTreeMap::from([("admin@R".parse().unwrap(), grants())]) };
    let callers = Callers::new(AccessLists::new(&access, &client), &client);
    let verifier = Arc::new(FakeVerifier::of([("admin@R", "pw")]));
    let database = database(place);
    let server = server(&config, "R".parse().unwrap(), verifier, &database, &callers).unwrap();
    let running = server.start(Arc::new(Nothing), Arc::new(Nothing)).unwrap();
    println!("{}", running.address());
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// Of which the last four are those that matter.
fn grants() -> Vec<Access> {
    let other = (4..GRANTS).map(|number| Access { permission: READ_CONFIG, target: Uuid::from_random([number; 16]) });
    let own = [APP, WATCHED]
        .into_iter()
        .flat_map(|target| [READ_CONFIG, WRITE_CONFIG].map(|permission| Access { permission, target }));
    other.chain(own).collect()
}
