//! The binary as its operator sees it.

use crate::service::rig::{Machine, Rig};
use latchkey_keys::MasterSecret;
use latchkey_test_support::output;
use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

fn outcome(output: &std::process::Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn check_says_what_the_service_would_do() {
    let rig = Rig::new(&[&Machine::new()]);
    let (code, stdout, stderr) = outcome(&rig.check());
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    for part in ["manifest test", "cluster test", "others as workers", "sha256:", "master.json"] {
        assert!(stdout.contains(part), "{part}: {stdout}");
    }
}

#[test]
fn an_unusable_configuration_or_directory_ends_with_2_and_names_the_fix() {
    type Spoil = fn(&mut Rig);
    let table: [(Spoil, &str); 10] = [
        (|rig| rig.config["debug"] = true.into(), "unknown field `debug`"),
        (|rig| rig.config["schema"] = 2.into(), "schema 1"),
        (|rig| rig.config["admin_listen"] = "0.0.0.0:9001".into(), "loopback"),
        (|rig| rig.config["master_secret_file"] = json!(null), "exactly one"),
        (|rig| fs::set_permissions(rig.path("identity.key"), Permissions::from_mode(0o644)).unwrap(), "chmod"),
        (|rig| fs::set_permissions(rig.path("master.json"), Permissions::from_mode(0o644)).unwrap(), "chmod"),
        (
            |rig| {
                fs::remove_file(rig.path("master.json")).unwrap();
                MasterSecret::random().unwrap().write_new(&rig.path("master.json")).unwrap();
            },
            "master.json: the master secret is not the one of the cluster",
        ),
        (|rig| fs::remove_file(rig.path("cluster/policy.json")).unwrap(), "policy.json"),
        (|rig| fs::write(rig.path("cluster/enrolment.json"), "{}").unwrap(), "enrolment.json"),
        (|rig| fs::remove_file(rig.path("cluster/reference.json")).unwrap(), "reference-missing"),
    ];
    for (spoil, fix) in table {
        let mut rig = Rig::new(&[&Machine::new()]);
        spoil(&mut rig);
        for output in [rig.check(), output(&mut rig.command()).unwrap()] {
            let (code, _, stderr) = outcome(&output);
            assert_eq!(code, Some(2), "{stderr}");
            assert!(stderr.contains(fix), "{fix}: {stderr}");
        }
    }
}

#[test]
fn a_new_key_says_what_belongs_on_the_nodes_command_line() {
    let rig = Rig::new(&[&Machine::new()]);
    let key = rig.path("other.key");
    let binary = env!("CARGO_BIN_EXE_latchkey-join-service");
    let (code, made, stderr) = outcome(&output(Command::new(binary).arg("--new-key").arg(&key)).unwrap());
    assert_eq!(code, Some(0), "{stderr}");
    assert!(made.starts_with("latchkey.join_service_key=sha256:") && made.len() == 33 + 64 + 1, "{made}");
    let (code, _, stderr) = outcome(&output(Command::new(binary).arg("--new-key").arg(&key)).unwrap());
    assert_eq!(code, Some(2), "an existing key is not replaced: {stderr}");
    fs::rename(&key, rig.path("identity.key")).unwrap();
    let (code, printed, _) = outcome(&output(rig.command().arg("--print-key-hash")).unwrap());
    assert_eq!((code, printed), (Some(0), made));
}

#[test]
fn wrong_arguments_end_with_2_and_a_taken_port_with_1() {
    let binary = env!("CARGO_BIN_EXE_latchkey-join-service");
    assert_eq!(outcome(&output(Command::new(binary).arg("--frobnicate")).unwrap()).0, Some(2));
    let mut rig = Rig::new(&[&Machine::new()]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    rig.config["listen"] = taken.local_addr().unwrap().to_string().into();
    let (code, _, stderr) = outcome(&output(&mut rig.command()).unwrap());
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("Cannot listen on 127.0.0.1:"), "{stderr}");
}

#[test]
fn sigterm_ends_it_with_0_even_while_a_peer_hangs_in_its_handshake() {
    let rig = Rig::new(&[&Machine::new()]);
    let service = rig.start();
    let _hanging = TcpStream::connect(service.address).unwrap();
    assert_eq!(service.page("/healthz").1, "ok\n");
    let (status, log) = service.stop();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("Stopped"), "{log}");
}

#[test]
fn a_log_in_json_says_of_each_decision_what_the_one_in_text_says() {
    let (node, other) = (Machine::new(), Machine::new());
    let rig = Rig::new(&[&node, &other]);
    let mut service = rig.start_as(rig.command().arg("--log=json").stderr(Stdio::piped()));
    let disk = "0a0a0a0a-0000-4000-8000-000000000001";
    service.join(&node, disk, "worker-1").unwrap();
    let hostile = "w\" outcome=granted name=\"x";
    service.join(&other, disk, hostile).unwrap_err();
    service.next_line(&["audit", "refused"]);
    let (status, log) = service.stop();
    assert_eq!(status.code(), Some(0), "{log}");
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let decisions: Vec<&Value> = lines.iter().filter(|line| line["target"] == "audit").collect();
    let [granted, refused] = decisions.as_slice() else { panic!("{log}") };
    for (line, outcome, machine) in [(granted, "granted", &node), (refused, "refused", &other)] {
        let fields = &line["fields"];
        assert_eq!((&fields["outcome"], &fields["method"]), (&outcome.into(), &"join".into()), "{line}");
        assert_eq!((&fields["disk"], &fields["ek"]), (&disk.into(), &machine.ek().to_string().into()), "{line}");
        assert!(line["time"].is_string() && fields["audit_id"].is_string(), "{line}");
    }
}
