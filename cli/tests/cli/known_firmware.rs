//! Known firmware, as an operator makes it so: recorded, added to a manifest, demanded by a policy, taken away again.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use crate::support::command::Ran;
use crate::support::node::FakeNode;
use crate::support::operator::Operator;
use latchkey_attestation::FirmwareStanding;
use latchkey_attestation::reference::ManifestName;
use latchkey_cluster_store::{ClusterStore, PendingRecord};
use serde_json::{Value, json};

/// A manifest `edge.json` that says nothing of firmware, as one of an image that was built, and a node that runs the image.
fn built() -> (Operator, FakeNode) {
    let operator = Operator::new();
    let node = FakeNode::start(&operator.init_secret());
    on(&node, 0xa1);
    record(&operator, &node, "edge.json", &["--warn", ""]).succeeded();
    (operator, node)
}

/// The node's firmware is another.
fn on(node: &FakeNode, code: u8) {
    node.set_pcr(0, [code; 32]);
    node.set_pcr(2, [0x22; 32]);
}

fn record(operator: &Operator, node: &FakeNode, out: &str, more: &[&str]) -> Ran {
    let (address, ek) = (node.address(), node.ek().to_string());
    let arguments = ["record", &address, "--ek-pin", &ek, "--name", "demo", "--version", "1.0.0", "--out", out];
    operator.run(&[&arguments[..], more].concat())
}

fn add(operator: &Operator, base: &str, recorded: &str, out: &str, more: &[&str]) -> Ran {
    let arguments = ["reference", "add-firmware", base, recorded, "--out", out, "--output", "json"];
    operator.run(&[&arguments[..], more].concat())
}

fn verify(operator: &Operator, node: &FakeNode, policy: &str, reference: &str) -> Ran {
    let address = node.address();
    operator.run(&["verify", &address, "--policy", policy, "--reference", reference, "--output", "json"])
}

fn code(ran: &Ran) -> Value {
    ran.json()["error"]["code"].clone()
}

fn policy(operator: &Operator, node: &FakeNode, out: &str, more: &[&str]) {
    let ek = node.ek().to_string();
    let arguments = ["policy", "new", "--ek-pin", &ek, "--manifest", "demo", "--unsigned", "--out", out];
    operator.run(&[&arguments[..], more].concat()).succeeded();
}

#[test]
fn recorded_firmware_becomes_known_is_demanded_and_goes_again() {
    let (operator, node) = built();
    policy(&operator, &node, "any.json", &[]);
    policy(&operator, &node, "known.json", &["--firmware-known"]);
    let standing = |reference: &str| {
        verify(&operator, &node, "any.json", reference).succeeded().json()["claims"]["firmware"]["standing"].clone()
    };
    assert_eq!(standing("edge.json"), "not-judged");
    let nothing = verify(&operator, &node, "known.json", "edge.json").failed(2);
    assert_eq!(code(&nothing), "reference-unfit");
    record(&operator, &node, "model-a.json", &["--machine", "model-a"]).succeeded();
    let added = add(&operator, "edge.json", "model-a.json", "edge-2.json", &[]).succeeded();
    assert!(added.err.contains("you vouch for the firmware"), "{}", added.err);
    assert_eq!(operator.serial("edge-2.json"), operator.serial("edge.json") + 1);
    let known = verify(&operator, &node, "known.json", "edge-2.json").succeeded().json();
    assert_eq!(known["claims"]["firmware"], json!({"standing": "known", "manifest": "demo", "machine": "model-a"}));
    let human = ["verify", &node.address(), "--policy", "known.json", "--reference", "edge-2.json"];
    let human = operator.run(&human).succeeded().out;
    assert!(human.contains("known: that of model-a in manifest demo"), "{human}");
    let check = ["policy", "check", "--policy", "known.json", "--reference", "edge-2.json"];
    let checked = operator.run(&check).succeeded().out;
    assert!(checked.contains("known alone; known is that of model-a"), "{checked}");
    // The same image on other firmware.
    on(&node, 0xb1);
    assert_eq!(standing("edge-2.json"), "unknown");
    let refused = verify(&operator, &node, "known.json", "edge-2.json").failed(3);
    assert_eq!(code(&refused), "firmware-unknown");
    assert!(refused.out.contains("latchkey reference add-firmware"), "{}", refused.out);
    // A second firmware, and the first one goes.
    record(&operator, &node, "model-b.json", &["--machine", "model-b"]).succeeded();
    add(&operator, "edge-2.json", "model-b.json", "edge-3.json", &[]).succeeded();
    verify(&operator, &node, "known.json", "edge-3.json").succeeded();
    let remove = ["reference", "remove-firmware", "edge-3.json", "model-b", "--out", "edge-4.json"];
    operator.run(&remove).succeeded();
    assert_eq!(code(&verify(&operator, &node, "known.json", "edge-4.json").failed(3)), "firmware-unknown");
    on(&node, 0xa1);
    verify(&operator, &node, "known.json", "edge-4.json").succeeded();
}

