//! A policy that demands a processor's word: what a machine shows that has none, or somebody else's.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock};

use latchkey_attestation::fake_amd::FakeAmd;
use latchkey_attestation::parse::{
    ProcessorEvidence, ProcessorKind, SigningKey, SnpEvidence, SnpProduct, SvsmEvidence,
};
use latchkey_attestation::validate::AdmittedProcessor;
use latchkey_attestation::verify::ProcessorCollateral;
use latchkey_attestation::{
    AuthenticManifest, Digest, EkDigest, EkTrust, LockExpectation, Policy, ReferenceValues, References, report_data,
    svsm_report_data,
};
use latchkey_channel::message::{Demand, Evidence, Identity};
use latchkey_channel::{
    Attester, ChannelError, Kind, Kinds, PeerProof, PeerReason, PinnedKeyAttester, PinnedKeyVerifier, ProcessorReports,
    ProofError, ProofRequest, Proven, Purpose, TpmAttester, TpmVerifier,
};
use latchkey_swtpm_rig::Swtpm;
use latchkey_tpm::device::AttestingTpm;
use latchkey_tpm::wire::{EkTemplate, Public};
use serde_json::json;
use smol::net::unix::UnixStream;

use crate::support::fake_tpm::FakeTpm;
use crate::support::world::{IMAGE, fresh_node, meet, terms};

/// What a guest makes of the report data that are due.
type Shows = fn(&FakeAmd, [u8; 64]) -> Option<SnpEvidence>;

/// The same of a guest that has its TPM from an SVSM: what becomes of report data and EK.
type SvsmShows = fn(&FakeAmd, [u8; 64], &[u8]) -> ProcessorEvidence;

/// A machine in an encrypted guest; or not.
struct Guest {
    tpm: FakeTpm,
    amd: Arc<FakeAmd>,
    shows: Shows,
}

/// The same with an SVSM.
struct SvsmGuest {
    tpm: FakeTpm,
    amd: Arc<FakeAmd>,
    shows: SvsmShows,
}

impl Attester for SvsmGuest {
    fn kinds(&self) -> Kinds {
        self.tpm.kinds()
    }

    fn identity(&self, kind: Kind) -> Result<Identity, ProofError> {
        Attester::identity(&self.tpm, kind)
    }

    fn prove(&self, request: &ProofRequest) -> Result<Evidence, ProofError> {
        let Demand::Tpm(challenge) = request.demand() else { unreachable!() };
        assert_eq!(*challenge.processors(), [ProcessorKind::SnpSvsm].into(), "it is the verifier who asks");
        let Evidence::Tpm(evidence) = self.tpm.prove(request)? else { unreachable!() };
        let ak = Public::parse(&self.tpm.ak_public()).unwrap();
        let nonce = report_data(request.binding().as_bytes(), &ak);
        let shown = (self.shows)(&self.amd, nonce, &self.tpm.ek_public());
        Ok(Evidence::Tpm(Box::new(evidence.with_processor(shown))))
    }
}

impl Attester for Guest {
    fn kinds(&self) -> Kinds {
        self.tpm.kinds()
    }

    fn identity(&self, kind: Kind) -> Result<Identity, ProofError> {
        Attester::identity(&self.tpm, kind)
    }

    fn prove(&self, request: &ProofRequest) -> Result<Evidence, ProofError> {
        let Demand::Tpm(challenge) = request.demand() else { unreachable!() };
        assert!(challenge.processors().contains(&ProcessorKind::Snp), "it is the verifier who asks");
        let Evidence::Tpm(evidence) = self.tpm.prove(request)? else { unreachable!() };
        let ak = Public::parse(&self.tpm.ak_public()).unwrap();
        let shown = (self.shows)(&self.amd, report_data(request.binding().as_bytes(), &ak));
        Ok(Evidence::Tpm(match shown {
            Some(snp) => Box::new(evidence.with_processor(snp.into())),
            None => evidence,
        }))
    }
}

#[expect(clippy::unnecessary_wraps, reason = "one of several: `Shows`")]
fn over(amd: &FakeAmd, data: [u8; 64]) -> Option<SnpEvidence> {
    let guest = amd.guest(SigningKey::Vcek, 3, move |change| change.report[0x50..0x90].copy_from_slice(&data));
    Some(guest.evidence())
}

