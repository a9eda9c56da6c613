//! A machine's firmware beside its record: noted by `init`, held against it by `recover`, taken over by the operator.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use crate::support::command::Ran;
use crate::support::node::{Behaviour, FakeNode, Stage};
use crate::support::operator::Operator;
use crate::support::terminal::OnTerminal;
use latchkey_measurements::{Bank, EventLog, EventType, Replay, log_sample};
use serde_json::Value;

/// The node boots with these option ROMs.
fn boot(node: &FakeNode, roms: &[&str]) {
    let driver = |log: Vec<u8>, rom: &&str| log_sample::with_event(&log, 2, EventType::EFI_ACTION, rom.as_bytes());
    let log = roms.iter().fold(log_sample::empty(), driver);
    let log = log_sample::with_event(&log, 2, EventType::SEPARATOR, &[0; 4]);
    let replay = Replay::of(&EventLog::parse(&log).unwrap(), Bank::Sha256).unwrap();
    let value = replay.value(2).unwrap().try_into().unwrap();
    node.tpm(|tpm| {
        tpm.set_pcr(2, value);
        tpm.set_event_log(log.clone());
    });
}

/// A cluster of one node whose manifest says nothing about firmware.
fn founded(more: &[&str]) -> (Operator, FakeNode) {
    let (operator, node) = recorded(&[&["--warn", ""], more].concat());
    operator.init(&node, &[]).succeeded();
    (operator, node)
}

/// The same, before there is a cluster.
fn recorded(more: &[&str]) -> (Operator, FakeNode) {
    let operator = Operator::new();
    let node = FakeNode::start(&operator.init_secret());
    boot(&node, &["ROM of the disk"]);
    let (address, ek) = (node.address(), node.ek().to_string());
    let arguments = ["record", &address, "--ek-pin", &ek, "--name", "demo", "--version", "1.0.0"];
    let files = ["--out", "demo.json", "--policy-out", "policy.json"];
    operator.run(&[&arguments[..], &files, more].concat()).succeeded();
    (operator, node)
}

fn restart(node: &FakeNode, roms: &[&str]) {
    node.restart(Stage::Existing);
    boot(node, roms);
}

fn record(operator: &Operator, node: &FakeNode) -> Value {
    operator.json(&format!("plant/nodes/{}.json", node.ek()))
}

fn accept(operator: &Operator, more: &[&str]) -> Ran {
    operator.run(&[&["policy", "accept-firmware", "edge-1", "--cluster", "plant"], more].concat())
}

fn error_code(ran: &Ran) -> String {
    ran.json()["error"]["code"].as_str().unwrap().to_owned()
}

#[test]
fn the_first_node_s_firmware_is_on_record_from_its_init() {
    let (operator, node) = founded(&[]);
    let record = record(&operator, &node);
    let pcrs = record["firmware"]["measured"]["pcrs"].as_object().unwrap();
    assert_eq!(pcrs.keys().collect::<Vec<_>>(), ["0", "1", "2", "3", "6"]);
    assert_eq!(record["firmware"]["measured"]["events"][0]["what"], "ROM of the disk");
    assert_eq!(record["tpm"]["locked"], true, "{record}");
    let shown = operator.run(&["node", "show", "edge-1", "--cluster", "plant"]).succeeded().out;
    assert!(shown.contains("as on record, PCRs [0, 1, 2, 3, 6]"), "{shown}");
    // The same boot without its lock is no boot of this machine.
    node.restart(Stage::Existing);
    let boot = &record["tpm"]["boot"];
    let [resets, restarts] =
        ["reset_count", "restart_count"].map(|name| boot[name].as_u64().unwrap().try_into().unwrap());
    node.tpm(|tpm| tpm.set_boot(resets, restarts));
    let ran = operator.recover(&node, "master.json", &["--output", "json"]).failed(3);
    assert_eq!(error_code(&ran), "boot-already-locked");
    assert_eq!(node.state().recoveries, 0, "no key was sent");
}

