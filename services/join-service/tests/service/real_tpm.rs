//! With real TPM 2.0 code (swtpm) and an endorsement-key certificate. Skipped, and says so, where swtpm is not installed.

use crate::rig::{Answer, Machine, Rig, TIME, join_request, policy, reference};
use latchkey_api::v1::{RejoinRequest, ReportRequest, Role as ApiRole};
use latchkey_channel::{ChannelError, PeerReason, Purpose, TpmAttester};
use latchkey_tpm::device::AttestingTpm;
use latchkey_tpm::device::rig::Swtpm;
use latchkey_tpm::wire::{EkTemplate, extended};
use serde_json::json;
use std::sync::{Arc, Mutex};

const DISK: &str = "0a0a0a0a-0000-4000-8000-000000000001";
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
    let rejoin = RejoinRequest { disk_uuid: DISK.into() };
    let report = ReportRequest { disk_uuid: DISK.into(), succeeded: true, code: String::new(), message: String::new() };

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
