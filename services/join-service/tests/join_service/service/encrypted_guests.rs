//! A policy that demands what processors say (SEV-SNP, TDX), with the collateral by which the service verifies it. AMD and Intel are
//! fakes: their roots are trusted by files that a service without the feature `fake-processors` does not read.

use crate::service::rig::{Answer, IMAGE, Machine, Rig, Service, hex, policy, reference};
use latchkey_attestation::fake_amd::FakeAmd;
use latchkey_attestation::fake_intel::{self, FakeIntel};
use latchkey_attestation::parse::{SigningKey, SnpProduct};
use latchkey_attestation::{ReferenceValues, report_data};
use latchkey_channel::message::{Demand, Evidence, Identity};
use latchkey_channel::{Attester, ChannelError, Kind, Kinds, PeerReason, ProofError, ProofRequest, Purpose};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::service::rig::{TIME, join_request};
use latchkey_api::v1::{JoinTicket, Role};

const DISK: &str = "0a0a0a0a-0000-4000-8000-000000000001";

/// A machine in an encrypted guest.
#[derive(Clone)]
struct Guest {
    machine: Machine,
    amd: Arc<FakeAmd>,
}

impl Attester for Guest {
    fn kinds(&self) -> Kinds {
        self.machine.kinds()
    }

    fn identity(&self, kind: Kind) -> Result<Identity, ProofError> {
        self.machine.identity(kind)
    }

    fn prove(&self, request: &ProofRequest) -> Result<Evidence, ProofError> {
        let Demand::Tpm(challenge) = request.demand() else { panic!("no TPM evidence is demanded") };
        let Evidence::Tpm(evidence) = self.machine.prove(request)? else { panic!("no TPM evidence") };
        if challenge.processors().is_empty() {
            return Ok(Evidence::Tpm(evidence));
        }
        let data = report_data(request.binding().as_bytes(), self.machine.tpm().ak_public());
        let guest = self.amd.guest(SigningKey::Vcek, 3, |change| change.report[0x50..0x90].copy_from_slice(&data));
        Ok(Evidence::Tpm(Box::new(evidence.with_processor(guest.evidence().into()))))
    }
}

/// A machine in a TDX guest.
#[derive(Clone)]
struct TdxGuest {
    machine: Machine,
    intel: Arc<FakeIntel>,
}

impl Attester for TdxGuest {
    fn kinds(&self) -> Kinds {
        self.machine.kinds()
    }

    fn identity(&self, kind: Kind) -> Result<Identity, ProofError> {
        self.machine.identity(kind)
    }

    fn prove(&self, request: &ProofRequest) -> Result<Evidence, ProofError> {
        let Evidence::Tpm(evidence) = self.machine.prove(request)? else { panic!("no TPM evidence") };
        let data = report_data(request.binding().as_bytes(), self.machine.tpm().ak_public());
        let quote = self.intel.evidence(|report| report[fake_intel::field::REPORT_DATA..].copy_from_slice(&data));
        Ok(Evidence::Tpm(Box::new(evidence.with_processor(quote.into()))))
    }
}

/// What AMD publishes, as a directory; the whole of it is exchanged at once.
fn publish(amd: &FakeAmd, directory: &Path) {
    let new = directory.with_extension("new");
    latchkey_collateral::publish_fake(amd, &new).unwrap();
    if directory.exists() {
        fs::rename(directory, directory.with_extension("old")).unwrap();
    }
    fs::rename(new, directory).unwrap();
}

/// A cluster whose policy lets in nothing but this machine, in a guest that `FakeAmd` launched with the admitted image.
fn rig(machine: &Machine) -> Rig {
    let rig = Rig::new(&[machine]);
    let mut demanding = policy(&json!([{ "kind": "pinned-ek", "ek_sha256": [machine.ek()] }]));
    demanding["snp"] = json!({
        "tcb_floor": {"milan": {"bootloader": 3, "snp": 8, "microcode": 115}}, "keys": ["vcek"],
        "revocation_list": "demanded", "vmpl": 0, "minimum_abi": "0.0", "allow": ["smt"],
    });
    rig.directory.write_policy(&demanding.to_string()).unwrap();
    let mut values: Value = serde_json::from_str(&reference("1.0.0", IMAGE).to_json()).unwrap();
    values["images"][0]["machines"][0]["snp_launch"] = json!([{
        "digest": hex(&[0xd1; 48]), "firmware_sha256": hex(&[9; 32]), "kernel_hashes": true, "vcpus": 4,
        "vcpu_type": "EPYC-v4", "guest_features": 1,
    }]);
    let values = ReferenceValues::from_json(values.to_string().as_bytes()).unwrap();
    rig.directory.write_reference(&values).unwrap();
    rig
}