/// Demands this machine in an encrypted guest that `FakeAmd` launched.
fn demand(tpm: &FakeTpm) -> TpmVerifier {
    let ek = EkDigest::of_public_area(&tpm.ek_public()).unwrap();
    demand_by(&json!({"kind": "pinned-ek", "ek_sha256": [ek]}), IMAGE)
}

/// Demands an encrypted guest that `FakeAmd` launched, with a TPM that this rule trusts, and this value in PCR 11.
pub(crate) fn demand_by(rule: &serde_json::Value, image: [u8; 32]) -> TpmVerifier {
    demand_at(0, rule, image)
}

/// The same of a guest at this privilege level.
fn demand_at(vmpl: u32, rule: &serde_json::Value, image: [u8; 32]) -> TpmVerifier {
    let policy = json!({
        "version": 3, "ek_templates": ["ecc-p256"], "ak_trust": [rule],
        "ak_algorithms": ["ecdsa-p256-sha256", "rsassa-2048-sha256"], "pcrs": {"enforce": [11], "warn": []}, "lock": "pcr-15",
        "references": [{"manifest": "test", "minimum_version": "1.0.0", "unsigned": "trust-local-file"}],
        "snp": {
            "tcb_floor": {"milan": {"bootloader": 3, "snp": 8, "microcode": 115}}, "keys": ["vcek"],
            "revocation_list": "demanded", "vmpl": vmpl, "minimum_abi": "0.0", "allow": ["smt"],
        },
    });
    let listed = json!({
        "name": "image", "version": "1.0.0", "source": "recorded", "provenance": {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"name": "image.raw", "digest": {"sha256": "01".repeat(32)}}],
            "predicateType": "https://slsa.dev/provenance/v1",
            "predicate": {
                "buildDefinition": {
                    "buildType": "urn:latchkey:build:recording:v1",
                    "externalParameters": {"image": "image", "version": "1.0.0", "commandLine": "console=ttyS0"},
                    "resolvedDependencies": [{"name": "vmlinuz", "digest": {"sha256": "02".repeat(32)}}],
                },
                "runDetails": {
                    "builder": {"id": "urn:latchkey:builder:v1", "version": {"latchkey": "tests"}},
                    "metadata": {"startedOn": "2026-11-18T11:06:40Z"},
                },
            },
        },
        "machines": [{
            "machine": "test", "pcrs": {"11": {"value": Digest(image), "rule": "enforce"}},
            "snp_launch": [{
                "digest": "d1".repeat(48), "firmware_sha256": "09".repeat(32), "kernel_hashes": true, "vcpus": 4,
                "vcpu_type": "EPYC-v4", "guest_features": 1,
            }],
        }],
    });
    let values = json!({"version": 2, "name": "test", "serial": 1, "images": [listed]});
    let policy = Policy::from_json(policy.to_string().as_bytes()).unwrap();
    let values = ReferenceValues::from_json(values.to_string().as_bytes()).unwrap();
    let references = References::new(&policy, vec![AuthenticManifest::local(values)]).unwrap();
    TpmVerifier::new(Arc::new(policy), Arc::new(references), LockExpectation::Unlocked)
}

pub(crate) type Ends = (Result<Proven<UnixStream>, ChannelError>, Result<Proven<UnixStream>, ChannelError>);

/// What `FakeAmd` publishes.
pub(crate) fn of_amd(amd: &FakeAmd) -> ProcessorCollateral {
    ProcessorCollateral { snp: Some(amd.collateral()), tdx: None }
}

/// A node with this to show asks for a ticket.
fn asks(shows: Shows) -> Ends {
    let (tpm, amd) = (fresh_node(), Arc::new(FakeAmd::new(SnpProduct::Milan)));
    let of_node = demand(&tpm).with_collateral(Arc::new(of_amd(&amd)));
    ask(Guest { tpm, amd, shows }, of_node)
}

pub(crate) fn ask(node: impl Attester + 'static, of_node: TpmVerifier) -> Ends {
    let service = PinnedKeyAttester::generate().unwrap();
    let pin = PinnedKeyVerifier::new([service.hash()]);
    meet(Purpose::Join, terms(node, pin), terms(service, of_node))
}

pub(crate) fn refused(ends: Ends, code: &str, told: PeerReason) {
    assert_eq!(ends.1.unwrap_err().code().as_str(), code);
    let error = ends.0.unwrap_err();
    assert!(matches!(error, ChannelError::PeerRefused(reason) if reason == told), "{error}");
}

