//! The whole way with real TPM code: swtpm, certificates from its authority, our attester, and tpm2-tools as a second
//! implementation of the attester's side. Skipped with a line that says so where swtpm is not installed;
//! `recordings.rs` has what these tests once recorded.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use crate::support;

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::support::{BINDING, pinned, policy};
use latchkey_attestation::record::RecordedEvidence;
use latchkey_attestation::reference::{Description, ManifestName};
use latchkey_attestation::refusal::{ReasonCode, Refusal};
use latchkey_attestation::{
    Admission, Appraisal, AttesterIdentity, AuthenticManifest, EkDigest, EkTrust, FirmwareStanding, ImageVersion,
    LockExpectation, PcrValues, Pending, Policy, ReferenceValues, References, TpmChallenge, TpmEvidence,
    VerifiedEvidence,
};
use latchkey_swtpm_rig::Swtpm;
use latchkey_tpm::device::AttestingTpm;
use latchkey_tpm::wire::{EkTemplate, Public, extended};
use ring::rand::SystemRandom;
use serde_json::{Value, json};
use zeroize::Zeroizing;

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn attester(swtpm: &Swtpm, preference: EkTemplate) -> AttestingTpm {
    AttestingTpm::new(swtpm.connect().unwrap(), preference).unwrap()
}

/// A policy that takes the endorsement key of this template for a TPM's identity.
fn of_template(trust: Value, template: EkTemplate) -> Value {
    let mut json = support::policy_json(trust);
    json["ek_templates"] = json!([template.name()]);
    json
}

/// The key that `swtpm_setup` certifies first.
fn policy_json(trust: Value) -> Value {
    of_template(trust, EkTemplate::P384H3)
}

fn identity(attester: &AttestingTpm) -> AttesterIdentity {
    AttesterIdentity::new(
        attester.ek_public().marshal(),
        attester.ek_certificate().map(<[u8]>::to_vec),
        attester.ek_intermediates().to_vec(),
        attester.ak_public().marshal(),
    )
    .unwrap()
}

fn chain(swtpm: &Swtpm) -> Value {
    let authority = swtpm.authority();
    json!({
        "kind": "ek-chain",
        "roots": [authority.root_pem().unwrap()],
        "intermediates": [authority.issuer_pem().unwrap()],
    })
}

fn begin(policy: &Policy, identity: &AttesterIdentity) -> Result<(TpmChallenge, Pending), Refusal> {
    Appraisal::begin(policy, identity, now(), &SystemRandom::new())
}

fn answer(attester: &mut AttestingTpm, challenge: &TpmChallenge, binding: &[u8; 32]) -> TpmEvidence {
    let secret = attester.activate(challenge.credential()).unwrap();
    let quote = attester.quote(&challenge.pcrs().selection().unwrap(), binding).unwrap();
    TpmEvidence::new(quote.attest, quote.signature, PcrValues::new(quote.pcrs).unwrap(), secret, None).unwrap()
}

fn verify(policy: &Policy, attester: &mut AttestingTpm) -> Result<(TpmEvidence, VerifiedEvidence), Refusal> {
    let (challenge, pending) = begin(policy, &identity(attester))?;
    let evidence = answer(attester, &challenge, &BINDING);
    let verified = pending.confirm(evidence.activated_secret())?.verify(&evidence, &BINDING)?;
    Ok((evidence, verified))
}

/// Records the boot and asks for admission by what was recorded.
fn admit(policy: &Policy, attester: &mut AttestingTpm, lock: LockExpectation) -> Result<Admission, Refusal> {
    let references = recorded(policy, &verify(policy, attester)?.1);
    policy.validate(&verify(policy, attester)?.1, &references, lock, now())
}

fn record(policy: &Policy, verified: &VerifiedEvidence) -> ReferenceValues {
    let (name, version) = (ManifestName::new("test").unwrap(), ImageVersion::new(1, 0, 0));
    let about = Description { manifest: name, serial: 1, image: "image", version, by: "tests", at: Some(now()) };
    ReferenceValues::record(&about, "swtpm", verified, policy, Vec::new()).unwrap()
}

fn recorded(policy: &Policy, verified: &VerifiedEvidence) -> References {
    References::new(policy, vec![AuthenticManifest::local(record(policy, verified))]).unwrap()
}

fn digest(attester: &AttestingTpm) -> EkDigest {
    EkDigest::of_public_area(&attester.ek_public().marshal()).unwrap()
}