fn join(service: &Service, attester: impl Attester + 'static) -> Result<JoinTicket, Answer> {
    let request = join_request(DISK, "worker-1", Role::Unspecified);
    let attester = Arc::new(attester);
    service.call_with(attester, Purpose::Join, async |client| client.issue_join_ticket(&request, TIME).await)
}

fn told(answer: Result<JoinTicket, Answer>) -> PeerReason {
    match answer {
        Err(Answer::Refused(ChannelError::PeerRefused(reason))) => reason,
        other => panic!("{:?}", other.map(|_| "a ticket")),
    }
}

#[test]
fn a_guest_gets_its_ticket_by_quote_and_report_together_and_by_neither_alone() {
    let (machine, amd) = (Machine::new(), Arc::new(FakeAmd::new(SnpProduct::Milan)));
    let mut rig = rig(&machine);
    publish(&amd, &rig.path("collateral"));
    rig.config["collateral"] = json!("collateral");
    let mut service = rig.start();
    assert_eq!(told(join(&service, machine.clone())), PeerReason::TeeNotTrusted);
    service.next_line(&["refused", "snp-report-missing"]);
    let of_others = Guest { machine: machine.clone(), amd: Arc::new(FakeAmd::new(SnpProduct::Milan)) };
    assert_eq!(told(join(&service, of_others)), PeerReason::TeeNotTrusted);
    service.next_line(&["refused", "snp-certificate-untrusted"]);
    let guest = Guest { machine: machine.clone(), amd };
    let ticket = join(&service, guest.clone()).unwrap();
    assert_eq!(ticket.state_disk_key, rig.key_of(DISK));
    service.next_line(&["granted", "Milan (boot loader 3, TEE 0, SNP firmware 8, microcode 115)"]);
    // Another TPM with the same processor is nobody.
    let other = Guest { machine: Machine::new(), ..guest };
    assert_eq!(told(join(&service, other)), PeerReason::TpmNotTrusted);
}

#[test]
fn a_tdx_guest_gets_its_ticket_by_quote_and_quote_together_and_by_neither_alone() {
    let (machine, intel) = (Machine::new(), Arc::new(FakeIntel::default()));
    let mut rig = Rig::new(&[&machine]);
    let mut demanding = policy(&json!([{ "kind": "pinned-ek", "ek_sha256": [machine.ek()] }]));
    demanding["tdx"] = json!({ "mrtd": [hex(&[0xd1; 48])], "tcb_status": ["UpToDate"], "rtmrs": "any" });
    rig.directory.write_policy(&demanding.to_string()).unwrap();
    rig.config["collateral"] = json!("collateral");
    // AMD's part alone verifies nobody here.
    publish(&FakeAmd::new(SnpProduct::Milan), &rig.path("collateral"));
    let mut service = rig.start();
    let guest = TdxGuest { machine: machine.clone(), intel: Arc::clone(&intel) };
    assert_eq!(told(join(&service, guest.clone())), PeerReason::VerifierUnavailable);
    service.next_line(&["refused", "tdx-not-verifiable"]);
    let new = rig.path("intel");
    latchkey_collateral::publish_fake_intel(&intel, &new).unwrap();
    fs::rename(new.join("tdx"), rig.path("collateral/tdx")).unwrap();
    service.signal(rustix::process::Signal::HUP);
    service.next_line(&["Configuration reloaded", "collateral"]);
    assert_eq!(told(join(&service, machine.clone())), PeerReason::TeeNotTrusted);
    service.next_line(&["refused", "tdx-quote-missing"]);
    let foreign = TdxGuest { machine, intel: Arc::new(FakeIntel::default()) };
    assert_eq!(told(join(&service, foreign)), PeerReason::TeeNotTrusted);
    service.next_line(&["refused", "tdx-quote-untrusted"]);
    let ticket = join(&service, guest).unwrap();
    assert_eq!(ticket.state_disk_key, rig.key_of(DISK));
    service.next_line(&["granted", "TDX, FMSPC b0c06f000000 (UpToDate)"]);
}