/// What comes in is firmware, and no image: a recording of another boot would have it admitted.
#[test]
fn firmware_is_added_only_from_a_boot_of_an_image_of_the_manifest() {
    let (operator, node) = built();
    let refused = |recorded: &str, more: &[&str], words: &str| {
        let ran = add(&operator, "edge.json", recorded, "next.json", more).failed(2);
        assert_eq!(code(&ran), "usage");
        assert!(ran.out.contains(words), "{words}: {}", ran.out);
        assert!(!operator.path("next.json").exists());
    };
    node.set_pcr(11, [0x1b; 32]);
    record(&operator, &node, "other-image.json", &[]).succeeded();
    refused("other-image.json", &[], "PCR 11");
    node.set_pcr(11, [11; 32]);
    record(&operator, &node, "no-firmware.json", &["--warn", "3"]).succeeded();
    refused("no-firmware.json", &[], "tells no firmware");
    node.set_pcr(2, [0; 32]);
    record(&operator, &node, "silent.json", &[]).succeeded();
    refused("silent.json", &[], "tells no firmware");
    on(&node, 0xa1);
    record(&operator, &node, "good.json", &[]).succeeded();
    // `built` has the name that a recording has where nobody says one.
    refused("good.json", &[], "--machine");
    add(&operator, "edge.json", "good.json", "next.json", &["--machine", "model-a"]).succeeded();
    let again = add(&operator, "next.json", "good.json", "third.json", &["--machine", "model-b"]).failed(2);
    assert!(again.out.contains("known already, as model-a"), "{}", again.out);
    let remove = ["reference", "remove-firmware", "next.json", "recorded-machine", "--out", "third.json"];
    let nothing = operator.run(&remove).failed(2);
    assert!(nothing.err.contains("these do: model-a"), "{}", nothing.err);
    // Of an image of which firmware alone is enforced every boot would be one.
    record(&operator, &node, "firmware-alone.json", &["--enforce", "0,2", "--warn", "11"]).succeeded();
    on(&node, 0xb1);
    record(&operator, &node, "model-b.json", &["--machine", "model-b"]).succeeded();
    let any = add(&operator, "firmware-alone.json", "model-b.json", "third.json", &[]).failed(2);
    assert!(any.out.contains("of no image of demo"), "{}", any.out);
}

/// A machine whose other registers are enforced and differ would be refused, whatever is said of its firmware.
#[test]
fn firmware_is_added_only_where_what_else_is_enforced_is_the_same() {
    let operator = Operator::new();
    let node = FakeNode::start(&operator.init_secret());
    on(&node, 0xa1);
    node.set_pcr(3, [0x33; 32]);
    policy(&operator, &node, "strict.json", &["--enforce", "0,2,3,4,7,9,11,12,13"]);
    let record = |out: &str, machine: &str| {
        let address = node.address();
        let arguments = ["record", &address, "--policy", "strict.json", "--name", "demo", "--version", "1.0.0"];
        operator.run(&[&arguments[..], &["--machine", machine, "--out", out]].concat()).succeeded()
    };
    record("edge.json", "model-a");
    on(&node, 0xb1);
    node.set_pcr(3, [0x44; 32]);
    record("other-settings.json", "model-b");
    let refused = add(&operator, "edge.json", "other-settings.json", "next.json", &[]).failed(2);
    assert!(refused.out.contains("PCR 3"), "{}", refused.out);
    assert!(!operator.path("next.json").exists());
    node.set_pcr(3, [0x33; 32]);
    record("model-b.json", "model-b");
    add(&operator, "edge.json", "model-b.json", "next.json", &[]).succeeded();
    verify(&operator, &node, "strict.json", "next.json").succeeded();
}