#[test]
fn certified_and_pinned_endorsement_keys_are_admitted() {
    let Some(swtpm) = Swtpm::start() else { return };
    for template in [EkTemplate::P384H3, EkTemplate::RsaL1, EkTemplate::P256L2] {
        let mut attester = attester(&swtpm, template);
        let certified = attester.ek_certificate().is_some();
        assert_eq!(certified, template != EkTemplate::P256L2, "what swtpm_setup certifies");
        let trust = if certified { chain(&swtpm) } else { pinned(&[digest(&attester)]) };
        let admission =
            admit(&policy(&of_template(trust, template)), &mut attester, LockExpectation::Unlocked).unwrap();
        assert_eq!(matches!(admission.trust(), EkTrust::EkChain { .. }), certified);
        assert_eq!(admission.ek_digest(), digest(&attester));
    }
}

/// A TPM has several certified endorsement keys. The deny list names one of them, as an operator reads it in a record: the
/// others do not bring the TPM back, pinned or certified.
#[test]
fn a_denied_tpm_does_not_return_with_another_ek() {
    let Some(swtpm) = Swtpm::start() else { return };
    let ek = |template| digest(&attester(&swtpm, template));
    let others = [EkTemplate::RsaL1, EkTemplate::P256L2, EkTemplate::P256H2, EkTemplate::RsaH1];
    for trust in [chain(&swtpm), pinned(&others.map(ek))] {
        let mut json = policy_json(trust);
        json["denied_ek_sha256"] = json!([ek(EkTemplate::P384H3)]);
        let policy = policy(&json);
        let refused = |template| begin(&policy, &identity(&attester(&swtpm, template))).unwrap_err().code();
        assert_eq!(refused(EkTemplate::P384H3), ReasonCode::EkDenied);
        assert!(attester(&swtpm, EkTemplate::RsaL1).ek_certificate().is_some(), "certified by the same authority");
        for template in others {
            assert_eq!(refused(template), ReasonCode::EkTemplateRefused, "{template}");
        }
    }
}

/// Attack 25, as the verifier sees it: a certificate that somebody deletes, or hides on the bus, leaves a machine that is
/// not admitted, and no machine of another identity.
#[test]
fn a_hidden_certificate_gives_no_other_identity() {
    let Some(swtpm) = Swtpm::start() else { return };
    let policy = policy(&policy_json(chain(&swtpm)));
    let before = digest(&attester(&swtpm, EkTemplate::P384H3));
    let index = format!("{:#x}", EkTemplate::P384H3.certificate_index());
    let Some(_) = swtpm.tool("tpm2_nvundefine", &[&index, "-C", "p"]) else { return };
    let attester = attester(&swtpm, EkTemplate::P384H3);
    assert_eq!(digest(&attester), before);
    assert_eq!(begin(&policy, &identity(&attester)).unwrap_err().code(), ReasonCode::EkCertificateMissing);
}

#[test]
fn a_root_alone_is_not_enough_when_an_intermediate_is_missing() {
    let Some(swtpm) = Swtpm::start() else { return };
    let attester = attester(&swtpm, EkTemplate::P384H3);
    let root = json!({"kind": "ek-chain", "roots": [swtpm.authority().root_pem().unwrap()]});
    let refusal = begin(&policy(&policy_json(root)), &identity(&attester)).unwrap_err();
    assert_eq!(refusal.code(), ReasonCode::EkCertificateUntrusted);
}

#[test]
fn the_issuer_may_itself_be_the_root() {
    let Some(swtpm) = Swtpm::start() else { return };
    let attester = attester(&swtpm, EkTemplate::P384H3);
    let issuer = json!({"kind": "ek-chain", "roots": [swtpm.authority().issuer_pem().unwrap()]});
    assert!(begin(&policy(&policy_json(issuer)), &identity(&attester)).is_ok());
}

