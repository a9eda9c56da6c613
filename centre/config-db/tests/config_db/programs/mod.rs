//! The program itself, with a real KDC: killed, with a full disk, and two of it on one `PostgreSQL`.

#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicI64, Ordering};

use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::uuids::class::{APPLICATION, INDIVIDUAL};
use latchkey_factory_plus::uuids::service;
use latchkey_factory_plus_client::{
    CallError, Client, ConfigDb, Identity, Insecure, Limits, Precondition, Service, Services, Settings, Trust,
};
use latchkey_kdc_rig::{Kdc, REALM};
use latchkey_test_support::{Lines, Port, block_on, output, skip, spawn, until, within};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::place::Place;

const PASSWORD: &str = "right";
const APP: Uuid = Uuid::constant("a0000000-0000-4000-8000-000000000001");
const X: Uuid = Uuid::constant("00000000-0000-4000-8000-00000000000a");
/// Runs a program whose files may have 4 MiB; the signal that a longer one would send is ignored, so that writes fail.
const WITH_LIMIT: [&str; 6] = ["sh", "-c", "trap '' XFSZ; exec \"$@\"", "sh", "prlimit", "--fsize=4194304:unlimited"];
const PROGRAM: &str = env!("CARGO_BIN_EXE_latchkey-config-db");

struct Rig {
    kdc: Kdc,
    helper: PathBuf,
    keytab: PathBuf,
    folder: TempDir,
}

struct Running {
    child: Child,
    _lines: Lines,
    _port: Port,
    url: String,
}

impl Rig {
    fn new_or_skip() -> Option<Self> {
        let helper = Path::new(PROGRAM).with_file_name("latchkey-kerberos-helper");
        if !helper.exists() {
            skip("latchkey-kerberos-helper is not built: cargo build --package latchkey-kerberos-helper");
            return None;
        }
        let kdc = Kdc::start_or_skip()?;
        for name in ["sv1setup", "sv1configdb"] {
            kdc.add(name, PASSWORD);
        }
        let keytab = kdc.keytab(&["HTTP/localhost"]);
        let folder = tempfile::tempdir().unwrap();
        let mut options = fs::OpenOptions::new();
        let mut password =
            options.write(true).create_new(true).mode(0o600).open(folder.path().join("password")).unwrap();
        password.write_all(PASSWORD.as_bytes()).unwrap();
        Some(Self { kdc, helper, keytab, folder })
    }

    /// The configuration of a program that keeps everything at `place`, in a folder of its own.
    fn config(&self, name: &str, port: &Port, place: &Value) -> PathBuf {
        let folder = self.folder.path().join(name);
        fs::create_dir_all(&folder).unwrap();
        let mut config = json!({
            "schema": 1,
            "http": {"listen": [port.address()], "admin_listen": "127.0.0.1:0", "insecure": true},
            "kerberos": {
                "realm": REALM, "service": "HTTP/localhost", "keytab": self.keytab, "replay_cache": "replays",
                "helper": self.helper, "krb5_config": self.kdc.krb5_config(),
            },
            "centre": {
                "principal": format!("sv1configdb@{REALM}"), "password_file": self.folder.path().join("password"),
                "insecure": true, "services": {"auth": "http://127.0.0.1:1"},
            },
            "access": {"root": format!("sv1setup@{REALM}")},
        });
        for (field, value) in place.as_object().unwrap() {
            config[field] = value.clone();
        }
        let file = folder.join("config.json");
        fs::write(&file, config.to_string()).unwrap();
        file
    }

    /// Starts the program, perhaps by another one that comes to it in the end.
    fn start(&self, name: &str, by: &[&str], place: &Value) -> Running {
        let port = Port::reserve();
        let config = self.config(name, &port, place);
        let (log, words) = (config.with_extension("log"), [by, &[PROGRAM]].concat());
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg("--config").arg(&config).stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(fs::File::create(&log).unwrap());
        let mut child = spawn(command).unwrap();
        let lines = Lines::of(child.stdout.take().unwrap());
        let ready = lines.find("READY", &mut Vec::new(), |line| line.starts_with("READY"));
        assert!(ready.is_some(), "it ended: {}", fs::read_to_string(log).unwrap());
        Running { child, _lines: lines, url: format!("http://127.0.0.1:{}", port.number()), _port: port }
    }
}