#[test]
fn recover_tells_or_refuses_firmware_that_is_not_on_record() {
    let (operator, node) = founded(&[]);
    restart(&node, &["ROM of the disk", "ROM of a stranger"]);
    let ran = operator.recover(&node, "master.json", &[]).succeeded();
    assert!(ran.err.contains("firmware-changed: edge-1: PCR 2"), "{}", ran.err);
    assert!(ran.err.contains("EV_EFI_ACTION, ROM of a stranger is new"), "{}", ran.err);

    let (operator, node) = founded(&["--firmware-refuse", "0,2"]);
    restart(&node, &["ROM of a stranger"]);
    let ran = operator.recover(&node, "master.json", &["--output", "json"]).failed(3);
    assert_eq!(error_code(&ran), "firmware-changed");
    let because = ran.json()["error"]["because"][0].as_str().unwrap().to_owned();
    assert!(because.contains("ROM of a stranger, in the place of EV_EFI_ACTION, ROM of the disk"), "{because}");
    assert_eq!(node.state().recoveries, 0, "no key was sent");
    // By the operator's word it is let in.
    accept(&operator, &["--change", &operator.firmware_change()]).succeeded();
    node.restart(Stage::Existing);
    operator.recover(&node, "master.json", &[]).succeeded();
}

#[test]
fn a_manifest_that_was_recorded_with_its_firmware_switches_no_refusal_off() {
    let (operator, node) = recorded(&["--firmware-refuse", "0,2"]);
    let manifest = operator.json("demo.json");
    assert_eq!(manifest["images"][0]["machines"][0]["pcrs"]["2"]["rule"], "warn", "{manifest}");
    operator.init(&node, &[]).succeeded();
    let pcrs = record(&operator, &node)["firmware"]["measured"]["pcrs"].clone();
    assert!(pcrs["0"].is_string() && pcrs["2"].is_string(), "{pcrs}");
    restart(&node, &["ROM of a stranger"]);
    let ran = operator.recover(&node, "master.json", &["--output", "json"]).failed(3);
    assert_eq!(error_code(&ran), "firmware-changed");
    assert_eq!(node.state().recoveries, 0, "no key was sent");
    restart(&node, &["ROM of the disk"]);
    operator.recover(&node, "master.json", &[]).succeeded();
}

#[test]
fn an_init_that_begins_anew_keeps_the_firmware_and_the_counters_on_record() {
    let (operator, node) = recorded(&["--warn", ""]);
    node.behave(Behaviour { fail_bootstrap: Some(("step-failed", "exit status 1")), ..Behaviour::default() });
    operator.init(&node, &[]).failed(4);
    let before = record(&operator, &node);
    // The node resets its disk; with another card in it, and after its TPM was cleared.
    node.restart(Stage::Fresh);
    boot(&node, &["ROM of a stranger"]);
    node.tpm(|tpm| tpm.set_boot(1, 0));
    node.state().disk = latchkey_keys::Uuid::random().unwrap();
    let ran = operator.init(&node, &[]).succeeded();
    assert!(ran.err.contains("firmware-changed: edge-1: PCR 2"), "{}", ran.err);
    let after = record(&operator, &node);
    assert_eq!(after["retired"].as_array().unwrap().len(), 1, "{after}");
    let (kept, was) = (&after["firmware"], &before["firmware"]);
    assert_eq!((&kept["measured"], &kept["recorded_at"]), (&was["measured"], &was["recorded_at"]));
    assert_eq!(kept["changed"]["measured"]["events"][0]["what"], "ROM of a stranger", "it waits for the operator");
    assert!(after["tpm"]["went_back_at"].is_u64(), "{after}");
}