#[test]
fn keys_and_certificates_of_two_tpms_do_not_combine() {
    let (Some(one), Some(two)) = (Swtpm::start(), Swtpm::start_distinct("two")) else { return };
    let (mut one, mut two, trust) =
        (attester(&one, EkTemplate::P384H3), attester(&two, EkTemplate::P384H3), chain(&one));
    let policy = policy(&policy_json(trust));
    let mix = |ek: &AttestingTpm, certificate: &AttestingTpm, ak: &AttestingTpm| {
        let certificate = certificate.ek_certificate().map(<[u8]>::to_vec);
        AttesterIdentity::new(ek.ek_public().marshal(), certificate, Vec::new(), ak.ak_public().marshal()).unwrap()
    };
    let refusal = begin(&policy, &mix(&two, &one, &two)).unwrap_err();
    assert_eq!(refusal.code(), ReasonCode::EkCertificateOfAnotherTpm);
    // A genuine EK with certificate, and the AK of another genuine TPM: neither TPM opens the credential.
    let (challenge, _pending) = begin(&policy, &mix(&one, &one, &two)).unwrap();
    assert!(one.activate(challenge.credential()).is_err());
    assert!(two.activate(challenge.credential()).is_err());
    assert!(begin(&policy, &mix(&two, &two, &two)).is_ok());
}

#[test]
fn yesterdays_evidence_is_refused_today() {
    let Some(swtpm) = Swtpm::start() else { return };
    let mut attester = attester(&swtpm, EkTemplate::P384H3);
    let policy = policy(&policy_json(chain(&swtpm)));
    let (old, _) = verify(&policy, &mut attester).unwrap();
    let (_, pending) = begin(&policy, &identity(&attester)).unwrap();
    let refusal = pending.confirm(old.activated_secret()).unwrap_err();
    assert_eq!(refusal.code(), ReasonCode::ActivationFailed);
    // Even with a TPM at hand that opens the new credential, the old quote is for another session.
    let (challenge, pending) = begin(&policy, &identity(&attester)).unwrap();
    let secret = attester.activate(challenge.credential()).unwrap();
    let refusal = pending.confirm(&secret).unwrap().verify(&old, &[0xb2; 32]).unwrap_err();
    assert_eq!(refusal.code(), ReasonCode::QuoteBindingMismatch);
}

#[test]
fn the_lock_is_one_way() {
    let Some(swtpm) = Swtpm::start() else { return };
    let mut attester = attester(&swtpm, EkTemplate::P384H3);
    let policy = policy(&policy_json(chain(&swtpm)));
    let references = recorded(&policy, &verify(&policy, &mut attester).unwrap().1);
    attester.extend_event(15, b"a cluster").unwrap();
    let evidence = verify(&policy, &mut attester).unwrap().1;
    let lock = extended(&[0; 32], b"a cluster");
    let verdict = |lock| policy.validate(&evidence, &references, lock, now()).map_err(|refusal| refusal.code());
    assert_eq!(verdict(LockExpectation::Unlocked), Err(ReasonCode::AlreadyLocked));
    assert!(verdict(LockExpectation::LockedTo(lock)).unwrap().locked());
    let other = extended(&[0; 32], b"another cluster");
    assert_eq!(verdict(LockExpectation::LockedTo(other)), Err(ReasonCode::LockedToAnotherCluster));
}

/// What SECURITY.md says of firmware: a register has what it was extended with, whoever did that, and the values of an image are public.
#[test]
fn a_strangers_own_firmware_can_extend_the_values_of_an_image_that_it_does_not_run() {
    let (Some(of_site), Some(of_stranger)) = (Swtpm::start(), Swtpm::start_distinct("stranger")) else { return };
    let policy = policy(&policy_json(chain(&of_site)));
    let mut honest = attester(&of_site, EkTemplate::P384H3);
    let mut forger = attester(&of_stranger, EkTemplate::P384H3);
    let image = [(4, &b"the unified kernel image"[..]), (9, b"its command line"), (11, b"its sections")];
    for (pcr, measured) in image {
        honest.extend_event(pcr, measured).unwrap();
    }
    let references = recorded(&policy, &verify(&policy, &mut honest).unwrap().1);
    let verdict = |attester: &mut AttestingTpm| {
        policy.validate(&verify(&policy, attester)?.1, &references, LockExpectation::Unlocked, now())
    };
    assert!(verdict(&mut forger).is_err(), "it has measured nothing");
    for (pcr, measured) in image {
        forger.extend_event(pcr, measured).unwrap();
    }
    assert_eq!(verdict(&mut forger).unwrap().ek_digest(), digest(&forger));
    // Who names the machines that may come is not open to that.
    let pinned = support::policy(&policy_json(pinned(&[digest(&honest)])));
    assert_eq!(verify(&pinned, &mut forger).map(drop).unwrap_err().code(), ReasonCode::EkNotPinned);
}