#[test]
fn an_encrypted_guest_whose_processor_vouches_for_session_key_and_image_is_admitted() {
    let (node, service) = asks(over);
    node.unwrap();
    let service = service.unwrap();
    let PeerProof::Tpm(peer) = service.peer() else { panic!("no TPM") };
    let Some(AdmittedProcessor::Snp(processor)) = peer.admission().processor() else { panic!("no processor") };
    assert_eq!(processor.product(), SnpProduct::Milan);
}

#[test]
fn a_machine_that_is_no_encrypted_guest_is_refused_though_its_tpm_is_right() {
    refused(asks(|_, _| None), "snp-report-missing", PeerReason::TeeNotTrusted);
}

#[test]
fn a_report_that_was_made_for_another_session_is_refused() {
    refused(asks(|amd, _| over(amd, [7; 64])), "snp-report-data-mismatch", PeerReason::EvidenceRejected);
}

/// A guest that keeps the report of its first session and shows it in every later one, beside a fresh quote by the same attestation key.
struct Replaying {
    guest: Arc<Guest>,
    kept: Arc<OnceLock<ProcessorEvidence>>,
}

impl Attester for Replaying {
    fn kinds(&self) -> Kinds {
        self.guest.kinds()
    }

    fn identity(&self, kind: Kind) -> Result<Identity, ProofError> {
        self.guest.identity(kind)
    }

    fn prove(&self, request: &ProofRequest) -> Result<Evidence, ProofError> {
        let Evidence::Tpm(fresh) = self.guest.prove(request)? else { unreachable!() };
        let kept = self.kept.get_or_init(|| fresh.processor().unwrap().clone());
        Ok(Evidence::Tpm(Box::new(fresh.with_processor(kept.clone()))))
    }
}

#[test]
fn a_report_that_the_same_machine_showed_in_an_earlier_session_is_refused() {
    let (tpm, amd) = (fresh_node(), Arc::new(FakeAmd::new(SnpProduct::Milan)));
    let demand = || demand(&tpm).with_collateral(Arc::new(of_amd(&amd)));
    let (first, second) = (demand(), demand());
    let guest = Arc::new(Guest { tpm, amd, shows: over });
    let kept = Arc::new(OnceLock::new());
    let session = || Replaying { guest: Arc::clone(&guest), kept: Arc::clone(&kept) };
    ask(session(), first).1.unwrap();
    refused(ask(session(), second), "snp-report-data-mismatch", PeerReason::EvidenceRejected);
}

/// A processor that keeps at which level it was asked, and does not answer.
struct Asked(Mutex<Option<u32>>);

impl ProcessorReports for Asked {
    fn report(
        &self,
        _: &BTreeSet<ProcessorKind>,
        vmpl: u32,
        _: &[u8; 64],
    ) -> Result<ProcessorEvidence, Box<dyn std::error::Error + Send + Sync>> {
        *self.0.lock().unwrap() = Some(vmpl);
        Err("asked".into())
    }
}

#[test]
fn a_machine_asks_its_processor_at_the_level_that_the_peer_takes() {
    let Some(swtpm) = Swtpm::start() else { return };
    let tpm = AttestingTpm::new(swtpm.connect().unwrap(), EkTemplate::P256L2).unwrap();
    let rule =
        json!({"kind": "pinned-ek", "ek_sha256": [EkDigest::of_public_area(&tpm.ek_public().marshal()).unwrap()]});
    let asked = Arc::new(Asked(Mutex::new(None)));
    let attester = TpmAttester::new(Arc::new(Mutex::new(tpm))).with_processor_reports(Arc::clone(&asked) as _);
    let collateral = of_amd(&FakeAmd::new(SnpProduct::Milan));
    let (node, _service) = ask(attester, demand_at(2, &rule, IMAGE).with_collateral(Arc::new(collateral)));
    assert!(matches!(node.unwrap_err(), ChannelError::CannotProve(_)));
    assert_eq!(*asked.0.lock().unwrap(), Some(2));
}

#[test]
fn a_report_of_an_authority_that_is_not_amd_is_refused() {
    let foreign: Shows = |_, data| over(&FakeAmd::new(SnpProduct::Milan), data);
    refused(asks(foreign), "snp-certificate-untrusted", PeerReason::TeeNotTrusted);
}

