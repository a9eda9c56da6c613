//! The service with a wrong clock, by libfaketime. Skipped, and says so, where that or swtpm is not installed.

use crate::service::api_server::moved_into;
use crate::service::certificates::{CLIENT, NODES, Site, node_csr, post};
use crate::service::rig::{Answer, Machine, Rig, Service, TIME, join_request, policy, reference};
use latchkey_api::v1::{RejoinRequest, Role as ApiRole};
use latchkey_api_server_rig::ApiServer;
use latchkey_attestation::reference::format_rfc3339;
use latchkey_channel::{ChannelError, PeerReason, Purpose, TpmAttester};
use latchkey_swtpm_rig::Swtpm;
use latchkey_test_support::{until, wrong_clock};
use latchkey_tpm::device::AttestingTpm;
use latchkey_tpm::wire::{EkTemplate, extended};
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

const DISK: &str = "0a0a0a0a-0000-4000-8000-000000000001";
const IMAGE_EVENT: &[u8] = b"the image of this test";

fn start_at(rig: &Rig, time: &str) -> Option<Service> {
    let mut command = rig.command();
    wrong_clock(&mut command, time)?;
    Some(rig.start_as(&mut command))
}

#[test]
fn a_clock_of_1970_refuses_certificates_by_name_and_one_of_2099_admits_those_without_end() {
    let Some(tpm) = Swtpm::start() else { return };
    let rig = Rig::new(&[&Machine::new()]);
    let authority = tpm.authority();
    let (root, issuer) = (authority.root_pem().unwrap(), authority.issuer_pem().unwrap());
    let trust = json!([{ "kind": "ek-chain", "roots": [root], "intermediates": [issuer] }]);
    let mut policy = policy(&trust);
    policy["ek_templates"] = json!(["ecc-p384"]);
    rig.directory.write_policy(&policy.to_string()).unwrap();
    rig.directory.write_reference(&reference("1.0.0", extended(&[0; 32], IMAGE_EVENT))).unwrap();
    let mut booted = AttestingTpm::new(tpm.connect().unwrap(), EkTemplate::P384H3).unwrap();
    booted.extend_event(11, IMAGE_EVENT).unwrap();
    let attester = Arc::new(TpmAttester::new(Arc::new(Mutex::new(booted))));
    let join = join_request(DISK, "worker-1", ApiRole::Worker);
    let rejoin = RejoinRequest { disk_uuid: DISK.into(), ..RejoinRequest::default() };

    // Before the certificates begin: refused by that name, and the remedy is the verifier's clock.
    let Some(mut early) = start_at(&rig, "1970-01-02 00:00:00") else { return };
    let joined = early
        .call_with(attester.clone(), Purpose::Join, async |client| client.issue_join_ticket(&join, TIME).await)
        .map(drop);
    early.next_line(&["audit", "ek-certificate-not-yet-valid"]);
    let rejoined = early
        .call_with(attester.clone(), Purpose::Rejoin, async |client| client.issue_rejoin_ticket(&rejoin, TIME).await)
        .map(drop);
    early.next_line(&["audit", "ek-certificate-not-yet-valid"]);
    for answer in [joined, rejoined] {
        let told = matches!(&answer, Err(Answer::Refused(ChannelError::PeerRefused(PeerReason::TpmNotTrusted))));
        assert!(told, "{answer:?}");
    }
    drop(early);

    // These certificates have no end (RFC 5280 section 4.1.2.5), as those of TPM vendors: a clock that is late admits them.
    let Some(late) = start_at(&rig, "2099-01-01 00:00:00") else { return };
    late.call_with(attester.clone(), Purpose::Join, async |client| client.issue_join_ticket(&join, TIME).await)
        .unwrap();
    late.call_with(attester, Purpose::Rejoin, async |client| client.issue_rejoin_ticket(&rejoin, TIME).await).unwrap();
}

/// Where no certificate is judged, the clock decides nothing: freshness comes from nonces.
#[test]
fn pinned_machines_join_and_rejoin_whatever_the_services_clock_says() {
    for time in ["1970-01-02 00:00:00", "2099-01-01 00:00:00"] {
        let node = Machine::new();
        let rig = Rig::new(&[&node]);
        let Some(service) = start_at(&rig, time) else { return };
        service.join(&node, DISK, "worker-1").unwrap();
        service.rejoin(&node, DISK).unwrap();
    }
}

/// A service whose clock is so many minutes ahead of this one, or behind it.
fn start_off_by(rig: &Rig, minutes: i64) -> Option<Service> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let time = format_rfc3339(now.checked_add_signed(minutes * 60).unwrap());
    start_at(rig, time.trim_end_matches('Z').replace('T', " ").as_str())
}

/// It would make tokens that live for years, or not at all.
#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_service_whose_clock_is_not_the_api_servers_gives_no_token() {
    let machine = Machine::new();
    let mut rig = Rig::new(&[&machine]);
    let server = ApiServer::start();
    let admin = moved_into(&server, &mut rig);
    for (minutes, way) in [(20, "behind"), (-20, "ahead of")] {
        let Some(mut wrong) = start_off_by(&rig, minutes) else { return };
        let refused = wrong.join(&machine, DISK, "worker-1").unwrap_err();
        assert!(format!("{refused:?}").contains("clocks-differ"), "{refused:?}");
        wrong.next_line(&["api-clocks-differ", way]);
        // The token goes with the refusal.
        until("the token to be deleted", || {
            let secrets = admin.get("/api/v1/namespaces/kube-system/secrets").granted();
            secrets["items"].as_array().unwrap().is_empty().then_some(())
        });
        let nodes = admin.get(NODES).granted();
        assert!(nodes["items"].as_array().unwrap().is_empty(), "something is recorded");
    }
    rig.start().join(&machine, DISK, "worker-1").unwrap();
}

/// A denial is final, and counts for all services.
#[test]
#[ignore = "needs etcd, kube-apiserver and kube-controller-manager: ./dev e2e api-server"]
fn a_service_whose_clock_is_ahead_denies_no_request_whose_ticket_lives() {
    let machine = Machine::new();
    let site = Site::new(&[&machine]);
    let right = site.rig.start();
    let ticket = right.join(&machine, DISK, "worker-1").unwrap();
    let token = ticket.cluster.as_ref().unwrap().bootstrap_token.clone();
    drop(right);
    let Some(mut wrong) = start_off_by(&site.rig, 25) else { return };
    post(&site.holder(&token), "first", CLIENT, &node_csr("worker-1", &[], &[]).0);
    wrong.next_line(&["api-clocks-differ", "first"]);
    drop(wrong);
    let _right = site.rig.start();
    site.answer("first").unwrap();
}