/// What `"firmware": "known"` is worth, and what not: registers have what they were extended with, and the list is public, too.
#[test]
fn a_strangers_firmware_is_refused_as_unknown_unless_it_measures_what_known_firmware_does() {
    let (Some(of_site), Some(of_stranger)) = (Swtpm::start(), Swtpm::start_distinct("stranger")) else { return };
    let Some(of_forger) = Swtpm::start_distinct("forger") else { return };
    let mut json = policy_json(chain(&of_site));
    json["pcrs"]["warn"] = json!([0, 2]);
    let of_any = policy(&json);
    json["firmware"] = json!("known");
    let of_known = policy(&json);
    let extend = |attester: &mut AttestingTpm, firmware: &[u8]| {
        let firmware = [(0, firmware), (2, b"the option ROMs of the site's machines")];
        let image = [(4, &b"the unified kernel image"[..]), (9, b"its command line"), (11, b"its sections")];
        for (pcr, measured) in firmware.into_iter().chain(image) {
            attester.extend_event(pcr, measured).unwrap();
        }
    };
    let attesters = [&of_site, &of_stranger, &of_forger].map(|swtpm| attester(swtpm, EkTemplate::P384H3));
    let [mut honest, mut stranger, mut forger] = attesters;
    extend(&mut honest, b"firmware of the site's machines");
    let values = record(&of_known, &verify(&of_known, &mut honest).unwrap().1);
    let verdict = |policy: &Policy, attester: &mut AttestingTpm| {
        let references = References::new(policy, vec![AuthenticManifest::local(values.clone())]).unwrap();
        policy.validate(&verify(policy, attester)?.1, &references, LockExpectation::Unlocked, now())
    };
    assert!(matches!(verdict(&of_known, &mut honest).unwrap().firmware(), FirmwareStanding::Known { .. }));
    // The firmware of any other machine, which extends the image's values without running it.
    extend(&mut stranger, b"firmware of the stranger's");
    assert_eq!(verdict(&of_any, &mut stranger).unwrap().firmware(), &FirmwareStanding::Unknown);
    assert_eq!(verdict(&of_known, &mut stranger).unwrap_err().code(), ReasonCode::FirmwareUnknown);
    // What remains: where nothing measures the firmware before it runs, it extends the known one's events in its own ones' place.
    extend(&mut forger, b"firmware of the site's machines");
    assert_eq!(verdict(&of_known, &mut forger).unwrap().ek_digest(), digest(&forger));
}

#[test]
fn a_changed_pcr_is_refused_and_named() {
    let Some(swtpm) = Swtpm::start() else { return };
    let mut attester = attester(&swtpm, EkTemplate::P384H3);
    let policy = policy(&policy_json(chain(&swtpm)));
    let references = recorded(&policy, &verify(&policy, &mut attester).unwrap().1);
    attester.extend_event(9, b"evil=1").unwrap();
    let evidence = verify(&policy, &mut attester).unwrap().1;
    let refusal = policy.validate(&evidence, &references, LockExpectation::Unlocked, now()).unwrap_err();
    assert_eq!(refusal.code(), ReasonCode::CommandLineDiffers);
    assert_eq!(refusal.difference().unwrap().got, hex::encode(extended(&[0; 32], b"evil=1")));
}

/// Keys of a TPM, made and used by tpm2-tools alone.
struct Tools<'a> {
    swtpm: &'a Swtpm,
    ek: &'static str,
}

/// What goes with `tpm2_createak` for an attestation key.
const ECDSA: [&str; 6] = ["-G", "ecc", "-g", "sha256", "-s", "ecdsa"];
const RSASSA: [&str; 6] = ["-G", "rsa", "-g", "sha256", "-s", "rsassa"];

