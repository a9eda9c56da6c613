//! With real TPM 2.0 code (swtpm) and an endorsement-key certificate. Skipped, and says so, where swtpm is not installed.

use crate::service::firmware::option_rom;
use crate::service::rig::{Answer, Machine, Rig, TIME, join_request, policy, reference};
use latchkey_api::v1::{RejoinRequest, ReportRequest, Role as ApiRole};
use latchkey_attestation::EkDigest;
use latchkey_channel::{ChannelError, PeerReason, Purpose, TpmAttester};
use latchkey_measurements::{EventType, log_sample};
use latchkey_swtpm_rig::Swtpm;
use latchkey_tpm::device::AttestingTpm;
use latchkey_tpm::wire::{EkTemplate, extended};
use serde_json::json;
use std::sync::{Arc, Mutex};

const DISK: &str = "0a0a0a0a-0000-4000-8000-000000000001";
/// What a boot of this test measures, and the log of it.
fn measured_boot(tpm: &mut AttestingTpm, roms: &[u8]) -> Vec<u8> {
    let mut log = log_sample::empty();
    let mut measure = |pcr, kind, data: &[u8]| {
        tpm.extend_event(pcr, data).unwrap();
        log = log_sample::with_event(&log, pcr, kind, data);
    };
    measure(0, EventType::S_CRTM_VERSION, b"firmware 1");
    for slot in roms {
        measure(2, EventType::EFI_BOOT_SERVICES_DRIVER, &option_rom(*slot));
    }
    measure(2, EventType::SEPARATOR, &[0; 4]);
    measure(11, EventType::IPL, IMAGE_EVENT);
    log
}

#[test]
fn a_real_tpm_shows_a_new_option_rom_and_its_boots_are_told_apart() {
    let Some(mut tpm) = Swtpm::start_distinct("new-option-rom") else { return };
    let mut attesting = AttestingTpm::new(tpm.connect().unwrap(), EkTemplate::P256L2).unwrap();
    let ek = EkDigest::of_public_area(&attesting.ek_public().marshal()).unwrap();
    let rig = Rig::new(&[&Machine::new()]);
    let mut policy = policy(&json!([{ "kind": "pinned-ek", "ek_sha256": [ek] }]));
    policy["firmware_change"] = json!({"warn": [], "refuse": [0, 1, 2, 3, 6]});
    rig.directory.write_policy(&policy.to_string()).unwrap();
    rig.directory.write_reference(&reference("1.0.0", extended(&[0; 32], IMAGE_EVENT))).unwrap();
    let mut service = rig.start();
    let rejoin = RejoinRequest { disk_uuid: DISK.into(), ..RejoinRequest::default() };
    let report = ReportRequest { disk_uuid: DISK.into(), succeeded: true, ..ReportRequest::default() };

    let log = measured_boot(&mut attesting, &[1]);
    let booted = Arc::new(Mutex::new(attesting));
    let attester = Arc::new(TpmAttester::new(Arc::clone(&booted)).with_event_log(log));
    let join = join_request(DISK, "worker-1", ApiRole::Worker);
    service.call_with(attester.clone(), Purpose::Join, async |c| c.issue_join_ticket(&join, TIME).await).unwrap();
    let record = || rig.directory.record(&ek).unwrap().unwrap().into_inner();
    let first = record().tpm.unwrap();
    booted.lock().unwrap().extend_event(15, rig.cluster.cluster_id.lock_event()).unwrap();
    service.call_with(attester.clone(), Purpose::Report, async |client| client.report(&report, TIME).await).unwrap();
    let locked = record().tpm.unwrap();
    assert_eq!(
        (locked.boot, first.locked, locked.locked),
        (first.boot, false, true),
        "one boot, before and after the lock"
    );
    drop((attester, booted));

    for (roms, expected) in [(&[1][..], None), (&[1, 3], Some("firmware-changed"))] {
        tpm.restart().unwrap();
        let mut attesting = AttestingTpm::new(tpm.connect().unwrap(), EkTemplate::P256L2).unwrap();
        let log = measured_boot(&mut attesting, roms);
        let attester = Arc::new(TpmAttester::new(Arc::new(Mutex::new(attesting))).with_event_log(log));
        let answer = service
            .call_with(attester, Purpose::Rejoin, async |client| client.issue_rejoin_ticket(&rejoin, TIME).await);
        assert_eq!(answer.err().map(|answer| answer.code()).as_deref(), expected);
    }
    let line = service.next_line(&["audit", "refused", "firmware-changed"]);
    assert!(line.contains("EV_EFI_BOOT_SERVICES_DRIVER, 16384 bytes from PciRoot(0x0)/Pci(0x3,0x0) is new"), "{line}");
}

const IMAGE_EVENT: &[u8] = b"the image of this test";

#[test]
fn a_certified_tpm_joins_locks_reports_and_gets_nothing_more() {
    let Some(tpm) = Swtpm::start() else { return };
    let rig = Rig::new(&[&Machine::new()]);
    let authority = tpm.authority();
    let (root, issuer) = (authority.root_pem().unwrap(), authority.issuer_pem().unwrap());
    let trust = json!([{ "kind": "ek-chain", "roots": [root], "intermediates": [issuer] }]);
    let mut policy = policy(&trust);
    policy["ek_templates"] = json!(["ecc-p384"]);
    rig.directory.write_policy(&policy.to_string()).unwrap();
    rig.directory.write_reference(&reference("1.0.0", extended(&[0; 32], IMAGE_EVENT))).unwrap();
    let mut service = rig.start();

    let mut booted = AttestingTpm::new(tpm.connect().unwrap(), EkTemplate::P384H3).unwrap();
    booted.extend_event(11, IMAGE_EVENT).unwrap();
    let booted = Arc::new(Mutex::new(booted));
    let attester = Arc::new(TpmAttester::new(Arc::clone(&booted)));
    let join = join_request(DISK, "worker-1", ApiRole::Worker);
    let rejoin = RejoinRequest { disk_uuid: DISK.into(), ..RejoinRequest::default() };
    let report = ReportRequest { disk_uuid: DISK.into(), succeeded: true, ..ReportRequest::default() };

    let ticket = service
        .call_with(attester.clone(), Purpose::Join, async |client| client.issue_join_ticket(&join, TIME).await)
        .unwrap();
    assert_eq!(ticket.state_disk_key, rig.key_of(DISK));
    service.next_line(&["audit", "granted", "method=\"join\""]);
    let ticket = service
        .call_with(attester.clone(), Purpose::Rejoin, async |client| client.issue_rejoin_ticket(&rejoin, TIME).await)
        .unwrap();
    assert_eq!(ticket.epoch, 1);

    booted.lock().unwrap().extend_event(15, rig.cluster.cluster_id.lock_event()).unwrap();
    service.call_with(attester.clone(), Purpose::Report, async |client| client.report(&report, TIME).await).unwrap();
    let answer = service
        .call_with(attester, Purpose::Rejoin, async |client| client.issue_rejoin_ticket(&rejoin, TIME).await)
        .unwrap_err();
    assert!(matches!(answer, Answer::Refused(ChannelError::PeerRefused(PeerReason::LockRefused))), "{answer:?}");
    service.next_line(&["audit", "already-locked"]);
}
