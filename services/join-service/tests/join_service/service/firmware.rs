//! A machine's firmware, which no manifest predicts, is held against the machine's own record.

use crate::service::rig::{Answer, Machine, Rig, TIME, join_request, policy};
use latchkey_api::v1::Role;
use latchkey_attestation::MeasuredFirmware;
use latchkey_channel::Purpose;
use latchkey_cluster_store::{FirmwareRecord, NodeRecord};
use latchkey_measurements::{Bank, EventLog, EventType, Replay, log_sample};
use serde_json::{Value, json};

const DISK: &str = "0a0a0a0a-0000-4000-8000-000000000001";
const OTHER_DISK: &str = "0a0a0a0a-0000-4000-8000-000000000002";
const ROM: &str = "EV_EFI_BOOT_SERVICES_DRIVER, 16384 bytes from PciRoot(0x0)/Pci(0x3,0x0)";

/// The event of an option ROM of the card in this slot: `UEFI_IMAGE_LOAD_EVENT` (PFP 1.05, section 10.2.3).
pub(crate) fn option_rom(slot: u8) -> Vec<u8> {
    let root = [2, 1, 12, 0, 0xd0, 0x41, 3, 0x0a, 0, 0, 0, 0];
    let path = [&root[..], &[1, 1, 6, 0, 0, slot], &[0x7f, 0xff, 4, 0]].concat();
    let numbers = [0x7e00_0000_u64, 16384, 0, path.len() as u64];
    [numbers.map(u64::to_le_bytes).concat(), path].concat()
}

/// The machine after a boot with these option ROMs. A boot counts.
fn booted(machine: Machine, reset: u32, slots: &[u8]) -> Machine {
    let log = log_sample::with_event(&log_sample::empty(), 0, EventType::S_CRTM_VERSION, b"firmware 1");
    let driver = EventType::EFI_BOOT_SERVICES_DRIVER;
    let log = slots.iter().fold(log, |log, &slot| log_sample::with_event(&log, 2, driver, &option_rom(slot)));
    let log = log_sample::with_event(&log, 2, EventType::SEPARATOR, &[0; 4]);
    let replay = Replay::of(&EventLog::parse(&log).unwrap(), Bank::Sha256).unwrap();
    let pcrs: Vec<(u8, [u8; 32])> = replay.iter().map(|(pcr, value)| (pcr, value.try_into().unwrap())).collect();
    machine.after(|tpm| {
        for (pcr, value) in pcrs {
            tpm.set_pcr(pcr, value);
        }
        tpm.set_pcr(15, [0; 32]);
        tpm.set_boot(reset, 0);
        tpm.set_event_log(log.clone());
    })
}

fn machine() -> Machine {
    booted(Machine::new(), 1, &[1])
}

/// A cluster whose policy says this about changed firmware.
fn rig(machine: &Machine, rule: &Value) -> Rig {
    let rig = Rig::new(&[machine]);
    write_policy(&rig, machine, rule);
    rig
}

fn write_policy(rig: &Rig, machine: &Machine, rule: &Value) {
    let mut policy = policy(&json!([{ "kind": "pinned-ek", "ek_sha256": [machine.ek()] }]));
    policy["firmware_change"] = rule.clone();
    rig.directory.write_policy(&policy.to_string()).unwrap();
}

fn warn() -> Value {
    json!({"warn": [0, 2], "refuse": []})
}

fn refuse() -> Value {
    json!({"warn": [], "refuse": [0, 2]})
}

fn firmware(rig: &Rig, machine: &Machine) -> FirmwareRecord {
    rig.record(machine).unwrap().firmware.unwrap()
}

/// What `latchkey policy accept-firmware` writes.
fn accept(rig: &Rig, machine: &Machine) {
    let mut writer = rig.directory.writer().unwrap();
    let mut record: NodeRecord = rig.record(machine).unwrap();
    let digest = record.firmware.as_ref().unwrap().changed.as_ref().unwrap().measured.digest();
    assert!(record.accept_firmware(&digest, 1_900_000_000));
    writer.put(&record).unwrap();
}

