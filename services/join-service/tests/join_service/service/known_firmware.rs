//! Whether a machine's firmware is one that a manifest lists: told of machines that wait, and demanded by a policy that says so.

use crate::service::rig::{IMAGE, Machine, Rig, manifest, policy, reference};
use latchkey_attestation::reference::{PlatformProfile, Reference};
use latchkey_attestation::{Digest, FirmwareStanding, ReferenceValues};
use latchkey_cluster_store::{Enrolment, RoleRule};
use serde_json::json;

const DISK: &str = "0a0a0a0a-0000-4000-8000-000000000001";

/// A machine whose firmware measured this.
fn machine(code: u8) -> Machine {
    Machine::new().after(|tpm| {
        tpm.set_pcr(0, [code; 32]);
        tpm.set_pcr(2, [0x22; 32]);
    })
}

fn write_policy(rig: &Rig, machines: &[&Machine], firmware: &str) {
    let eks: Vec<_> = machines.iter().map(|machine| machine.ek()).collect();
    let mut policy = policy(&json!([{ "kind": "pinned-ek", "ek_sha256": eks }]));
    policy["pcrs"]["warn"] = json!([0, 2]);
    policy["firmware"] = json!(firmware);
    rig.directory.write_policy(&policy.to_string()).unwrap();
}

/// The manifest, which lists the firmware of `machine(code)` as `model-a`.
fn listing(code: u8) -> ReferenceValues {
    let value = |byte| Reference::warned(Digest([byte; 32]));
    let recorded = PlatformProfile::new("recorded", [(0, value(code)), (2, value(0x22))].into());
    let values = reference("1.0.0", IMAGE);
    let listed = values.edited(values.serial() + 1000, |images, _| {
        let image = images.remove(0);
        let machines = [image.machines()[0].clone(), image.machines()[0].with_firmware_of(&recorded, "model-a")];
        images.push(image.with_machines(machines.to_vec()));
    });
    listed.unwrap()
}

#[test]
fn a_machine_that_waits_is_written_down_with_what_is_known_of_its_firmware() {
    let machine = machine(0xa1);
    let rig = Rig::new(&[&machine]);
    write_policy(&rig, &[&machine], "any");
    rig.directory.write_enrolment(&Enrolment::hold_all()).unwrap();
    let mut service = rig.start();
    assert_eq!(service.join(&machine, DISK, "worker-1").unwrap_err().code(), "enrolment-held");
    let pending = rig.directory.pending().unwrap();
    assert_eq!((pending.len(), &pending[0].firmware), (1, &FirmwareStanding::NotJudged));
    for (code, expected) in [(0xb1, "unknown"), (0xa1, "known")] {
        rig.directory.write_reference(&listing(code)).unwrap();
        service.next_line(&["Configuration reloaded", "attestation"]);
        assert_eq!(service.join(&machine, DISK, "worker-1").unwrap_err().code(), "enrolment-held");
        assert_eq!(rig.directory.pending().unwrap()[0].firmware.word(), expected);
    }
    service.next_line(&["audit", "enrolment-held", "firmware=\"known\""]);
}

#[test]
fn under_a_policy_of_known_firmware_no_other_machine_is_heard_and_none_on_record_stays() {
    let [known, other] = [machine(0xa1), machine(0xb1)];
    let rig = Rig::new(&[&known, &other]);
    write_policy(&rig, &[&known, &other], "any");
    rig.directory.write_reference(&listing(0xa1)).unwrap();
    let mut rules = Enrolment::hold_all();
    rules.admit(other.ek(), RoleRule::Worker, None);
    rules.admit(known.ek(), RoleRule::Worker, None);
    rig.directory.write_enrolment(&rules).unwrap();
    let mut service = rig.start();
    service.join(&other, DISK, "worker-1").unwrap();
    write_policy(&rig, &[&known, &other], "known");
    service.next_line(&["Configuration reloaded", "attestation"]);
    for refused in [service.join(&other, DISK, "worker-1").map(drop), service.rejoin(&other, DISK).map(drop)] {
        assert_eq!(refused.unwrap_err().code(), "measurements-refused");
        let line = service.next_line(&["firmware-unknown", &other.ek().to_string()]);
        assert!(line.contains("latchkey reference add-firmware"), "{line}");
    }
    service.join(&known, "0a0a0a0a-0000-4000-8000-000000000002", "worker-2").unwrap();
    // A policy of known firmware, and manifests that list none: what was in force stays.
    rig.directory.write_reference(&manifest("test", 1_000_000, "1.0.0", IMAGE)).unwrap();
    service.next_line(&["reference-unfit", "latchkey reference add-firmware"]);
}