/// Firmware that is listed for one image is none for another that enforces its own.
#[test]
fn an_image_that_enforces_firmware_lists_it_though_another_image_does() {
    let (operator, node) = built();
    // Another image, which was recorded with its firmware enforced.
    node.set_pcr(11, [0x1b; 32]);
    let enforce = ["--enforce", "0,2,4,7,9,11,12,13"];
    policy(&operator, &node, "strict.json", &enforce);
    let record_of = |version: &str, machine: &str, out: &str, by: &[&str]| {
        let address = node.address();
        let arguments =
            ["record", &address, "--name", "demo", "--version", version, "--machine", machine, "--out", out];
        operator.run(&[&arguments[..], by].concat()).succeeded()
    };
    let strict = ["--policy", "strict.json"];
    on(&node, 0xb1);
    record_of("2.0.0", "model-b", "second.json", &strict);
    let both = ["reference", "add", "edge.json", "second.json", "--out", "both.json"];
    operator.run(&both).succeeded();
    // The first image lists model-a, on which the second is refused still.
    node.set_pcr(11, [11; 32]);
    on(&node, 0xa1);
    record(&operator, &node, "model-a.json", &["--machine", "model-a"]).succeeded();
    add(&operator, "both.json", "model-a.json", "listed.json", &[]).succeeded();
    node.set_pcr(11, [0x1b; 32]);
    record_of("2.0.0", "model-a-2", "model-a-2.json", &strict);
    policy(&operator, &node, "any.json", &["--enforce", "4,7,9,11,12,13"]);
    verify(&operator, &node, "any.json", "listed.json").failed(3);
    add(&operator, "listed.json", "model-a-2.json", "all.json", &[]).succeeded();
    verify(&operator, &node, "any.json", "all.json").succeeded();
    // Once is enough.
    let again = add(&operator, "all.json", "model-a-2.json", "more.json", &["--machine", "model-c"]).failed(2);
    assert!(again.out.contains("known already"), "{}", again.out);

    // Taken away from one image, it stays known by the other: what is known counts for all.
    let remove = |more: &[&str]| {
        let arguments = ["reference", "remove-firmware", "all.json", "model-a", "--out", "none.json"];
        operator.run(&[&arguments[..], more, &["--output", "json"]].concat())
    };
    let refused = remove(&[]).failed(2);
    assert!(refused.out.contains("would stay known: model-a-2") && refused.out.contains("--also"), "{}", refused.out);
    assert!(!operator.path("none.json").exists());
    assert!(remove(&["--also", "model-x"]).failed(2).out.contains("no machine model-x"));
    let removed = remove(&["--also", "model-a-2"]).succeeded();
    assert!(removed.err.contains("another manifest"), "{}", removed.err);
    assert!(!std::fs::read_to_string(operator.path("none.json")).unwrap().contains("model-a"));
}

#[test]
fn the_list_of_machines_that_wait_and_their_admission_tell_whether_firmware_is_known() {
    let (operator, node) = Operator::with_node();
    operator.init(&node, &[]).succeeded();
    let store = ClusterStore::open(operator.path("plant")).unwrap();
    let known = FirmwareStanding::Known { manifest: ManifestName::new("demo").unwrap(), machine: "model-a".to_owned() };
    for (firmware, word, words) in [
        (known, "known", "known: that of model-a in manifest demo"),
        (FirmwareStanding::Unknown, "unknown", "unknown: no manifest lists it"),
        (FirmwareStanding::NotJudged, "not judged", "not judged: no manifest lists firmware"),
    ] {
        let other = FakeNode::start(&operator.init_secret());
        let ek = other.ek().to_string();
        let waits = PendingRecord::new(other.ek(), "edge-9", None, other.state().disk, 1_800_000_000);
        store.writer().unwrap().hold(&waits.on_firmware(firmware.clone())).unwrap();
        let ran = |arguments: &[&str]| operator.run(&[arguments, &["--cluster", "plant"]].concat()).succeeded();
        for shown in [ran(&["node", "list"]), ran(&["status"])] {
            assert!(shown.out.contains(&format!("firmware {word}")), "{}", shown.out);
        }
        assert!(ran(&["node", "show", &ek]).out.contains(words));
        let json = serde_json::to_value(&firmware).unwrap();
        assert_eq!(ran(&["node", "list", "--output", "json"]).json()["held"][0]["firmware"], json);
        // In words and for programs, where it is admitted.
        let name = format!("edge-{}", word.len());
        assert!(ran(&["node", "admit", &ek, "--name", &name]).out.contains(words));
        store
            .writer()
            .unwrap()
            .hold(&PendingRecord::new(other.ek(), "x", None, other.state().disk, 1).on_firmware(firmware))
            .unwrap();
        let admitted = ran(&["node", "admit", &ek, "--name", &name, "--output", "json"]).json();
        assert_eq!(admitted["firmware"], json);
    }
}
