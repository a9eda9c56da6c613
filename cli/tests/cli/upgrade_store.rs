//! What only `latchkey init` makes: refused where it is gone, and made anew, or counted, by the operator's word alone.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use crate::support::command::Ran;
use crate::support::node::FakeNode;
use crate::support::operator::Operator;
use crate::support::plant::{MAPS, Plant, error_code};
use serde_json::{Value, json};

fn founded() -> (Operator, FakeNode) {
    let (operator, node) = Operator::with_node();
    operator.init(&node, &[]).succeeded();
    (operator, node)
}

/// A command by the cluster's directory.
fn run(operator: &Operator, arguments: &[&str]) -> Ran {
    operator.run(&[arguments, &["--cluster", "plant", "--output", "json"]].concat())
}

/// Every path below a directory, in order.
fn paths(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(paths(&path));
        }
        found.push(path);
    }
    found.sort();
    found
}

fn edit(operator: &Operator, change: impl FnOnce(&mut Value)) {
    let mut cluster = operator.json("plant/cluster.json");
    change(&mut cluster);
    fs::write(operator.path("plant/cluster.json"), cluster.to_string()).unwrap();
}

/// As releases before this one wrote it.
fn to_the_version_before(cluster: &mut Value) {
    cluster["version"] = json!(1);
    cluster.as_object_mut().unwrap().remove("denials");
}

#[test]
fn what_init_made_and_is_gone_is_refused_by_every_command_and_made_by_none() {
    let (operator, node) = founded();
    let (address, ek, disk) = (node.address(), node.ek().to_string(), node.state().disk.to_string());
    let disk_key = ["secret", "disk-key", "--master-secret", "master.json", "--disk", &disk, "--without-its-machine"];
    operator.run(&["node", "deny", &"ab".repeat(32), "--cluster", "plant"]).succeeded();
    for place in ["denied", "nodes"] {
        let (there, away) = (operator.path("plant").join(place), operator.path("away"));
        fs::rename(&there, &away).unwrap();
        let before = paths(&operator.path("plant"));
        for command in [
            &["node", "list"] as &[&str],
            &["node", "show", &ek],
            &["node", "admit", &ek],
            &["node", "deny", if place == "nodes" { "edge-1" } else { &ek }],
            &["node", "allow", &ek],
            &["node", "remove", &ek],
            &["status"],
            &["policy", "accept-firmware", &ek],
            &["recover", &address, "--master-secret", "master.json"],
            &disk_key,
        ] {
            let ran = run(&operator, command).failed(6);
            assert_eq!(error_code(&ran), "cluster-place-missing", "{command:?}");
            let remedy = ran.json()["error"]["fix"].as_str().unwrap().to_owned();
            assert!(remedy.contains("latchkey upgrade store --cluster plant"), "{remedy}");
        }
        // Nor is it made by init itself, where the cluster is made already.
        assert_eq!(error_code(&operator.init(&node, &["--output", "json"]).failed(6)), "cluster-place-missing");
        assert_eq!(paths(&operator.path("plant")), before, "something was left behind");
        fs::rename(&away, &there).unwrap();
    }
    assert_eq!(run(&operator, &["node", "list"]).succeeded().json()["denied"], json!(["ab".repeat(32)]));
}

/// The emergency path needs the place of the denials, and no other.
#[test]
fn a_machine_is_denied_by_its_whole_digest_although_the_records_are_gone() {
    let (operator, node) = founded();
    let ek = node.ek().to_string();
    let (there, away) = (operator.path("plant/nodes"), operator.path("away"));
    fs::rename(&there, &away).unwrap();
    let denied = run(&operator, &["node", "deny", &ek, "--reason", "stolen"]).succeeded().json();
    assert_eq!((&denied["ek_sha256"], &denied["denied"]), (&json!(ek), &json!(true)));
    assert!(operator.path("plant/denied").join(&ek).exists() && !there.exists());
    fs::rename(&away, &there).unwrap();
    // Where they are there, its name is said.
    assert_eq!(run(&operator, &["node", "deny", &ek]).succeeded().json()["name"], "edge-1");
    assert_eq!(operator.json("plant/cluster.json")["denials"], json!({"count": 1, "last": ek}));
}