#[test]
fn bytes_that_are_no_report_or_no_table_of_certificates_are_refused() {
    refused(
        asks(|_, _| SnpEvidence::new(vec![0; 7], None).ok()),
        "snp-report-malformed",
        PeerReason::EvidenceMalformed,
    );
    let table: Shows = |amd, data| {
        let report = over(amd, data)?.report().to_vec();
        SnpEvidence::new(report, Some(vec![0xff; 4096])).ok()
    };
    refused(asks(table), "snp-certificate-table-malformed", PeerReason::EvidenceMalformed);
    assert!(SnpEvidence::new(vec![0; 1185], None).is_err() && SnpEvidence::new(vec![], Some(vec![0; 16_385])).is_err());
}

#[test]
fn a_verifier_without_collateral_admits_nobody_under_such_a_policy() {
    let tpm = fresh_node();
    let of_node = demand(&tpm);
    refused(ask(tpm, of_node), "snp-not-verifiable", PeerReason::VerifierUnavailable);
}

fn asks_with_svsm(shows: SvsmShows) -> Ends {
    let (tpm, amd) = (fresh_node(), Arc::new(FakeAmd::new(SnpProduct::Milan)));
    let rule = json!({"kind": "ek-svsm", "launch_sha384": ["d1".repeat(48)]});
    let of_node = demand_by(&rule, IMAGE).with_collateral(Arc::new(of_amd(&amd)));
    ask(SvsmGuest { tpm, amd, shows }, of_node)
}

fn svsm(amd: &FakeAmd, data: [u8; 64], manifest: &[u8]) -> ProcessorEvidence {
    SvsmEvidence::new(over(amd, data).unwrap(), manifest.to_vec()).unwrap().into()
}

#[test]
fn a_guest_whose_tpm_is_its_svsm_s_is_admitted_by_a_report_over_session_ak_and_ek() {
    let (node, service) = asks_with_svsm(|amd, nonce, ek| svsm(amd, svsm_report_data(&nonce, ek), ek));
    node.unwrap();
    let service = service.unwrap();
    let PeerProof::Tpm(peer) = service.peer() else { panic!("no TPM") };
    assert_eq!(*peer.admission().trust(), EkTrust::EkSvsm);
}

#[test]
fn a_guest_that_shows_another_kind_of_report_than_it_is_asked_for_is_refused() {
    let bare: SvsmShows = |amd, nonce, _| over(amd, nonce).unwrap().into();
    refused(asks_with_svsm(bare), "snp-svsm-manifest-missing", PeerReason::TpmNotTrusted);
    let (tpm, amd) = (fresh_node(), Arc::new(FakeAmd::new(SnpProduct::Milan)));
    let of_node = demand(&tpm).with_collateral(Arc::new(of_amd(&amd)));
    let unasked = Unasked(Guest { tpm, amd, shows: |_, _| None });
    refused(ask(unasked, of_node), "snp-svsm-manifest-unexpected", PeerReason::TpmNotTrusted);
}

/// Shows a manifest where a report is due.
struct Unasked(Guest);

impl Attester for Unasked {
    fn kinds(&self) -> Kinds {
        self.0.kinds()
    }

    fn identity(&self, kind: Kind) -> Result<Identity, ProofError> {
        Attester::identity(&self.0, kind)
    }

    fn prove(&self, request: &ProofRequest) -> Result<Evidence, ProofError> {
        let Evidence::Tpm(evidence) = self.0.prove(request)? else { unreachable!() };
        let (ek, ak) = (self.0.tpm.ek_public(), Public::parse(&self.0.tpm.ak_public()).unwrap());
        let data = svsm_report_data(&report_data(request.binding().as_bytes(), &ak), &ek);
        Ok(Evidence::Tpm(Box::new(evidence.with_processor(svsm(&self.0.amd, data, &ek)))))
    }
}

#[test]
fn an_svsm_s_report_of_another_session_or_of_another_machine_s_tpm_is_refused() {
    let relayed: SvsmShows = |amd, _, ek| svsm(amd, svsm_report_data(&[7; 64], ek), ek);
    refused(asks_with_svsm(relayed), "snp-report-data-mismatch", PeerReason::EvidenceRejected);
    let borrowed: SvsmShows = |amd, nonce, _| {
        let other = fresh_node().ek_public();
        svsm(amd, svsm_report_data(&nonce, &other), &other)
    };
    refused(asks_with_svsm(borrowed), "snp-svsm-manifest-of-another-key", PeerReason::TpmNotTrusted);
}
