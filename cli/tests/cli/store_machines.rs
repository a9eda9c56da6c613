//! Machines, policy and manifests of a cluster that is kept in its API server: the real command, a fake node, real kubectl and helm, a
//! real API server. `./dev e2e api-server`.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use std::time::{Duration, Instant};

use crate::support::node::{FakeNode, Stage};
use crate::support::plant::{NODES, Plant, error_code};
use base64::Engine as _;
use latchkey_attestation::fake_amd::FakeAmd;
use latchkey_attestation::parse::SnpProduct;
use latchkey_test_support::until;
use serde_json::{Value, json};

/// What `status` shows people of the worker that joins.
fn is_in_the_table(plant: &Plant) {
    let for_people = ["status", "--cluster", "plant", "--kubectl-program", plant.kubectl.to_str().unwrap()];
    let shown = plant.operator.run(&for_people).failed(7).out;
    let rows: Vec<Vec<_>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    for row in [
        &["joins", "now", "edge-2"][..],
        &["NAME", "ROLE", "STATE", "READY", "KUBELET", "IMAGE", "ATTESTED"],
        &["edge-2", "worker", "denied", "no", "plant", "1.2.3", "2026-11-22T10:00:00Z"],
    ] {
        assert!(rows.iter().any(|shown| shown == row), "{row:?}: {shown}");
    }
}