impl Running {
    fn client(&self) -> Client {
        let identity =
            Identity::basic(&format!("sv1setup@{REALM}").parse().unwrap(), &PASSWORD.to_owned().into()).unwrap();
        let services = Services::fixed([(service::CONFIG_DB, self.url.parse().unwrap())]);
        Client::new(Settings { identity, trust: Trust::none().allowing(Insecure), services, limits: Limits::default() })
    }

    fn service(&self) -> Service {
        self.client().service(service::CONFIG_DB)
    }

    fn fill(&self) {
        let made = json!({
            "service": service::CONFIG_DB, "version": 2,
            "objects": {APPLICATION.to_string(): {APP.to_string(): {}}, INDIVIDUAL.to_string(): {X.to_string(): {}}},
        });
        block_on(ConfigDb::of(&self.client()).load(&made)).unwrap();
    }

    /// Without a word to it, as a power failure of the process.
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

fn entry() -> String {
    format!("v2/app/{APP}/object/{X}")
}

async fn put(service: &Service, value: &Value) -> Result<(), CallError> {
    service.put(&entry(), value, &Precondition::None).await.map(drop)
}

async fn get(service: &Service) -> Option<Value> {
    service.read(&entry()).await.unwrap()
}

#[test]
fn nothing_that_was_acknowledged_is_lost_when_it_is_killed() {
    let Some(rig) = Rig::new_or_skip() else { return };
    let place = json!({"data": "data"});
    let port = Port::reserve();
    let config = rig.config("checked", &port, &place);
    let checked = output(Command::new(PROGRAM).arg("--check").arg("--config").arg(&config)).unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    rig.start("one", &[], &place).fill();
    let mut least = -1;
    for round in 0..5 {
        let running = rig.start("one", &[], &place);
        let service = running.service();
        let found = block_on(get(&service)).map_or(-1, |value| value["n"].as_i64().unwrap());
        assert!(found >= least, "round {round}: {least} was acknowledged, and {found} is there");
        let acknowledged = AtomicI64::new(found);
        // Killed in the middle of writes, not between them.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in found + 1.. {
                    if block_on(put(&service, &json!({"n": n}))).is_err() {
                        break;
                    }
                    acknowledged.store(n, Ordering::SeqCst);
                }
            });
            until("some writes", || (acknowledged.load(Ordering::SeqCst) > found + 50).then_some(()));
            running.kill();
        });
        least = acknowledged.load(Ordering::SeqCst);
    }
}

#[test]
fn a_full_disk_is_5xx_and_loses_nothing_and_writes_go_on_when_there_is_room() {
    let Some(rig) = Rig::new_or_skip() else { return };
    let place = json!({"data": "data"});
    rig.start("full", &[], &place).fill();
    // A limit of a file's size is what a full disk is to one program; it is lifted while the program runs.
    let running = rig.start("full", &WITH_LIMIT, &place);
    let service = running.service();
    let object = |number: u32| format!("v2/app/{APP}/object/{}", Uuid::NIL.named(&number.to_string()));
    let value = |number: u32| json!({"number": number, "text": "x".repeat(60_000)});
    let mut kept = Vec::new();
    let refusal = block_on(async {
        for number in 0..500 {
            let new = json!({"class": INDIVIDUAL, "uuid": Uuid::NIL.named(&number.to_string())});
            if let Err(error) = service.post_only("v2/object", &new).await {
                return Some(error);
            }
            match service.put(&object(number), &value(number), &Precondition::None).await {
                Ok(_) => kept.push(number),
                Err(error) => return Some(error),
            }
        }
        None
    });
    let refusal = refusal.expect("30 MB do not fit into 4 MiB").to_string();
    assert!(refusal.contains("503") && refusal.contains("disk"), "{refusal}");
    assert!(!kept.is_empty());
    let all = |service: &Service| {
        for number in &kept {
            let found: Option<Value> = block_on(service.read(&object(*number))).unwrap();
            assert_eq!(found, Some(value(*number)));
        }
    };
    all(&service);
    let lifted =
        output(Command::new("prlimit").args(["--fsize=unlimited", "--pid"]).arg(running.child.id().to_string()));
    assert!(lifted.unwrap().status.success());
    until("writes to go on", || block_on(put(&service, &json!("there is room"))).ok());
    running.kill();
    let running = rig.start("full", &[], &place);
    all(&running.service());
    assert_eq!(block_on(get(&running.service())), Some(json!("there is room")));
}