/// Of who may read and not write: root works there as the directory's owner.
#[test]
fn reading_needs_no_right_to_write() {
    const READER: u32 = 4711;
    let (operator, _) = founded();
    let is_root = rustix::process::geteuid().is_root();
    fs::set_permissions(operator.path("."), fs::Permissions::from_mode(0o755)).unwrap();
    for path in paths(&operator.path("plant")).into_iter().chain([operator.path("plant")]) {
        let mode = if path.is_dir() { 0o555 } else { 0o444 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        if is_root {
            chown(&path, Some(READER), Some(READER)).unwrap();
        }
    }
    for command in [["node", "list"].as_slice(), &["status"], &["upgrade", "store"]] {
        run(&operator, command).succeeded();
    }
    assert_eq!(error_code(&run(&operator, &["node", "deny", &"ab".repeat(32)]).failed(1)), "directory-unusable");
    // What is temporary goes with the test.
    for path in paths(&operator.path("plant")).into_iter().chain([operator.path("plant")]).filter(|path| path.is_dir())
    {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn a_cluster_of_the_release_before_is_shown_and_counts_by_the_operators_word() {
    let (operator, node) = founded();
    let other = "ab".repeat(32);
    edit(&operator, to_the_version_before);
    // It goes on as it did, and that is said.
    let said = operator.run(&["status", "--cluster", "plant"]).succeeded().err;
    assert!(said.contains("denials are not counted") && said.contains("latchkey upgrade store"), "{said}");
    run(&operator, &["node", "deny", &other]).succeeded();
    assert_eq!(operator.json("plant/cluster.json")["version"], 1);
    let shown = run(&operator, &["upgrade", "store"]).failed(1).json();
    assert_eq!((&shown["lacking"], &shown["done"], &shown["counted"]), (&json!(true), &json!(false), &Value::Null));
    assert_eq!((&shown["denied"], &shown["nodes"]), (&json!([other]), &json!(["edge-1"])));
    assert_eq!(operator.json("plant/cluster.json")["version"], 1, "it was shown, and nothing was changed");
    let wrong = run(&operator, &["upgrade", "store", "--denials", "0"]).failed(2);
    assert_eq!(error_code(&wrong), "denials-not-confirmed");
    assert_eq!(operator.json("plant/cluster.json")["version"], 1);
    run(&operator, &["upgrade", "store", "--denials", "1"]).succeeded();
    let cluster = operator.json("plant/cluster.json");
    assert_eq!((&cluster["version"], &cluster["denials"]), (&json!(2), &json!({"count": 1})));
    let again = run(&operator, &["upgrade", "store"]).succeeded().json();
    assert_eq!((&again["lacking"], &again["counted"]), (&json!(false), &json!(1)));
    run(&operator, &["node", "deny", "edge-1"]).succeeded();
    assert_eq!(operator.json("plant/cluster.json")["denials"], json!({"count": 2, "last": node.ek().to_string()}));
}

#[test]
fn denials_that_are_lost_are_said_and_no_key_is_given_until_they_are_back_or_the_operator_says_so() {
    let (operator, node) = founded();
    let [one, other] = ["ab", "cd"].map(|byte| byte.repeat(32));
    for ek in [&one, &other] {
        run(&operator, &["node", "deny", ek]).succeeded();
    }
    fs::remove_file(operator.path("plant/denied").join(&one)).unwrap();
    node.restart(crate::support::node::Stage::Existing);
    let refused = operator.recover(&node, "master.json", &["--output", "json"]).failed(3);
    assert_eq!(error_code(&refused), "denials-lost");
    assert_eq!(error_code(&run(&operator, &["node", "admit", "edge-1"]).failed(1)), "denials-lost");
    for command in [["node", "list", "--cluster", "plant"].as_slice(), &["status", "--cluster", "plant"]] {
        let said = operator.run(command).failed(7).err;
        assert!(said.contains("denials-lost"), "{command:?}: {said}");
    }
    let shown = operator.run(&["upgrade", "store", "--cluster", "plant"]).failed(1).out;
    assert!(shown.contains("denials are lost") && shown.contains("--denials 1") && shown.contains(&other), "{shown}");
    run(&operator, &["upgrade", "store", "--denials", "1"]).succeeded();
    operator.recover(&node, "master.json", &[]).succeeded();
    // A whole place: it is made anew, and nobody is shut out any more.
    fs::remove_dir_all(operator.path("plant/denied")).unwrap();
    let shown = run(&operator, &["upgrade", "store"]).failed(1).json();
    assert_eq!(shown["missing"], json!(["plant/denied"]));
    assert!(!operator.path("plant/denied").exists());
    run(&operator, &["upgrade", "store", "--denials", "0"]).succeeded();
    assert_eq!(run(&operator, &["node", "list"]).succeeded().json()["denied"], json!([]));
}

/// Without it nobody knows which cluster this is.
#[test]
fn a_directory_with_machines_and_without_the_clusters_document_lacks_more_than_nothing() {
    let (operator, _) = founded();
    fs::remove_file(operator.path("plant/cluster.json")).unwrap();
    for command in [&["upgrade", "store"] as &[&str], &["upgrade", "store", "--denials", "0"]] {
        let ran = run(&operator, command).failed(6);
        assert_eq!(error_code(&ran), "cluster-place-missing");
        assert!(ran.out.contains("plant/cluster.json is gone"), "{}", ran.out);
    }
}

/// A running join service still knows.
#[test]
fn what_a_join_service_shuts_out_is_shown_beside_what_is_there() {
    let (operator, _) = founded();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let service = std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        let (mut stream, _) = listener.accept().unwrap();
        let (mut asked, mut byte) = (Vec::<u8>::new(), [0_u8]);
        while !asked.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).unwrap();
            asked.extend(byte);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nlatchkey_join_service_denied 3\n").unwrap();
        String::from_utf8(asked).unwrap()
    });
    // Nothing else lacks.
    run(&operator, &["upgrade", "store"]).succeeded();
    let ask = ["upgrade", "store", "--cluster", "plant", "--join-service", &address];
    let shown = operator.run(&ask).failed(1).out;
    assert!(shown.contains("denials are lost") && shown.contains("at the service  3"), "{shown}");
    assert!(service.join().unwrap().starts_with("GET /metrics "));
    // Nobody is there any more.
    assert_eq!(error_code(&run(&operator, &["upgrade", "store", "--join-service", &address]).failed(5)), "unreachable");
}