#[test]
#[ignore = "needs etcd, kube-apiserver, kube-controller-manager, kubectl and helm: ./dev e2e api-server"]
fn machines_are_shown_denied_and_removed_in_the_api_server() {
    let plant = Plant::new();
    plant.init(&[]).succeeded();
    // Of the first machine, too, it is shown what it proved.
    let shown = plant.items(NODES)[0]["status"].clone();
    assert_eq!((&shown["version"], &shown["epoch"]), (&json!("1.0.0"), &json!(1)), "{shown}");
    let worker = "ab".repeat(32);
    let disk = "0a0a0a0a-0000-4000-8000-0000000000ab";
    let spec = json!({
        "version": 1, "ek_sha256": worker, "name": "edge-2", "role": "worker", "first_joined_at": 1_800_000_000,
        "disks": [{ "uuid": disk, "epoch": 1, "state": "pending", "key_version": 1, "issued_at": 1_800_000_000 }],
    });
    let object = |kind: &str, name: &str, spec: &Value| json!({ "apiVersion": "latchkey.dev/v1alpha1", "kind": kind, "metadata": { "name": name }, "spec": spec });
    plant.admin.post(NODES, &object("AttestedNode", &worker, &spec)).granted();
    let broken = "cd".repeat(32);
    let mut spoilt = spec.clone();
    (spoilt["ek_sha256"], spoilt["maintained_by"]) = (json!(broken), json!("hand"));
    plant.admin.post(NODES, &object("AttestedNode", &broken, &spoilt)).granted();
    plant.admin.post("/api/v1/nodes", &json!({ "metadata": { "name": "edge-2" } })).granted();

    let list = plant.machines(&["node", "list"]).failed(7).json();
    let names: Vec<_> = list["nodes"].as_array().unwrap().iter().map(|node| node["name"].clone()).collect();
    assert_eq!(names, ["edge-1", "edge-2"]);
    assert!(list["unreadable_records"][0].as_str().unwrap().contains(&broken));
    let shown = plant.machines(&["node", "show", "edge-2"]).succeeded().json();
    assert_eq!(shown["record"]["disks"][0]["uuid"], disk);

    plant.machines(&["node", "deny", "edge-2", "--reason", "stolen"]).succeeded();
    assert_eq!(plant.data("latchkey-denied")[&worker], "stolen");
    let shown = plant.machines(&["node", "show", "edge-2"]).succeeded().json();
    assert_eq!(shown["denial_reason"], "stolen");
    plant.machines(&["node", "allow", "edge-2"]).succeeded();
    assert_eq!(error_code(&plant.machines(&["node", "allow", "edge-2"]).failed(2)), "not-denied");

    plant.machines(&["node", "admit", &"ef".repeat(32), "--name", "edge-3"]).succeeded();
    assert!(plant.data("latchkey-enrolment")["enrolment.json"].as_str().unwrap().contains("edge-3"));

    // Its machine is off: nobody is there who could end its pods.
    let pod = json!({
        "metadata": { "name": "last" },
        "spec": {
            "nodeName": "edge-2", "terminationGracePeriodSeconds": 1, "automountServiceAccountToken": false,
            "containers": [{ "name": "one", "image": "one" }],
        },
    });
    let default = "/api/v1/namespaces/default";
    until("the service account that pods run as", || {
        (plant.admin.get(&format!("{default}/serviceaccounts/default")).status() == 200).then_some(())
    });
    plant.admin.post(&format!("{default}/pods"), &pod).granted();

    // All of it at a glance, and what somebody should look at.
    let status = r#"--patch={"status":{"image":"plant","version":"1.2.3","lastAttestation":"2026-11-22T10:00:00Z"}}"#;
    let (kubeconfig, kubectl) = (plant.operator.path("plant/admin.conf"), &plant.kubectl);
    let mut patch = std::process::Command::new(kubectl);
    patch.args(["patch", "attestednode", &worker, "--subresource=status", "--type=merge", status, "--kubeconfig"]);
    assert!(latchkey_test_support::output(patch.arg(&kubeconfig)).unwrap().status.success());
    plant.admin.post("/api/v1/nodes", &json!({ "metadata": { "name": "stranger" } })).granted();
    plant.machines(&["node", "deny", "edge-2"]).succeeded();

    // It has the turn to join, as a control plane that was cut has.
    let leases = "/apis/coordination.k8s.io/v1/namespaces/latchkey/leases";
    let holder = || plant.admin.get(&format!("{leases}/latchkey")).granted()["spec"]["holderIdentity"].clone();
    let lease = format!(r#"--patch={{"spec":{{"holderIdentity":"{worker}"}}}}"#);
    let mut patch = std::process::Command::new(kubectl);
    patch.args(["patch", "lease", "latchkey", "--namespace=latchkey", "--type=merge", &lease, "--kubeconfig"]);
    assert!(latchkey_test_support::output(patch.arg(&kubeconfig)).unwrap().status.success());
    assert_eq!(holder(), worker.as_str());
    // One record cannot be read.
    let status = plant.machines(&["status"]).failed(7).json();
    let row = status["nodes"].as_array().unwrap().iter().find(|row| row["name"] == "edge-2").unwrap();
    assert_eq!((&row["state"], &row["ready"], &row["image"]), (&json!("denied"), &json!(false), &json!("plant")));
    assert_eq!(row["last_attestation"], "2026-11-22T10:00:00Z");
    let ends: Vec<_> = status["certificates"].as_array().unwrap().iter().map(|one| one["ends"].as_str()).collect();
    assert!(ends.len() == 2 && ends.iter().all(|end| end.is_some_and(|end| end.ends_with('Z'))), "{status}");
    assert_eq!(status["joining"], "edge-2");
    let attention = status["attention"].to_string();
    for sentence in [
        "edge-2 is denied, and still a Node",
        "stranger is a Node, and no machine on record",
        "edge-1 is a member on record, and no Node",
        "is no record of this release",
    ] {
        assert!(attention.contains(sentence), "{sentence}: {attention}");
    }
    is_in_the_table(&plant);
    plant.machines(&["node", "allow", "edge-2"]).succeeded();

    let backup = plant.by_kubeconfig(&["backup", "create"]).succeeded().json();
    let backup = backup["directory"].as_str().unwrap().to_owned();

    // A control plane's etcd member would stay behind; a worker goes with all that is its own.
    assert_eq!(error_code(&plant.machines(&["node", "remove", "edge-1"]).failed(2)), "control-plane-stays");
    let begun = Instant::now();
    let removed = plant.machines(&["node", "remove", "edge-2"]).succeeded().json();
    assert!(begun.elapsed() < Duration::from_mins(4), "its pods were waited for");
    assert_eq!((&removed["denied"], &removed["disks"][0]), (&json!(true), &json!(disk)));
    assert!(plant.data("latchkey-denied").get(&worker).is_some(), "from now on it gets no key");
    assert_eq!(plant.admin.get(&format!("{NODES}/{worker}")).status(), 404);
    assert_eq!(plant.admin.get("/api/v1/nodes/edge-2").status(), 404);
    assert_eq!(holder(), "", "the next control plane joins");

    // What was removed since does not come back with a backup, unless somebody says so.
    let restored = plant.by_kubeconfig(&["backup", "restore", &backup]).json();
    let left = restored["removed_since"].as_array().unwrap();
    assert!(left.iter().any(|name| name == &format!("attestednodes.latchkey.dev {worker}")), "{restored}");
    assert_eq!(plant.admin.get(&format!("{NODES}/{worker}")).status(), 404);
    plant.by_kubeconfig(&["backup", "restore", &backup, "--machines"]).succeeded();
    assert_eq!(plant.admin.get(&format!("{NODES}/{worker}")).status(), 200);
    plant.machines(&["node", "remove", "edge-2"]).succeeded();

    // One that cannot be read is still there.
    let listed = plant.by_kubeconfig(&["node", "list"]).failed(7).json();
    assert_eq!(listed["nodes"].as_array().unwrap().len(), 1);
}

#[test]
#[ignore = "needs etcd, kube-apiserver, kube-controller-manager, kubectl and helm: ./dev e2e api-server"]
fn recover_and_accepted_firmware_go_by_the_records_and_denials_of_the_api_server() {
    let mut plant = Plant::with_any_firmware();
    plant.init(&[]).succeeded();
    let recover = |plant: &Plant, more: &[&str]| {
        let (kubectl, json) = (plant.kubectl.to_str().unwrap(), ["--output", "json"]);
        let programs = ["--kubectl-program", kubectl];
        plant.operator.recover(&plant.node, "master.json", &[&programs[..], &json, more].concat())
    };
    let keys_sent = |plant: &Plant| plant.node.state().recoveries;
    let restart = |plant: &Plant, rom: u8| {
        plant.node.restart(Stage::Existing);
        plant.node.set_pcr(2, [rom; 32]);
    };
    let firmware = |plant: &Plant| plant.items(NODES)[0]["spec"]["firmware"].clone();
    restart(&plant, 1);
    recover(&plant, &[]).succeeded();

    // A change waits beside the record, in the API server, until the operator says that it is meant.
    restart(&plant, 2);
    assert_eq!(error_code(&recover(&plant, &[]).failed(3)), "firmware-changed");
    assert_eq!(firmware(&plant)["changed"]["measured"]["pcrs"]["2"], "02".repeat(32));
    let shown = plant.machines(&["node", "show", "edge-1"]).succeeded().json();
    let change = plant.machines(&["policy", "accept-firmware", "edge-1"]).failed(2).json()["error"]["fix"].clone();
    let change = change.as_str().unwrap().split_whitespace().last().unwrap().to_owned();
    plant.machines(&["policy", "accept-firmware", "edge-1", "--change", &change]).succeeded();
    assert_eq!(firmware(&plant)["measured"]["pcrs"]["2"], "02".repeat(32), "{shown}");
    let sent = keys_sent(&plant);
    restart(&plant, 2);
    recover(&plant, &[]).succeeded();
    assert_eq!(keys_sent(&plant), sent + 1);

    // A denial there, of which the directory knows nothing.
    plant.machines(&["node", "deny", "edge-1"]).succeeded();
    restart(&plant, 2);
    assert_eq!(error_code(&recover(&plant, &[]).failed(3)), "machine-denied");
    assert_eq!(keys_sent(&plant), sent + 1, "no key was sent");
    // Without the API server nobody knows of denials; the operator's word goes by the directory.
    plant.server.kill_api();
    let error = recover(&plant, &[]).failed(5).json()["error"].clone();
    assert_eq!(error["code"], "api-server-unreachable", "{error}");
    assert!(error["fix"].as_str().unwrap().contains("--by-directory"), "{error}");
    assert_eq!(keys_sent(&plant), sent + 1, "no key was sent");
    restart(&plant, 1);
    recover(&plant, &["--by-directory"]).succeeded();
}

#[test]
#[ignore = "needs etcd, kube-apiserver, kube-controller-manager, kubectl and helm: ./dev e2e api-server"]
fn an_api_server_that_is_away_and_programs_that_lie_are_named_and_cost_nothing() {
    let mut plant = Plant::new();
    plant.init(&[]).succeeded();
    let kubectl = plant.kubectl.clone();
    let real = kubectl.to_str().unwrap().to_owned();
    plant.kubectl = plant.operator.path("missing");
    assert_eq!(error_code(&plant.machines(&["node", "list"]).failed(1)), "program-unusable");
    // Half an answer, and one that is none.
    for (name, answer) in [("half", "{\\\"apiVersion\\\": \\\"v1\\\", \\\"items\\\": ["), ("none", "<html>")] {
        let script = format!("case \"$*\" in *attestednodes*) echo \"{answer}\"; exit 0;; esac; exec {real} \"$@\"");
        plant.kubectl = plant.fake_program(name, &script);
        assert_eq!(error_code(&plant.machines(&["node", "list"]).failed(1)), "program-answer-malformed");
    }
    plant.kubectl = kubectl;
    plant.server.kill_api();
    let ran = plant.machines(&["node", "deny", "edge-1"]).failed(5);
    assert_eq!(error_code(&ran), "api-server-unreachable");
    plant.server.start_api();
    plant.machines(&["node", "deny", "edge-1"]).succeeded();
}

/// A policy that demands signatures, and a revision that revokes what the machine runs.
fn sign_with_new_key(plant: &Plant) {
    let (operator, ek) = (&plant.operator, plant.node.ek().to_string());
    operator.run(&["reference", "new-key", "--out", "release.key"]).succeeded();
    operator.run(&["reference", "sign", "demo.json", "--key", "release.key"]).succeeded();
    let policy = ["policy", "new", "--ek-pin", &ek, "--manifest", "demo", "--signer", "release.pub"];
    operator.run(&[&policy[..], &["--out", "signed.json"]].concat()).succeeded();
    let revoke = ["reference", "revoke", "demo.json", "demo", "1.0.0", "--why", "a hole", "--key", "release.key"];
    operator.run(&[&revoke[..], &["--out", "revoked.json"]].concat()).succeeded();
}

#[test]
#[ignore = "needs etcd, kube-apiserver, kube-controller-manager, kubectl and helm: ./dev e2e api-server"]
fn policy_and_manifests_are_changed_and_read_in_the_api_server() {
    let plant = Plant::new();
    plant.init(&[]).succeeded();
    sign_with_new_key(&plant);
    let recover = || {
        plant.node.restart(Stage::Existing);
        let kubectl = ["--kubectl-program", plant.kubectl.to_str().unwrap(), "--output", "json"];
        plant.operator.recover(&plant.node, "master.json", &kubectl)
    };
    let manifest = || plant.data("latchkey-references")["demo.json"].as_str().unwrap().to_owned();
    let before = manifest();

    // A policy that the manifest in force is not signed for is refused, and nothing is written.
    let refused = plant.machines(&["policy", "install", "signed.json"]).failed(2);
    assert_eq!(error_code(&refused), "reference-signature-missing");
    let policy = std::fs::read_to_string(plant.operator.path("policy.json")).unwrap();
    assert_eq!(plant.data("latchkey-policy")["policy.json"], policy);
    plant.machines(&["reference", "install", "demo.json"]).succeeded();
    assert!(plant.data("latchkey-references")["demo.json.minisig"].is_string());
    assert_eq!(manifest(), before);
    plant.machines(&["policy", "install", "signed.json"]).succeeded();
    let signed = std::fs::read_to_string(plant.operator.path("signed.json")).unwrap();
    assert_eq!(plant.data("latchkey-policy")["policy.json"], signed);
    recover().succeeded();

    // A revocation that only the API server has stops a recovery, and tells in `policy check`.
    let sent = plant.node.state().recoveries;
    plant.machines(&["reference", "install", "revoked.json"]).succeeded();
    assert_eq!(error_code(&recover().failed(3)), "image-revoked");
    assert_eq!(plant.node.state().recoveries, sent, "no key was sent");
    let check = plant.machines(&["policy", "check"]).succeeded().json();
    assert_eq!((&check["images"][0]["admitted"], &check["rollback"]), (&json!(false), &json!("refused")), "{check}");

    // What is older is refused, whoever asks; so is what was signed by nobody.
    let older = plant.machines(&["reference", "install", "demo.json"]).failed(2);
    assert_eq!(error_code(&older), "reference-rolled-back");
    let manifest_then = manifest();
    std::fs::remove_file(plant.operator.path("revoked.json.minisig")).unwrap();
    let unsigned = plant.machines(&["reference", "install", "revoked.json"]).failed(2);
    assert_eq!(error_code(&unsigned), "reference-signature-missing");
    assert_eq!(manifest(), manifest_then);
    // On request it is gone back to: the newer one is forgotten, and so is what it revoked.
    let back = ["reference", "install", "demo.json", "--replace-newer"];
    assert_eq!(error_code(&plant.machines(&back).failed(2)), "revocations-missing");
    plant.machines(&[&back[..], &["--forget-revocations"]].concat()).succeeded();
    assert_eq!(manifest(), before);
    recover().succeeded();
}

#[test]
#[ignore = "needs etcd, kube-apiserver, kube-controller-manager, kubectl and helm: ./dev e2e api-server"]
fn an_installation_that_others_come_before_looks_at_what_is_there_then() {
    let mut plant = Plant::new();
    plant.init(&[]).succeeded();
    // Another operator's, between this one's look and its write.
    let mut newer = plant.operator.json("demo.json");
    newer["serial"] = json!(plant.operator.serial("demo.json") + 5);
    std::fs::write(plant.operator.path("newer.json"), newer.to_string()).unwrap();
    let mut older = newer.clone();
    older["serial"] = json!(plant.operator.serial("demo.json") + 2);
    std::fs::write(plant.operator.path("older.json"), older.to_string()).unwrap();
    let kubectl = plant.kubectl.clone();
    let install = format!(
        "{} reference install newer.json --cluster plant --kubectl-program {}",
        env!("CARGO_BIN_EXE_latchkey"),
        kubectl.display()
    );
    let script = format!(
        "case \"$1\" in replace) input=$(cat); case \"$input\" in *'\"name\":\"latchkey-references\"'*) \
         [ -e once ] || {{ : >once; {install} >&2; }};; esac; printf %s \"$input\" | {real} \"$@\"; exit;; esac; exec {real} \"$@\"",
        real = kubectl.display()
    );
    plant.kubectl = plant.fake_program("slow", &script);
    let late = plant.machines(&["reference", "install", "older.json"]).failed(2);
    assert_eq!(error_code(&late), "reference-rolled-back");
    let there: Value = serde_json::from_str(plant.data("latchkey-references")["demo.json"].as_str().unwrap()).unwrap();
    assert_eq!(there["serial"], newer["serial"]);
}

#[test]
#[ignore = "needs etcd, kube-apiserver, kube-controller-manager, kubectl and helm: ./dev e2e api-server"]
fn a_disk_that_was_moved_is_another_machine_s_in_the_api_server_wherever_the_move_was_cut() {
    let mut plant = Plant::new();
    plant.init(&[]).succeeded();
    let other = FakeNode::start(&plant.operator.init_secret());
    let (old, new) = (plant.node.ek().to_string(), other.ek().to_string());
    let (one, two) = (old.clone(), new.clone());
    let policy = ["policy", "new", "--manifest", "demo", "--unsigned", "--ek-pin", &one, "--ek-pin", &two];
    plant.operator.run(&[&policy[..], &["--out", "both.json"]].concat()).succeeded();
    plant.machines(&["policy", "install", "both.json"]).succeeded();
    other.take_disk_of(&plant.node);
    let recover = |plant: &Plant, node: &FakeNode, more: &[&str]| {
        let kubectl = ["--kubectl-program", plant.kubectl.to_str().unwrap(), "--output", "json"];
        plant.operator.recover(node, "master.json", &[&kubectl[..], more].concat())
    };
    assert_eq!(error_code(&recover(&plant, &other, &[]).failed(3)), "disk-of-another-machine");

    // Before the record, before the old record goes.
    let kubectl = plant.kubectl.clone();
    let script = format!(
        "case \"$1\" in create) input=$(cat); case \"$input\" in *'\"kind\":\"AttestedNode\"'*) exit 7;; esac; \
         printf %s \"$input\" | {0} \"$@\"; exit;; esac; exec {0} \"$@\"",
        kubectl.display()
    );
    plant.kubectl = plant.fake_program("cut-first", &script);
    assert_eq!(error_code(&recover(&plant, &other, &["--moved-to", &new]).failed(1)), "program-failed");
    let script = format!("case \"$*\" in *delete*attestednodes*) exit 7;; esac; exec {} \"$@\"", kubectl.display());
    plant.kubectl = plant.fake_program("cut-last", &script);
    assert_eq!(error_code(&recover(&plant, &other, &["--moved-to", &new]).failed(1)), "program-failed");
    plant.kubectl = kubectl;
    // Neither has the key meanwhile.
    plant.node.restart(Stage::Existing);
    for node in [&plant.node, &other] {
        assert_eq!(error_code(&recover(&plant, node, &[]).failed(3)), "disk-of-another-machine");
    }
    assert_eq!((plant.node.state().recoveries, other.state().recoveries), (0, 0));
    recover(&plant, &other, &["--moved-to", &new]).succeeded();
    let nodes = plant.items(NODES);
    assert_eq!((nodes.len(), &nodes[0]["spec"]["ek_sha256"]), (1, &json!(new)));
    assert_eq!(nodes[0]["spec"]["moved"]["from"], old);
    assert_eq!(error_code(&recover(&plant, &plant.node, &[]).failed(3)), "disk-of-another-machine");
    assert_eq!(plant.node.state().recoveries, 0);
}

#[test]
#[ignore = "needs etcd, kube-apiserver, kube-controller-manager, kubectl and helm: ./dev e2e api-server"]
fn collateral_is_put_into_one_object_and_replaced_as_a_whole() {
    let plant = Plant::new();
    plant.init(&["--kubernetes", "1.34"]).succeeded();
    let amd = FakeAmd::new(SnpProduct::Milan);
    let directory = plant.operator.path("amd");
    latchkey_collateral::publish_fake(&amd, &directory).unwrap();
    let first = plant.machines(&["collateral", "install", "amd"]).succeeded().json();
    assert_eq!((&first["written"], &first["snp"], &first["tpm_lists"]), (&json!(true), &json!(true), &json!(0)));
    let entries = || plant.binary_data("latchkey-collateral").as_object().unwrap().clone();
    assert_eq!(entries()["snp.chain.pem"], base64::engine::general_purpose::STANDARD.encode(&amd.chain));
    assert_eq!(plant.machines(&["collateral", "install", "amd"]).succeeded().json()["written"], false);
    // What is not in the directory any more is not in the object.
    std::fs::rename(directory.join("snp/chain.pem"), directory.join("snp/milan.pem")).unwrap();
    plant.by_kubeconfig(&["collateral", "install", "amd"]).succeeded();
    assert_eq!(entries().keys().collect::<Vec<_>>(), ["snp.milan.pem"]);
    // A whole part that is not is refused: it is rather another directory than meant.
    std::fs::rename(directory.join("snp"), directory.join("tdx")).unwrap();
    std::fs::remove_file(directory.join("tdx/milan.pem")).unwrap();
    let refused = plant.machines(&["collateral", "install", "amd"]).failed(2);
    assert!(refused.out.contains("has a part `snp`"), "{}", refused.out);
    assert_eq!(entries().keys().collect::<Vec<_>>(), ["snp.milan.pem"]);
}