#[test]
fn either_of_two_programs_on_one_postgres_tells_its_watchers_of_the_others_writes() {
    let Some(rig) = Rig::new_or_skip() else { return };
    let Some(postgres) = Place::postgres() else { return };
    let directory = postgres.path("");
    let place = json!({"postgres": {"socket": {"directory": directory, "user": "latchkey", "database": "postgres"}}});
    let (one, other) = (rig.start("one", &[], &place), rig.start("other", &[], &place));
    one.fill();
    for (round, (writer, reader)) in [(&one, &other), (&other, &one), (&one, &other)].into_iter().enumerate() {
        let mut watch = reader.service().notify().watch(&entry());
        let value = json!({"round": round});
        block_on(within("the other's write to be told", async {
            watch.changed().await;
            put(&writer.service(), &value).await.unwrap();
            while watch.reading().and_then(|reading| reading.body).as_deref() != Some(&value) {
                watch.changed().await;
            }
        }));
        assert_eq!(block_on(get(&reader.service())), Some(value));
    }
}

#[test]
fn while_postgres_is_away_writes_are_503_with_a_reason_and_reads_and_watchers_stay() {
    let Some(rig) = Rig::new_or_skip() else { return };
    let Some(mut postgres) = Place::postgres() else { return };
    let directory = postgres.path("");
    let place = json!({"postgres": {"socket": {"directory": directory, "user": "latchkey", "database": "postgres"}}});
    let running = rig.start("away", &[], &place);
    running.fill();
    let service = running.service();
    let mut watch = service.notify().watch(&entry());
    let mut told = |value: Value| {
        block_on(within(format_args!("a watcher to be told of {value}"), async {
            while watch.reading().and_then(|reading| reading.body).as_deref() != Some(&value) {
                watch.changed().await;
            }
        }));
    };
    block_on(put(&service, &json!(1))).unwrap();
    told(json!(1));
    for round in 0..2 {
        postgres.kill_server();
        let refused = block_on(put(&service, &json!("lost"))).unwrap_err().to_string();
        assert!(refused.contains("503") && refused.contains("PostgreSQL"), "{refused}");
        assert_eq!(block_on(get(&service)), Some(json!(round + 1)), "what is known is read");
        let mut another = service.notify().watch(&entry());
        block_on(within("a watcher that comes meanwhile", async {
            while another.reading().and_then(|reading| reading.body).as_deref() != Some(&json!(round + 1)) {
                another.changed().await;
            }
        }));
        let config = rig.config("late", &Port::reserve(), &place);
        let late = output(Command::new(PROGRAM).arg("--config").arg(config)).unwrap();
        let said = String::from_utf8_lossy(&late.stderr);
        assert!(!late.status.success() && said.contains("PostgreSQL"), "a start says what it misses: {said}");
        postgres.start_server();
        block_on(put(&service, &json!(round + 2))).unwrap();
        told(json!(round + 2));
    }
    running.kill();
    assert_eq!(block_on(get(&rig.start("away", &[], &place).service())), Some(json!(3)));
}