#[test]
#[ignore = "needs etcd, kube-apiserver, kube-controller-manager, kubectl and helm: ./dev e2e api-server"]
fn what_is_gone_from_the_api_server_is_refused_and_denials_are_counted_there() {
    let plant = Plant::new();
    plant.init(&[]).succeeded();
    let counted = || {
        let text = plant.data("latchkey-cluster")["cluster.json"].as_str().unwrap().to_owned();
        serde_json::from_str::<Value>(&text).unwrap()
    };
    assert_eq!(counted()["denials"], json!({"count": 0}));
    let [one, other] = ["ab", "cd"].map(|byte| byte.repeat(32));
    for ek in [&one, &other] {
        plant.machines(&["node", "deny", ek, "--reason", "stolen"]).succeeded();
    }
    assert_eq!(counted()["denials"], json!({"count": 2, "last": other}));
    plant.machines(&["node", "allow", &other]).succeeded();
    assert_eq!(counted()["denials"], json!({"count": 1}));

    // Cut after it was counted: the next one ends it.
    let with = |denials: Value| {
        let mut cluster = counted();
        cluster["denials"] = denials;
        let patch = json!({ "data": { "cluster.json": cluster.to_string() } });
        plant.admin.patch(&format!("{MAPS}/latchkey-cluster"), &patch).granted();
    };
    with(json!({"count": 2, "last": other}));
    let shown = plant.machines(&["node", "list"]).failed(7).json();
    assert!(shown["denied"].as_array().unwrap().contains(&json!(other)), "it is in force: {shown}");
    assert_eq!(error_code(&plant.machines(&["node", "admit", "edge-1"]).failed(1)), "denials-lost");
    plant.machines(&["node", "deny", &"ef".repeat(32)]).succeeded();
    assert!(plant.data("latchkey-denied").get(&other).is_some());
    assert_eq!(counted()["denials"], json!({"count": 3, "last": "ef".repeat(32)}));

    // Two at once.
    let ek = |byte: u8| format!("{byte:02x}").repeat(32);
    std::thread::scope(|scope| {
        for bytes in [1..4_u8, 11..14] {
            let plant = &plant;
            scope.spawn(move || bytes.for_each(|byte| drop(plant.machines(&["node", "deny", &ek(byte)]).succeeded())));
        }
    });
    assert_eq!(counted()["denials"]["count"], 9);
    assert_eq!(plant.data("latchkey-denied").as_object().unwrap().len(), 9);
    plant.machines(&["node", "list"]).succeeded();

    // All are gone.
    plant.admin.delete(&format!("{MAPS}/latchkey-denied"), &json!({})).granted();
    for command in [&["node", "list"] as &[&str], &["node", "deny", &one], &["node", "allow", &one], &["status"]] {
        let ran = plant.machines(command).failed(6);
        assert_eq!(error_code(&ran), "cluster-place-missing", "{command:?}");
        let remedy = ran.json()["error"]["fix"].as_str().unwrap().to_owned();
        assert!(remedy.contains("latchkey upgrade store --kubeconfig "), "{remedy}");
    }
    assert_eq!(plant.admin.get(&format!("{MAPS}/latchkey-denied")).status(), 404, "nobody made it anew");
    let shown = plant.machines(&["upgrade", "store"]).failed(1).json();
    assert_eq!((&shown["missing"], &shown["counted"]), (&json!(["latchkey-denied"]), &json!(9)));
    // The one that was counted last stands in the cluster's own document.
    let last = counted()["denials"]["last"].clone();
    assert_eq!((&shown["nodes"], &shown["denied"]), (&json!(["edge-1"]), &json!([last])));
    plant.machines(&["upgrade", "store", "--denials", "1"]).succeeded();
    assert_eq!(counted()["denials"], json!({"count": 1}));
    assert!(plant.data("latchkey-denied").get(last.as_str().unwrap()).is_some());
    plant.machines(&["node", "allow", last.as_str().unwrap()]).succeeded();
    plant.machines(&["node", "list"]).succeeded();

    // Of the release before.
    let mut before = counted();
    to_the_version_before(&mut before);
    let patch = json!({ "data": { "cluster.json": before.to_string() } });
    plant.admin.patch(&format!("{MAPS}/latchkey-cluster"), &patch).granted();
    plant.machines(&["node", "deny", &one]).succeeded();
    assert_eq!(counted()["version"], 1);
    plant.machines(&["upgrade", "store"]).failed(1);
    plant.machines(&["upgrade", "store", "--denials", "1"]).succeeded();
    assert_eq!((&counted()["version"], &counted()["denials"]), (&json!(2), &json!({"count": 1})));
}