impl Tools<'_> {
    fn run(&self, tool: &str, arguments: &[&str]) -> Option<()> {
        self.swtpm.tool(tool, arguments)?;
        self.swtpm.tool("tpm2_flushcontext", &["-t"])?;
        Some(())
    }

    fn read(&self, file: &str) -> Vec<u8> {
        fs::read(self.swtpm.directory().join(file)).unwrap()
    }

    fn identity(&self, algorithm: &[&str]) -> Option<AttesterIdentity> {
        if self.ek == "ek.ctx" {
            self.run("tpm2_createek", &["-G", "ecc", "-c", "ek.ctx"])?;
        }
        self.run("tpm2_readpublic", &["-c", self.ek, "-f", "tpmt", "-o", "ek.tpmt"])?;
        self.run("tpm2_createak", &[&["-C", self.ek, "-c", "ak.ctx"], algorithm].concat())?;
        self.run("tpm2_readpublic", &["-c", "ak.ctx", "-f", "tpmt", "-o", "ak.tpmt"])?;
        Some(AttesterIdentity::new(self.read("ek.tpmt"), None, Vec::new(), self.read("ak.tpmt")).unwrap())
    }

    /// The tools want a header before the structures: magic and version.
    fn activate(&self, challenge: &TpmChallenge) -> Option<Vec<u8>> {
        let blob = [&0xbadc_c0deu32.to_be_bytes()[..], &1u32.to_be_bytes(), challenge.credential()].concat();
        fs::write(self.swtpm.directory().join("credential"), blob).unwrap();
        let common = ["-c", "ak.ctx", "-C", self.ek, "-i", "credential", "-o", "secret"];
        if self.ek == P384_HANDLE {
            // Template H-3 has userWithAuth, and an empty authorisation.
            self.run("tpm2_activatecredential", &common)?;
        } else {
            self.swtpm.tool("tpm2_startauthsession", &["--policy-session", "-S", "session"])?;
            self.swtpm.tool("tpm2_policysecret", &["-S", "session", "-c", "e"])?;
            self.run("tpm2_activatecredential", &[&common[..], &["-P", "session:session"]].concat())?;
            self.swtpm.tool("tpm2_flushcontext", &["session"])?;
        }
        Some(self.read("secret"))
    }

    fn evidence(&self, challenge: &TpmChallenge, binding: &[u8; 32]) -> Option<TpmEvidence> {
        let secret = Zeroizing::new(self.activate(challenge)?);
        let pcrs: Vec<String> = challenge.pcrs().iter().map(|index| index.to_string()).collect();
        let (selection, binding) = (format!("sha256:{}", pcrs.join(",")), hex::encode(binding));
        let outputs = ["-m", "quote", "-s", "signature", "-o", "pcrs", "-F", "values", "-g", "sha256"];
        self.run("tpm2_quote", &[&["-c", "ak.ctx", "-l", &selection, "-q", &binding], &outputs[..]].concat())?;
        let values = self.read("pcrs");
        let values = challenge.pcrs().iter().zip(values.chunks_exact(32).map(|value| value.try_into().unwrap()));
        let values = PcrValues::new(values.collect()).unwrap();
        Some(TpmEvidence::new(self.read("quote"), self.read("signature"), values, secret, None).unwrap())
    }
}

/// Where `swtpm_setup` puts its keys.
const P384_HANDLE: &str = "0x81010016";
const RSA_HANDLE: &str = "0x81010001";

fn policy_of(identity: &AttesterIdentity, algorithms: &[&str]) -> Policy {
    let ek = Public::parse(identity.ek_public()).unwrap().endorsement_template().unwrap();
    let mut json = of_template(pinned(&[EkDigest::of_public_area(identity.ek_public()).unwrap()]), ek);
    json["ak_algorithms"] = json!(algorithms);
    policy(&json)
}

#[test]
fn tpm2_tools_activate_our_credentials_and_we_verify_their_quotes() {
    for (ek, algorithm, name) in [
        ("ek.ctx", ECDSA, "ecdsa-p256-sha256"),
        (P384_HANDLE, ECDSA, "ecdsa-p256-sha256"),
        (RSA_HANDLE, ECDSA, "ecdsa-p256-sha256"),
        (RSA_HANDLE, RSASSA, "rsassa-2048-sha256"),
    ] {
        let Some(swtpm) = Swtpm::start() else { return };
        let tools = Tools { swtpm: &swtpm, ek };
        let Some(identity) = tools.identity(&algorithm) else { return };
        let (challenge, pending) = begin(&policy_of(&identity, &[name]), &identity).unwrap();
        let Some(evidence) = tools.evidence(&challenge, &BINDING) else { return };
        let trusted = pending.confirm(evidence.activated_secret()).unwrap();
        let verified = trusted.verify(&evidence, &BINDING).unwrap();
        assert_eq!(verified.pcrs(), evidence.pcrs(), "EK {ek}, AK {name}");
    }
}

