//! The programs themselves: auth, directory and configuration database, with a real KDC.

#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use latchkey_factory_plus::uuids::{account, application, class, permission, service, special};
use latchkey_factory_plus::{Upn, Uuid};
use latchkey_factory_plus_client::{
    Auth, CallError, Client, ConfigDb, Directory, Identity, Insecure, Limits, Services, Settings, Trust,
};
use latchkey_kdc_rig::{Kdc, REALM};
use latchkey_test_support::{Lines, Port, block_on, output, skip, spawn, within};
use serde_json::{Value, json};
use tempfile::TempDir;

const PASSWORD: &str = "right";
const ALICE: Uuid = Uuid::constant("8b3e8f35-78e5-4f93-bf21-7238bcb2ba99");

/// A program of this workspace, beside ours; none, where it was not built.
fn program(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_BIN_EXE_latchkey-auth")).with_file_name(name);
    if path.exists() {
        return Some(path);
    }
    skip(format_args!("{name} is not built: cargo build --package {name}"));
    None
}

/// A program that runs.
struct Running {
    child: Child,
    _lines: Lines,
}

impl Running {
    fn start(program: &Path, config: &Path) -> Self {
        Self::start_as(Command::new(program), program, config)
    }

    /// One whose files can be given a limit, as a full disk gives them: it ignores the signal that a longer file would send.
    fn start_limitable(program: &Path, config: &Path) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"]).arg(program);
        Self::start_as(command, program, config)
    }

    /// A limit in bytes for each file that it writes, or none.
    fn limit(&self, limit: Option<u64>) {
        let limit = limit.map_or("unlimited".to_owned(), |limit| limit.to_string());
        let mut prlimit = Command::new("prlimit");
        prlimit.arg(format!("--fsize={limit}:unlimited")).arg("--pid").arg(self.child.id().to_string());
        assert!(output(&mut prlimit).unwrap().status.success());
    }

    fn start_as(mut command: Command, program: &Path, config: &Path) -> Self {
        let log = config.with_extension("log");
        let errors = fs::File::create(&log).unwrap();
        command.arg("--config").arg(config).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
        let mut child = spawn(command).unwrap();
        let lines = Lines::of(child.stdout.take().unwrap());
        let ready = lines.find("READY", &mut Vec::new(), |line| line.starts_with("READY"));
        assert!(ready.is_some(), "{} ended: {}", program.display(), fs::read_to_string(log).unwrap());
        Self { child, _lines: lines }
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

struct Centre {
    kdc: Kdc,
    folder: TempDir,
    ports: [Port; 3],
}

/// In the order of the ports.
const PROGRAMS: [&str; 3] = ["config-db", "auth", "directory"];

impl Centre {
    fn new(kdc: Kdc) -> Self {
        for name in ["sv1setup", "sv1auth", "sv1directory", "sv1configdb", "alice"] {
            kdc.add(name, PASSWORD);
        }
        let folder = tempfile::tempdir().unwrap();
        let centre = Self { kdc, folder, ports: [Port::reserve(), Port::reserve(), Port::reserve()] };
        let mut password =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(centre.path("password")).unwrap();
        password.write_all(PASSWORD.as_bytes()).unwrap();
        centre
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn url(&self, of: usize) -> String {
        format!("http://127.0.0.1:{}", self.ports[of].number())
    }

    /// The configuration of a program, in a folder of its own.
    fn config(&self, of: usize, helper: &Path, keytab: &Path) -> PathBuf {
        let folder = self.path(PROGRAMS[of]);
        fs::create_dir_all(&folder).unwrap();
        let account = ["sv1configdb", "sv1auth", "sv1directory"][of];
        let wild = |held: Uuid| json!({"permission": held, "target": special::WILDCARD});
        let fixed = match of {
            0 => json!({format!("sv1auth@{REALM}"): [wild(permission::READ_CONFIG), wild(permission::READ_MEMBERS)]}),
            1 => json!({
                format!("sv1configdb@{REALM}"): [wild(permission::READ_ACL)],
                format!("sv1directory@{REALM}"): [wild(permission::READ_ACL)],
            }),
            _ => json!({}),
        };
        let mut config = json!({
            "schema": 1,
            "http": {
                "listen": [SocketAddr::from(([127, 0, 0, 1], self.ports[of].number()))],
                "admin_listen": "127.0.0.1:0",
                "insecure": true,
            },
            "kerberos": {
                "realm": REALM, "service": "HTTP/localhost", "keytab": keytab, "replay_cache": "replays",
                "helper": helper, "krb5_config": self.kdc.krb5_config(),
            },
            "centre": {
                "principal": format!("{account}@{REALM}"), "password_file": self.path("password"), "insecure": true,
                "services": {"config_db": self.url(0), "auth": self.url(1), "directory": self.url(2)},
            },
            "access": {"root": format!("sv1setup@{REALM}"), "fixed": fixed},
            "data": "data",
        });
        if of == 1 {
            config["broker_socket"] = json!("broker");
        }
        if of == 2 {
            config["advertisements"] = json!([{"service": service::AUTH, "url": self.url(1)}]);
        }
        let file = folder.join("config.json");
        fs::write(&file, config.to_string()).unwrap();
        file
    }

    fn client(&self, name: &str) -> Client {
        let services = Services::directory(self.url(2).parse().unwrap());
        client(name, services.with(service::CONFIG_DB, self.url(0).parse().unwrap()))
    }
}

fn client(name: &str, services: Services) -> Client {
    let identity = Identity::basic(&format!("{name}@{REALM}").parse().unwrap(), &PASSWORD.to_owned().into()).unwrap();
    Client::new(Settings { identity, trust: Trust::none().allowing(Insecure), services, limits: Limits::default() })
}

fn objects() -> Value {
    let permissions = [permission::READ_ACL, permission::READ_KERBEROS, permission::PARTICIPATE_AS_NODE];
    let permissions: serde_json::Map<_, _> =
        permissions.map(|held| (held.to_string(), json!({}))).into_iter().collect();
    json!({
        "service": service::CONFIG_DB,
        "version": 2,
        "objects": {
            class::RANK_1.to_string(): {class::PRINCIPAL.to_string(): {}, class::PERMISSION.to_string(): {}},
            class::PRINCIPAL.to_string(): {ALICE.to_string(): {}, account::DIRECTORY.to_string(): {}},
            class::PERMISSION.to_string(): permissions,
            class::APPLICATION.to_string(): {
                application::SPARKPLUG_ADDRESS.to_string(): {},
                application::MQTT_PERMISSION_TEMPLATE.to_string(): {},
            },
        },
        "configs": {
            application::SPARKPLUG_ADDRESS.to_string(): {ALICE.to_string(): {"group_id": "North", "node_id": "A"}},
            application::MQTT_PERMISSION_TEMPLATE.to_string(): {
                permission::PARTICIPATE_AS_NODE.to_string(): {"spBv1.0/%g/NDATA/%n": "w", "spBv1.0/%g/NCMD/%n": "r"},
            },
        },
    })
}

#[test]
fn a_centre_knows_its_people_and_forgets_nothing_when_it_is_killed() {
    let names = ["latchkey-kerberos-helper", "latchkey-config-db", "latchkey-directory"];
    let [Some(helper), Some(config_db), Some(directory)] = names.map(program) else { return };
    let Some(kdc) = Kdc::start_or_skip() else { return };
    let keytab = kdc.keytab(&["HTTP/localhost"]);
    let auth = PathBuf::from(env!("CARGO_BIN_EXE_latchkey-auth"));
    let centre = Centre::new(kdc);
    let configs = [0, 1, 2].map(|of| centre.config(of, &helper, &keytab));
    let checked = output(Command::new(&auth).arg("--check").arg("--config").arg(&configs[1])).unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let _config_db = Running::start(&config_db, &configs[0]);
    let running = Running::start(&auth, &configs[1]);
    let _directory = Running::start(&directory, &configs[2]);

    let root = centre.client("sv1setup");
    let granted = json!({
        permission::READ_ACL.to_string(): null,
        permission::READ_KERBEROS.to_string(): null,
        permission::PARTICIPATE_AS_NODE.to_string(): {special::SELF.to_string(): false},
    });
    let dump = json!({
        "service": service::AUTH,
        "version": 2,
        "identities": {ALICE.to_string(): {"kerberos": format!("alice@{REALM}")}},
        "grants": {class::PRINCIPAL.to_string(): granted},
    });
    block_on(async {
        ConfigDb::of(&root).load(&objects()).await.unwrap();
        Auth::of(&root).service().post_only("load", &dump).await.unwrap();
    });
    let alice = Auth::of(&centre.client("alice"));
    let name: Upn = format!("alice@{REALM}").parse().unwrap();
    let lines = || {
        let alice = alice.clone();
        let name = name.clone();
        block_on(within("alice's access list", async move {
            loop {
                match alice.acl(&name).await {
                    Ok(list) if !list.is_empty() => return list.len(),
                    // Classes are on their way, or the program starts.
                    Ok(_)
                    | Err(CallError::Forbidden { .. } | CallError::Unreachable { .. } | CallError::Refused { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
                smol::future::yield_now().await;
            }
        }))
    };
    assert_eq!(lines(), 3);
    running.kill();
    let _running = Running::start(&auth, &configs[1]);
    assert_eq!(lines(), 3);
    block_on(async {
        assert_eq!(alice.whoami().await.unwrap().unwrap().uuid, Some(ALICE));
        assert!(matches!(alice.put_kerberos(ALICE, &"x@R".parse().unwrap()).await, Err(CallError::Forbidden { .. })));
        let found = Directory::of(&centre.client("alice")).services(service::AUTH).await.unwrap();
        assert_eq!(found.len(), 1);
        // The directory asks auth what alice may: not this.
        let path = format!("v1/service/{}/advertisment", service::GIT);
        let put = centre.client("alice").service(service::DIRECTORY);
        let body = json!({"url": "http://elsewhere.example"});
        let refused = put.put(&path, &body, &latchkey_factory_plus_client::Precondition::None).await;
        assert!(matches!(refused, Err(CallError::Forbidden { .. })), "{refused:?}");
        let told =
            root.service(service::DIRECTORY).put(&path, &body, &latchkey_factory_plus_client::Precondition::None).await;
        assert!(told.is_ok(), "{told:?}");
    });
    topics_are_those_of_templates(&centre.path("auth").join("broker"), name.as_str());
}

#[test]
fn a_full_disk_is_503_and_loses_nothing_and_writes_go_on_when_there_is_room() {
    let Some(helper) = program("latchkey-kerberos-helper") else { return };
    let Some(kdc) = Kdc::start_or_skip() else { return };
    let keytab = kdc.keytab(&["HTTP/localhost"]);
    let auth = PathBuf::from(env!("CARGO_BIN_EXE_latchkey-auth"));
    let centre = Centre::new(kdc);
    let config = centre.config(1, &helper, &keytab);
    let running = Running::start_limitable(&auth, &config);
    let file = centre.path("auth").join("data");
    running.limit(Some(fs::metadata(&file).unwrap().len()));
    let root = || {
        let services = Services::fixed([(service::AUTH, centre.url(1).parse().unwrap())]);
        Auth::of(&client("sv1setup", services))
    };
    let principal = |number: u32| Uuid::NIL.named(&number.to_string());
    let name = |number: u32| format!("nd{number}/{}@{REALM}", "x".repeat(100)).parse().unwrap();
    let service = root();
    let mut kept = Vec::new();
    let refused = block_on(within("a full disk", async {
        loop {
            let number = u32::try_from(kept.len()).unwrap();
            match service.put_kerberos(principal(number), &name(number)).await {
                Ok(()) => kept.push(number),
                Err(error) => return error.to_string(),
            }
        }
    }));
    let log = fs::read_to_string(config.with_extension("log")).unwrap();
    assert!(refused.contains("503") && refused.contains("disk"), "{refused}\n{log}");
    assert!(!kept.is_empty());
    let next = u32::try_from(kept.len()).unwrap();
    let all = |service: &Auth| {
        for number in &kept {
            assert_eq!(block_on(service.identity(&name(*number))).unwrap(), Some(principal(*number)));
        }
        block_on(service.identity(&name(next))).unwrap()
    };
    assert_eq!(all(&service), None, "what was refused is not there");
    running.limit(None);
    block_on(service.put_kerberos(principal(next), &name(next))).unwrap();
    running.kill();
    let _running = Running::start(&auth, &config);
    assert_eq!(all(&root()), Some(principal(next)));
}

/// Asks as the broker's plugin does: a line, and a line.
fn asked(socket: &Path, question: &Value) -> Value {
    let mut stream = UnixStream::connect(socket).unwrap();
    writeln!(stream, "{question}").unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    serde_json::from_str(&answer).unwrap()
}

fn topics_are_those_of_templates(socket: &Path, name: &str) {
    let connect = |user: &str, password: &str| {
        asked(socket, &json!({"connect": {"username": user, "password": password, "address": "192.0.2.1"}}))
    };
    let access = |access: &str, topic: &str| json!({"filter": topic, "access": access});
    let topics = json!([access("r", "spBv1.0/North/NCMD/A"), access("w", "spBv1.0/North/NDATA/A")]);
    // Templates and addresses are heard of for themselves, perhaps after the classes.
    let first = block_on(within("templates", async {
        loop {
            let answer = connect("alice", PASSWORD);
            if answer["refused"]["outage"] != json!(true) {
                return answer;
            }
            smol::future::yield_now().await;
        }
    }));
    assert_eq!(first, json!({"allowed": {"principal": name, "topics": topics}}));
    assert_eq!(asked(socket, &json!({"refresh": {"principal": name}})), first);
    let wrong = connect("alice", "wrong");
    assert_eq!(wrong, json!({"refused": {"code": "kerberos-wrong-password", "outage": false}}));
    let nobody = connect("sv1configdb", PASSWORD);
    assert_eq!(nobody["refused"], json!({"code": "broker-no-topics", "outage": false}), "nobody here is called so");
    assert_eq!(connect("a b", PASSWORD)["refused"]["code"], "auth-name-not-accepted");
}