#[test]
fn without_collateral_nobody_is_let_in_and_everybody_is_told_why() {
    let machine = Machine::new();
    let rig = rig(&machine);
    let mut service = rig.start();
    // Its first look at what it is configured by.
    service.next_line(&["Configuration cannot be used", "collateral"]);
    assert_eq!(told(join(&service, machine)), PeerReason::VerifierUnavailable);
    service.next_line(&["refused", "snp-not-verifiable"]);
    let body = service.page("/healthz").1;
    assert!(
        body.contains("collateral is stale") && body.contains("there is no collateral: name a directory"),
        "{body}"
    );
    let check = rig.check();
    let said = String::from_utf8_lossy(&check.stdout).into_owned();
    assert!(said.contains("admit nobody: the policy demands processors' reports"), "{said}");
}

#[test]
fn collateral_is_read_anew_and_what_is_bad_keeps_what_was() {
    let (machine, amd) = (Machine::new(), Arc::new(FakeAmd::new(SnpProduct::Milan)));
    let mut rig = rig(&machine);
    let directory = rig.path("collateral");
    rig.config["collateral"] = json!("collateral");
    let check = rig.check();
    let said = String::from_utf8_lossy(&check.stderr).into_owned();
    assert!(!check.status.success() && said.contains("the collateral cannot be used"), "{said}");
    publish(&amd, &directory);
    let mut service = rig.start();
    let guest = Guest { machine, amd };
    join(&service, guest.clone()).unwrap();

    fs::write(directory.join("snp/notes.txt"), "fetched on Monday").unwrap();
    service.signal(rustix::process::Signal::HUP);
    service.next_line(&["cannot be used", "collateral", "notes.txt"]);
    assert!(service.page("/healthz").1.contains("notes.txt"));
    join(&service, guest.clone()).unwrap();

    // Without AMD's part its guests would all be refused.
    fs::remove_file(directory.join("snp/notes.txt")).unwrap();
    fs::rename(directory.join("snp"), directory.join("tdx-of-another-day")).unwrap();
    fs::create_dir(directory.join("tpm")).unwrap();
    service.signal(rustix::process::Signal::HUP);
    service.next_line(&["cannot be used", "collateral", "`snp` is gone"]);
    join(&service, guest.clone()).unwrap();
    fs::rename(directory.join("tdx-of-another-day"), directory.join("snp")).unwrap();

    // An authority that this guest's processor is not of.
    let other = Arc::new(FakeAmd::new(SnpProduct::Milan));
    publish(&other, &directory);
    service.signal(rustix::process::Signal::HUP);
    service.next_line(&["Configuration reloaded", "collateral"]);
    assert_eq!(told(join(&service, guest.clone())), PeerReason::TeeNotTrusted);
    join(&service, Guest { amd: other, ..guest }).unwrap();
}

#[test]
fn the_end_of_what_amd_published_is_told_in_time() {
    let (machine, amd) = (Machine::new(), FakeAmd::new(SnpProduct::Milan));
    let mut rig = rig(&machine);
    rig.config["collateral"] = json!("collateral");
    publish(&amd, &rig.path("collateral"));
    let mut service = rig.start();
    // 2030-11-25.
    assert_eq!(service.metric("collateral_end_seconds"), 1_921_795_200);
    assert!(!service.page("/healthz").1.contains("collateral-ends"));

    publish(&FakeAmd::with(SnpProduct::Milan, |it| it.list_until = "261128"), &rig.path("collateral"));
    service.signal(rustix::process::Signal::HUP);
    service.next_line(&["Configuration reloaded", "collateral"]);
    let body = service.page("/healthz").1;
    assert!(body.contains("collateral-ends: the list of what ARK-Milan revoked"), "{body}");
}
