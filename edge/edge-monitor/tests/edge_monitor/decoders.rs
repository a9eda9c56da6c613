//! What two other implementations of Sparkplug B read in our messages, and we in theirs: `sparkplug-payload` of npm and
//! `pysparkplug` of the Python Package Index, unmodified.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use latchkey_edge_monitor::birth::{Identity, REBIRTH};
use latchkey_factory_plus::Uuid;
use latchkey_sparkplug::{BirthDeath, NodeAddress, Payload, Value};
use latchkey_test_support::{output, output_within, skip, status_within};
use serde_json::{Value as Json, json};

/// Packages may come over a slow network.
const INSTALLING: Duration = Duration::from_mins(10);

const CLOCK_MS: u64 = 1_796_000_000_123;
const ACCOUNT: &str = "9a3d7a60-6bbd-4d34-b6a8-3c7d9cc0f1aa";
const CLUSTER: &str = "3f0c62e3-6f6e-4f4f-9b65-4c5d53b9a6d1";

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/decoders")
}

/// A birth and a death with this number, in hexadecimal.
fn messages(number: u8) -> [String; 2] {
    let identity = Identity {
        address: NodeAddress::new("ACME-Bolt", "Monitor").unwrap(),
        account: ACCOUNT.parse().unwrap(),
        cluster: CLUSTER.parse().unwrap(),
    };
    let number = BirthDeath::new(number);
    [identity.birth(number, 0, CLOCK_MS), Identity::death(number, CLOCK_MS)]
        .map(|payload| hex::encode(payload.encode()))
}

/// Name, type and value of each metric of a birth.
fn expected(number: u8) -> Vec<(&'static str, &'static str, Json)> {
    let account: Uuid = ACCOUNT.parse().unwrap();
    let link = Uuid::constant("11ad7b32-1d32-4c4a-b0c9-fa049208939a")
        .named(&format!("8a4dc2f4-2f9f-45fc-b2e9-ed7b9cda6145:{account}:Links/Cluster"));
    vec![
        ("Node Control/Rebirth", "Boolean", json!(false)),
        ("Schema_UUID", "UUID", json!("e3ef732b-ee69-46f0-8d1d-8a9cec432d83")),
        ("Instance_UUID", "UUID", json!(ACCOUNT)),
        ("Links/Cluster/Schema_UUID", "UUID", json!("b3c4b273-9528-45de-8842-9f77c9ef272a")),
        ("Links/Cluster/Instance_UUID", "UUID", json!(link)),
        ("Links/Cluster/Target", "UUID", json!(CLUSTER)),
        ("Links/Cluster/Relation", "UUID", json!("422d47e0-8761-43da-abd4-4f2adaef0d4a")),
        ("bdSeq", "UInt64", json!(number)),
    ]
}

/// Whether a command of somebody else asks for a rebirth as a node reads it.
fn asks_for_rebirth(command: &Json) -> bool {
    let command = Payload::decode(&hex::decode(command.as_str().unwrap()).unwrap()).unwrap();
    command.metric(REBIRTH).and_then(|metric| metric.value.as_ref()) == Some(&Value::Boolean(true))
}

#[test]
fn npms_sparkplug_payload_reads_our_messages_and_we_read_its() {
    let home = tempfile::tempdir().unwrap();
    for file in ["package.json", "package-lock.json", "payload.mjs"] {
        fs::copy(directory().join(file), home.path().join(file)).unwrap();
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(home.path());
    match output_within(INSTALLING, &mut npm) {
        Err(error) => return skip(format_args!("npm cannot be run ({error}); install node and npm")),
        Ok(done) if !done.status.success() => {
            return skip(format_args!("npm ci failed: {}", String::from_utf8_lossy(&done.stderr)));
        }
        Ok(_) => {}
    }
    for number in [0, 127, 128, 255] {
        let mut node = Command::new("node");
        let done = output(node.current_dir(home.path()).arg("payload.mjs").args(messages(number))).unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let seen: Json = serde_json::from_slice(&done.stdout).unwrap();
        // Everything it finds: no aliases, no times of metrics, nothing else.
        let metric = |(name, kind, value)| json!({"name": name, "type": kind, "value": value});
        let birth = json!({
            "timestamp": CLOCK_MS, "seq": 0, "uuid": "11ad7b32-1d32-4c4a-b0c9-fa049208939a",
            "metrics": expected(number).into_iter().map(metric).collect::<Vec<_>>(),
        });
        assert_eq!(seen["decoded"][0], birth);
        let death = &seen["decoded"][1];
        assert_eq!((&death["timestamp"], &death["seq"]), (&json!(CLOCK_MS), &Json::Null), "{death}");
        assert_eq!(death["metrics"], json!([{"name": "bdSeq", "type": "UInt64", "value": number}]));
        assert!(asks_for_rebirth(&seen["command"]));
    }
}

/// A Python with pysparkplug, in a virtual environment beside the build's other files.
fn python() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    // Test binaries run at the same time; one of them makes the environment.
    let lock = File::create(target.join("pysparkplug.lock")).unwrap();
    lock.lock().unwrap();
    let home = target.join("pysparkplug");
    let (python, ready) = (home.join("bin/python"), home.join("ready"));
    if !ready.exists() {
        let run = |command: &mut Command| status_within(INSTALLING, command).is_ok_and(|status| status.success());
        let packages = ["pysparkplug==0.6.1", "paho-mqtt==1.6.1", "protobuf==7.36.2"];
        let made = run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&home))
            && run(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(packages));
        if !made {
            skip("no python3 with venv and pip, or no package index, for pysparkplug");
            return None;
        }
        fs::write(ready, []).unwrap();
    }
    Some(python)
}

#[test]
fn pypis_pysparkplug_reads_our_messages_and_we_read_its() {
    let Some(python) = python() else { return };
    for number in [0, 127, 128, 255] {
        let done = output(Command::new(&python).arg(directory().join("payload.py")).args(messages(number))).unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let seen: Json = serde_json::from_slice(&done.stdout).unwrap();
        let metric = |(name, kind, value): (&str, &str, Json)| {
            json!({
                "name": name, "type": kind.to_uppercase(), "value": value, "alias": null, "timestamp": null, "is_null": false,
            })
        };
        let metrics: Vec<_> = expected(number).into_iter().map(metric).collect();
        assert_eq!(seen["birth"], json!({"timestamp": CLOCK_MS, "seq": 0, "metrics": metrics}));
        assert_eq!(Some(&seen["death"]), metrics.last());
        assert!(asks_for_rebirth(&seen["command"]) && asks_for_rebirth(&seen["typed"]));
    }
}