/// A primary of the owner's hierarchy has all attributes of an attestation key, and a real TPM activates a credential for it.
#[test]
fn a_key_of_the_owner_s_hierarchy_is_activated_and_its_quote_refused() {
    let Some(swtpm) = Swtpm::start() else { return };
    let tools = Tools { swtpm: &swtpm, ek: P384_HANDLE };
    let Some(identity) = tools.identity(&ECDSA) else { return };
    let attributes = "fixedtpm|fixedparent|sensitivedataorigin|userwithauth|restricted|sign";
    let primary = ["-C", "o", "-G", "ecc256:ecdsa-sha256:null", "-g", "sha256", "-a", attributes, "-c", "ak.ctx"];
    tools.run("tpm2_createprimary", &primary).unwrap();
    tools.run("tpm2_readpublic", &["-c", "ak.ctx", "-f", "tpmt", "-o", "ak.tpmt"]).unwrap();
    let ek = identity.ek_public().to_vec();
    let identity = AttesterIdentity::new(ek, None, Vec::new(), tools.read("ak.tpmt")).unwrap();
    let (challenge, pending) = begin(&policy_of(&identity, &["ecdsa-p256-sha256"]), &identity).unwrap();
    let evidence = tools.evidence(&challenge, &BINDING).unwrap();
    let trusted = pending.confirm(evidence.activated_secret()).unwrap();
    assert_eq!(trusted.verify(&evidence, &BINDING).unwrap_err().code(), ReasonCode::QuoteHierarchyRefused);
}

#[test]
fn an_rsa_attestation_key_is_refused_where_the_policy_does_not_list_it() {
    let Some(swtpm) = Swtpm::start() else { return };
    let Some(identity) = (Tools { swtpm: &swtpm, ek: RSA_HANDLE }).identity(&RSASSA) else { return };
    let refusal = begin(&policy_of(&identity, &["ecdsa-p256-sha256"]), &identity).unwrap_err();
    assert_eq!(refusal.code(), ReasonCode::AkAlgorithmRefused);
}

/// Writes `tests/fixtures/<name>/{evidence,policy,reference}.json` anew:
/// `cargo test -p latchkey-attestation --test attestation -- --ignored`.
#[test]
#[ignore = "writes the fixtures that recordings.rs reads"]
fn record_fixtures() {
    let swtpm = Swtpm::start().expect("swtpm is installed");
    // Of another TPM, so that parts of one recording are not those of another.
    let second = Swtpm::start_distinct("second").expect("swtpm is installed");
    for (name, swtpm, template) in [
        ("ek-p384-chain", &swtpm, EkTemplate::P384H3),
        ("ek-rsa-chain", &second, EkTemplate::RsaL1),
        ("ek-p256-pinned", &second, EkTemplate::P256L2),
    ] {
        let mut attester = attester(swtpm, template);
        if template == EkTemplate::P384H3 {
            // Something to tell the PCRs apart by.
            for pcr in support::ENFORCED {
                attester.extend_event(pcr, &[pcr]).unwrap();
            }
        }
        let trust = if attester.ek_certificate().is_some() { chain(swtpm) } else { pinned(&[digest(&attester)]) };
        let json = of_template(trust, template);
        let (evidence, verified) = verify(&policy(&json), &mut attester).unwrap();
        write_fixture(name, &json, &identity(&attester), &evidence, &verified);
    }
    let tools = Tools { swtpm: &swtpm, ek: RSA_HANDLE };
    let identity = tools.identity(&RSASSA).unwrap();
    let trust = pinned(&[EkDigest::of_public_area(identity.ek_public()).unwrap()]);
    let mut json = of_template(trust, EkTemplate::RsaL1);
    json["ak_algorithms"] = json!(["rsassa-2048-sha256"]);
    let (challenge, pending) = begin(&policy(&json), &identity).unwrap();
    let evidence = tools.evidence(&challenge, &BINDING).unwrap();
    let verified = pending.confirm(evidence.activated_secret()).unwrap().verify(&evidence, &BINDING).unwrap();
    write_fixture("ak-rsa", &json, &identity, &evidence, &verified);
}

fn write_fixture(
    name: &str,
    json: &Value,
    identity: &AttesterIdentity,
    evidence: &TpmEvidence,
    verified: &VerifiedEvidence,
) {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    fs::create_dir_all(&directory).unwrap();
    let recording = RecordedEvidence::new(identity, evidence, verified, "tests/attestation/swtpm.rs", now()).unwrap();
    let write = |file: &str, text: String| fs::write(directory.join(file), text + "\n").unwrap();
    write("evidence.json", recording.to_json());
    write("policy.json", serde_json::to_string_pretty(json).unwrap());
    write("reference.json", record(&policy(json), verified).to_json());
}