#[test]
fn a_change_is_accepted_by_the_word_that_names_it_and_no_other() {
    let (operator, node) = founded(&["--firmware-refuse", "2"]);
    let ran = accept(&operator, &["--output", "json"]).failed(2);
    assert_eq!(error_code(&ran), "no-firmware-change");
    restart(&node, &["ROM of a stranger"]);
    operator.recover(&node, "master.json", &[]).failed(3);
    let before = record(&operator, &node);
    let list = operator.run(&["node", "list", "--cluster", "plant"]).succeeded().out;
    assert!(list.contains("firmware changed"), "{list}");
    // Nobody is there to answer, and the error says what to say.
    let ran = accept(&operator, &["--output", "json"]).failed(2).json();
    assert_eq!(ran["error"]["code"], "change-not-confirmed");
    let fix = ran["error"]["fix"].as_str().unwrap();
    let change = fix.rsplit(' ').next().unwrap().to_owned();
    // The machine comes with yet another firmware in between.
    restart(&node, &["ROM of another stranger"]);
    operator.recover(&node, "master.json", &[]).failed(3);
    let ran = accept(&operator, &["--change", &change, "--output", "json"]).failed(2).json();
    assert_eq!(ran["error"]["code"], "change-not-confirmed");
    assert_eq!(record(&operator, &node)["firmware"]["measured"], before["firmware"]["measured"]);
    restart(&node, &["ROM of a stranger"]);
    operator.recover(&node, "master.json", &[]).failed(3);
    let ran = accept(&operator, &["--change", &change, "--output", "json"]).succeeded().json();
    assert_eq!((&ran["name"], &ran["registers"][0]["pcr"]), (&"edge-1".into(), &2.into()));
    assert_eq!(ran["registers"][0]["event"]["got"]["description"], "ROM of a stranger");
    let after = record(&operator, &node);
    assert_eq!(after["firmware"]["measured"]["events"][0]["what"], "ROM of a stranger");
    assert!(after["firmware"]["accepted_at"].is_u64() && after["firmware"]["changed"].is_null(), "{after}");
    node.restart(Stage::Existing);
    operator.recover(&node, "master.json", &[]).succeeded();
}

#[test]
fn a_disk_that_was_moved_brings_no_firmware_along() {
    let (operator, node) = founded(&["--firmware-refuse", "2"]);
    node.restart(Stage::Existing);
    let other = FakeNode::start(&operator.init_secret());
    boot(&other, &["ROM of another board"]);
    operator.trust(&[&node, &other]);
    other.take_disk_of(&node);
    let ek = other.ek().to_string();
    operator.recover(&other, "master.json", &["--moved-to", &ek]).succeeded();
    let record = record(&operator, &other);
    assert_eq!(record["firmware"]["measured"]["events"][0]["what"], "ROM of another board");
}

#[test]
fn a_human_sees_the_change_and_accepts_it_with_yes_alone() {
    let (operator, node) = founded(&["--firmware-refuse", "2"]);
    restart(&node, &["ROM of a stranger"]);
    operator.recover(&node, "master.json", &[]).failed(3);
    let command = ["policy", "accept-firmware", "edge-1", "--cluster", "plant"];
    for answer in ["no\n", "\n", "y\n"] {
        let asked = OnTerminal::start(&operator, &command).until("Is this change meant? [yes/no]");
        assert!(asked.seen.contains("PCR 2") && asked.seen.contains("ROM of a stranger"), "{}", asked.seen);
        let (ran, screen) = asked.answer(answer);
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{screen}");
        assert!(screen.contains("you said that this change is not meant"), "{screen}");
        assert!(record(&operator, &node)["firmware"]["changed"].is_object(), "it still waits after {answer:?}");
    }
    let asked = OnTerminal::start(&operator, &command).until("Is this change meant? [yes/no]");
    let (ran, screen) = asked.answer("yes\n");
    assert_eq!(ran.code, 0, "{screen}");
    assert!(record(&operator, &node)["firmware"]["changed"].is_null());
    node.restart(Stage::Existing);
    operator.recover(&node, "master.json", &[]).succeeded();
}
