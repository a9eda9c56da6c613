//! A machine whose TPM is laid out as that of Azure's paravisor: swtpm, with a report of `FakeAmd`'s in the NV index. Skipped, and says so,
//! where swtpm or tpm2-tools are not installed.

use std::sync::{Arc, Mutex};

use latchkey_attestation::fake_amd::FakeAmd;
use latchkey_attestation::fake_hcl::{claims, content, report_data};
use latchkey_attestation::parse::{SigningKey, SnpProduct};
use latchkey_attestation::{EkTrust, report_data as session_data};
use latchkey_channel::{ChannelError, PeerProof, PeerReason, TpmAttester};
use latchkey_swtpm_rig::Swtpm;
use latchkey_tpm::device::{AttestationKeySource, AttestingTpm, Hierarchy};
use latchkey_tpm::wire::{EkTemplate, HashAlg, KeyScheme, Public, PublicKey, attestation_key, extended};
use serde_json::json;

use crate::attacks::real_tpm::IMAGE_EVENT;
use crate::attacks::snp::{Ends, ask, demand_by, of_amd, refused};

/// A machine with Azure's key at its handle.
struct Machine {
    swtpm: Swtpm,
    modulus: Vec<u8>,
    amd: FakeAmd,
}

impl Machine {
    fn start() -> Option<Self> {
        let swtpm = Swtpm::start()?;
        let key = PublicKey::Rsa { bits: 2048, exponent: 0, modulus: Vec::new() };
        let template = Public { scheme: KeyScheme::RsaSsa(HashAlg::Sha256), key, ..attestation_key() };
        let key = {
            let mut tpm = swtpm.connect().unwrap();
            tpm.create_primary(Hierarchy::Endorsement, &template, None).unwrap().public().clone()
        };
        let attributes = "fixedtpm|fixedparent|sensitivedataorigin|userwithauth|noda|restricted|sign";
        let create = ["-C", "e", "-G", "rsa2048:rsassa-sha256:null", "-a", attributes, "-c", "ak.ctx"];
        swtpm.tool("tpm2_createprimary", &create)?;
        swtpm.tool("tpm2_evictcontrol", &["-C", "o", "-c", "ak.ctx", "0x81000003"])?;
        swtpm.tool("tpm2_flushcontext", &["-t"])?;
        let PublicKey::Rsa { modulus, .. } = key.key else { panic!("an RSA key") };
        Some(Self { swtpm, modulus, amd: FakeAmd::new(SnpProduct::Milan) })
    }

    /// Leaves a report over these data, with these claims, in the TPM.
    fn leave(&self, data: [u8; 64], claims: &[u8]) -> Option<()> {
        let guest = self.amd.guest(SigningKey::Vcek, 3, |it| it.report[0x50..0x90].copy_from_slice(&data));
        std::fs::write(self.swtpm.directory().join("vcek.der"), guest.vcek.unwrap()).unwrap();
        self.swtpm.put_nv(0x0140_0001, &content(&guest.report, claims, 1))
    }

    /// Asks for a ticket, with what the agent would show; the chip's certificate is in the collateral.
    fn asks(&self, rule: &serde_json::Value) -> Ends {
        let tpm = self.swtpm.connect().unwrap();
        let mut tpm = AttestingTpm::with_key_of(tpm, EkTemplate::P256L2, AttestationKeySource::AzureHcl).unwrap();
        tpm.extend_event(11, IMAGE_EVENT).unwrap();
        let attester = TpmAttester::new(Arc::new(Mutex::new(tpm)));
        let mut collateral = of_amd(&self.amd);
        let vcek = std::fs::read(self.swtpm.directory().join("vcek.der")).unwrap_or_default();
        let file = latchkey_attestation::verify::CollateralFile { name: "vcek.der", content: &vcek };
        if !vcek.is_empty() {
            collateral.snp = Some(self.amd.collateral_with(&[file]));
        }
        let of_node = demand_by(rule, extended(&[0; 32], IMAGE_EVENT)).with_collateral(Arc::new(collateral));
        ask(attester, of_node)
    }
}

fn rule() -> serde_json::Value {
    json!({"kind": "ak-azure-hcl", "launch_sha384": ["d1".repeat(48)]})
}

#[test]
fn a_machine_of_azure_shows_what_its_paravisor_left_and_is_admitted() {
    let Some(machine) = Machine::start() else { return };
    let claims = claims(&[("HCLAkPub", &machine.modulus), ("HCLEkPub", &[0xc5; 16])]);
    let Some(()) = machine.leave(report_data(&claims), &claims) else { return };
    let (node, service) = machine.asks(&rule());
    node.unwrap();
    let service = service.unwrap();
    let PeerProof::Tpm(peer) = service.peer() else { panic!("no TPM") };
    assert_eq!(*peer.admission().trust(), EkTrust::AkAzureHcl);
}

#[test]
fn a_report_for_another_key_or_over_a_session_is_refused() {
    let Some(machine) = Machine::start() else { return };
    let others = claims(&[("HCLAkPub", &[0xc5; 256])]);
    let Some(()) = machine.leave(report_data(&others), &others) else { return };
    refused(machine.asks(&rule()), "snp-hcl-claims-of-another-key", PeerReason::TpmNotTrusted);
    let Some(machine) = Machine::start() else { return };
    let claims = claims(&[("HCLAkPub", &machine.modulus)]);
    let data = session_data(&[7; 32], &attestation_key());
    let Some(()) = machine.leave(data, &claims) else { return };
    refused(machine.asks(&rule()), "snp-hcl-claims-mismatch", PeerReason::EvidenceRejected);
}

#[test]
fn a_machine_whose_paravisor_left_nothing_says_so_and_shows_nothing_else() {
    let Some(machine) = Machine::start() else { return };
    let (node, _service) = machine.asks(&rule());
    let error = node.unwrap_err();
    assert!(matches!(error, ChannelError::CannotProve(_)), "{error:?}");
    assert!(error.to_string().contains("0x01400001"), "{error}");
}