#[test]
fn the_firmware_of_a_machine_is_on_record_from_its_first_join() {
    let machine = machine();
    let rig = rig(&machine, &warn());
    let service = rig.start();
    service.join(&machine, DISK, "w-1").unwrap();
    let record = rig.record(&machine).unwrap();
    let FirmwareRecord { measured, changed, accepted_at, .. } = record.firmware.unwrap();
    assert_eq!((changed, accepted_at), (None, None));
    assert_eq!(measured.pcrs().set().iter().collect::<Vec<_>>(), [0, 2]);
    let told: Vec<_> = measured.events().iter().map(|event| (event.pcr, event.kind.as_str())).collect();
    assert_eq!(told, [(0, "EV_S_CRTM_VERSION"), (2, "EV_EFI_BOOT_SERVICES_DRIVER"), (2, "EV_SEPARATOR")]);
    assert_eq!(record.tpm.unwrap().boot.reset_count, 1);
    // The same firmware in the next boot is no news.
    let machine = booted(machine, 2, &[1]);
    service.rejoin(&machine, DISK).unwrap();
    let log = service.stop().1;
    assert!(!log.contains("firmware-changed"), "{log}");
}

#[test]
fn a_new_option_rom_is_noticed_and_named() {
    let machine = machine();
    let rig = rig(&machine, &warn());
    let mut service = rig.start();
    service.join(&machine, DISK, "w-1").unwrap();
    let before = firmware(&rig, &machine).measured;
    let machine = booted(machine, 2, &[1, 3]);
    // A rejoin and a join: it is told each time, and the machine let in.
    service.rejoin(&machine, DISK).unwrap();
    let line = service.next_line(&["audit", "warned", "firmware-changed"]);
    for part in ["w-1", "registers=[2]", &machine.ek().to_string(), ROM, "is new", "accept-firmware"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    service.join(&machine, DISK, "w-1").unwrap();
    service.next_line(&["audit", "warned", "firmware-changed", ROM]);
    assert_eq!(service.metric("warnings_total{code=\"firmware-changed\"}"), 2);
    assert_eq!(service.metric("firmware_changed"), 1);
    let (status, body) = service.page("/healthz");
    assert!(status.ends_with("200 OK") && body.contains("firmware-changed: w-1"), "{status}: {body}");
    let kept = firmware(&rig, &machine);
    assert_eq!(kept.measured, before, "what was recorded stays so");
    assert!(kept.changed.unwrap().measured.events().iter().any(|event| event.what.contains("Pci(0x3,0x0)")));
    // Taken out again, there is nothing left to say.
    let machine = booted(machine, 3, &[1]);
    service.rejoin(&machine, DISK).unwrap();
    assert_eq!(firmware(&rig, &machine).changed, None);
    assert_eq!(service.metric("firmware_changed"), 0);
}

#[test]
fn a_changed_firmware_register_refuses_where_the_policy_says_so() {
    let machine = machine();
    let rig = rig(&machine, &refuse());
    let mut service = rig.start();
    service.join(&machine, DISK, "w-1").unwrap();
    let machine = booted(machine, 2, &[1, 3]);
    for disk in [DISK, OTHER_DISK] {
        assert_eq!(service.join(&machine, disk, "w-1").unwrap_err().code(), "firmware-changed");
        service.next_line(&["audit", "refused", "firmware-changed", ROM]);
    }
    let answer = service.rejoin(&machine, DISK).unwrap_err();
    assert_eq!(answer.code(), "firmware-changed");
    assert!(
        matches!(&answer, Answer::Status(status) if status.message().contains(ROM)),
        "its console says why: {answer:?}"
    );
    let record = rig.record(&machine).unwrap();
    assert_eq!((record.disks.len(), record.tpm.unwrap().boot.reset_count), (1, 1), "nothing but the change is kept");
    // With its old firmware the machine is let in, before anybody says anything.
    let machine = booted(machine, 3, &[1]);
    service.rejoin(&machine, DISK).unwrap();
}

#[test]
fn accepted_firmware_is_the_firmware_on_record() {
    let machine = machine();
    let rig = rig(&machine, &refuse());
    let mut service = rig.start();
    service.join(&machine, DISK, "w-1").unwrap();
    let machine = booted(machine, 2, &[1, 3]);
    assert_eq!(service.rejoin(&machine, DISK).unwrap_err().code(), "firmware-changed");
    accept(&rig, &machine);
    // At once: a refusal is decided again on what is on disk.
    service.rejoin(&machine, DISK).unwrap();
    let line = service.next_line(&["audit", "The operator accepted a machine's firmware"]);
    assert!(line.contains("w-1") && line.contains("registers=\"[0, 2]\""), "{line}");
    let machine = booted(machine, 3, &[1]);
    assert_eq!(service.rejoin(&machine, DISK).unwrap_err().code(), "firmware-changed", "the old one is the other now");
}

#[test]
fn a_record_of_an_older_release_is_read_and_gets_its_firmware_at_the_next_admission() {
    let machine = machine();
    let rig = rig(&machine, &refuse());
    let service = rig.start();
    service.join(&machine, DISK, "w-1").unwrap();
    service.stop();
    let path = rig.directory.nodes_path().join(format!("{}.json", machine.ek()));
    let mut old: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    for field in ["firmware", "tpm"] {
        assert!(old.as_object_mut().unwrap().remove(field).is_some());
    }
    std::fs::write(&path, old.to_string()).unwrap();
    let mut service = rig.start();
    service.rejoin(&machine, DISK).unwrap();
    service.next_line(&["w-1", "registers=\"[0, 2]\"", "recorded as it is now"]);
    assert_eq!(firmware(&rig, &machine).measured.pcrs().set().iter().count(), 2);
    let machine = booted(machine, 2, &[1, 3]);
    assert_eq!(service.rejoin(&machine, DISK).unwrap_err().code(), "firmware-changed");
}

#[test]
fn only_what_the_policy_names_is_held_against_the_record() {
    let machine = machine();
    let rig = rig(&machine, &json!({"warn": [], "refuse": [2]}));
    let service = rig.start();
    service.join(&machine, DISK, "w-1").unwrap();
    // PCR 0 is not in the rule: nobody judges it, and it is not on record.
    let machine = machine.after(|tpm| tpm.set_pcr(0, [9; 32]));
    service.rejoin(&machine, DISK).unwrap();
    assert_eq!(firmware(&rig, &machine).measured.pcrs().set().iter().collect::<Vec<_>>(), [2]);
    let log = service.stop().1;
    assert!(!log.contains("firmware-changed"), "{log}");
}

/// A channel's proof is as old as the channel, and shows what the policy of then asked for.
#[test]
fn evidence_for_an_older_policy_passes_no_refusal_of_the_new_one() {
    let machine = machine();
    let rig = rig(&machine, &json!({"warn": [], "refuse": []}));
    let mut service = rig.start();
    service.join(&machine, DISK, "w-1").unwrap();
    let client = *service;
    let reload = |service: &mut crate::service::rig::Service, rule: &Value| {
        write_policy(&rig, &machine, rule);
        service.next_line(&["Configuration reloaded", "attestation"]);
    };
    let request = join_request(OTHER_DISK, "w-1", Role::Unspecified);
    let answer = client.call(&machine, Purpose::Join, async |client| {
        reload(&mut service, &refuse());
        client.issue_join_ticket(&request, TIME).await
    });
    assert_eq!(answer.unwrap_err().code(), "policy-reloaded");
    let record = rig.record(&machine).unwrap();
    assert_eq!((record.disks.len(), record.firmware), (1, None), "it changed nothing");
    service.next_line(&["audit", "refused", "policy-reloaded"]);
    // On a new channel it shows them; and a policy that only warns refuses nobody.
    service.join(&machine, DISK, "w-1").unwrap();
    assert_eq!(firmware(&rig, &machine).measured.pcrs().set().iter().collect::<Vec<_>>(), [0, 2]);
    reload(&mut service, &json!({"warn": [], "refuse": []}));
    let again = join_request(DISK, "w-1", Role::Unspecified);
    let answer = client.call(&machine, Purpose::Join, async |client| {
        reload(&mut service, &warn());
        client.issue_join_ticket(&again, TIME).await
    });
    answer.unwrap();
}

/// Whoever admits a machine takes its log from it.
#[test]
fn a_hostile_log_is_bounded_and_explains_nothing() {
    let machine = machine();
    let rig = rig(&machine, &warn());
    let mut service = rig.start();
    // As many events as the wire takes, of words that cost the most; and the values of it, so that it replays.
    let words = "\u{1f4a3}\"\u{7}".repeat(1000);
    let text = words.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
    let mut log = log_sample::empty();
    while log.len() + 2 * text.len() < 128 * 1024 {
        log = log_sample::with_event(&log, 2, EventType::IPL, &text);
        for _ in 0..40 {
            log = log_sample::with_event(&log, 2, EventType::EFI_ACTION, b"0b0b0b0b-0000-4000-8000-000000000002");
        }
    }
    let replay = Replay::of(&EventLog::parse(&log).unwrap(), Bank::Sha256).unwrap();
    let value = replay.value(2).unwrap().try_into().unwrap();
    let machine = machine.after(|tpm| {
        tpm.set_pcr(2, value);
        tpm.set_event_log(log.clone());
    });
    service.join(&machine, DISK, "w-1").unwrap();
    let kept = firmware(&rig, &machine).measured;
    assert!(kept.events().len() <= MeasuredFirmware::MAX_EVENTS, "{}", kept.events().len());
    let size = std::fs::metadata(rig.directory.nodes_path().join(format!("{}.json", machine.ek()))).unwrap().len();
    assert!(size < 128 * 1024, "{size}");
    // The log of another boot, and no log at all: the change is told by its values.
    let mut machine = machine;
    for log in [log_sample::with_event(&log_sample::empty(), 2, EventType::EFI_ACTION, b"harmless"), b"junk".to_vec()] {
        machine = machine.after(|tpm| {
            tpm.set_pcr(2, [8; 32]);
            tpm.set_event_log(log);
        });
        service.rejoin(&machine, DISK).unwrap();
        let line = service.next_line(&["audit", "warned", "firmware-changed"]);
        assert!(line.contains("no event tells") && !line.contains("harmless"), "{line}");
    }
}

#[test]
fn a_boot_that_reported_its_lock_gets_no_other_ticket() {
    let machine = machine();
    let rig = rig(&machine, &warn());
    let mut service = rig.start();
    // A ticket that was lost on its way is asked for again.
    for _ in 0..2 {
        service.join(&machine, DISK, "w-1").unwrap();
    }
    let machine = machine.locked(&rig);
    service.report(&machine, DISK, "").unwrap();
    // The TPM as it was before the lock, in the same boot: a snapshot that was brought back.
    let machine = machine.after(|tpm| tpm.set_pcr(15, [0; 32]));
    assert_eq!(service.rejoin(&machine, DISK).unwrap_err().code(), "boot-already-locked");
    service.next_line(&["audit", "refused", "boot-already-locked"]);
    assert_eq!(service.join(&machine, OTHER_DISK, "w-1").unwrap_err().code(), "boot-already-locked");
    service.stop();
    let service = rig.start();
    assert_eq!(service.rejoin(&machine, DISK).unwrap_err().code(), "boot-already-locked", "it is on record");
    let machine = booted(machine, 2, &[1]);
    service.rejoin(&machine, DISK).unwrap();
}

#[test]
fn a_report_of_an_earlier_boot_takes_nothing_from_the_record_of_the_later_one() {
    let mut machine = machine();
    let rig = rig(&machine, &warn());
    let mut service = rig.start();
    for reset in [5, 6] {
        machine = booted(machine, reset, &[1]);
        service.join(&machine, DISK, "w-1").unwrap();
    }
    let machine = machine.locked(&rig);
    service.report(&machine, DISK, "").unwrap();
    // Attested in the boot before, and handled only now.
    let machine = machine.after(|tpm| tpm.set_boot(5, 0));
    service.report(&machine, DISK, "").unwrap();
    service.next_line(&["WARN", "earlier boot than the one on record", "reset_count=5", "w-1"]);
    let tpm = rig.record(&machine).unwrap().tpm.unwrap();
    assert_eq!((tpm.boot.reset_count, tpm.locked, tpm.went_back_at), (6, true, None));
    let machine = booted(machine, 6, &[1]);
    assert_eq!(service.rejoin(&machine, DISK).unwrap_err().code(), "boot-already-locked");
}

#[test]
fn counters_that_go_back_are_told_and_the_machine_is_let_in() {
    let machine = booted(Machine::new(), 40, &[1]);
    let rig = rig(&machine, &refuse());
    let mut service = rig.start();
    service.join(&machine, DISK, "w-1").unwrap();
    // The TPM was cleared in the firmware's set-up.
    let machine = booted(machine, 1, &[1]);
    service.rejoin(&machine, DISK).unwrap();
    let line = service.next_line(&["audit", "warned", "tpm-counters-went-back"]);
    assert!(line.contains("reset_count=1") && line.contains("w-1"), "{line}");
    let machine = booted(machine, 2, &[1]);
    service.rejoin(&machine, DISK).unwrap();
    assert_eq!(service.metric("warnings_total{code=\"tpm-counters-went-back\"}"), 1, "told once");
    assert!(rig.record(&machine).unwrap().tpm.unwrap().went_back_at.is_some());
}
