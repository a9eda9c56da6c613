//! Signed reference manifests while the service runs: what an attacker, or a tired operator, puts into the directory.

use crate::service::rig::{IMAGE, Machine, Rig, Service, manifest, policy};
use latchkey_attestation::ReferenceValues;
use latchkey_attestation::reference::{Image, Revocation};
use latchkey_measurements::signing::SigningKey;
use serde_json::{Value, json};
use std::fs;

const DISK: &str = "0a0a0a0a-0000-4000-8000-000000000001";
const OTHER_DISK: &str = "0b0b0b0b-0000-4000-8000-000000000001";
const NEW_IMAGE: [u8; 32] = [0x0c; 32];
/// Long past.
const ONCE: u64 = 1_700_000_000;

/// A cluster whose policy wants its manifest signed by one key.
struct Signed {
    rig: Rig,
    key: SigningKey,
    machines: Vec<String>,
}

impl Signed {
    /// With a good manifest of serial 5.
    fn new(machines: &[&Machine]) -> Self {
        let (rig, key) = (Rig::new(machines), SigningKey::generate().unwrap());
        let machines = machines.iter().map(|machine| machine.ek().to_string()).collect();
        let signed = Self { rig, key, machines };
        signed.publish(&good(5));
        signed.demand("1.0.0");
        signed
    }

    fn demand(&self, minimum: &str) {
        let mut policy = policy(&json!([{ "kind": "pinned-ek", "ek_sha256": self.machines }]));
        policy["references"] =
            json!([{ "manifest": "test", "minimum_version": minimum, "signers": [self.key.public()] }]);
        self.rig.directory.write_policy(&policy.to_string()).unwrap();
    }

    /// A second manifest, `bench`, signed by somebody else.
    fn demand_both(&self, other: &SigningKey) {
        let mut both = policy(&json!([{ "kind": "pinned-ek", "ek_sha256": self.machines }]));
        let rule = |name: &str, key: &SigningKey| -> Value {
            json!({ "manifest": name, "minimum_version": "0.0.0", "signers": [key.public()] })
        };
        both["references"] = json!([rule("test", &self.key), rule("bench", other)]);
        self.rig.directory.write_policy(&both.to_string()).unwrap();
    }

    fn publish(&self, values: &ReferenceValues) {
        let signed = self.key.sign_manifest(values).unwrap();
        self.place(&signed.manifest, Some(&signed.signature));
    }

    fn place(&self, manifest: &str, signature: Option<&str>) {
        self.place_all(&[("test", manifest, signature)]);
    }

    /// All files change at once, as in a mounted `ConfigMap`, or nothing would be told apart from a moment in between.
    fn place_all(&self, manifests: &[(&str, &str, Option<&str>)]) {
        let cluster = self.rig.path("cluster");
        let directory = tempfile::tempdir_in(self.rig.files.path()).unwrap().keep();
        for (name, manifest, signature) in manifests {
            fs::write(directory.join(format!("{name}.json")), manifest).unwrap();
            if let Some(signature) = signature {
                fs::write(directory.join(format!("{name}.json.minisig")), signature).unwrap();
            }
        }
        // The manifest that the rig wrote has no place beside it.
        drop(fs::remove_file(cluster.join("reference.json")));
        std::os::unix::fs::symlink(&directory, cluster.join("references.new")).unwrap();
        fs::rename(cluster.join("references.new"), cluster.join("references")).unwrap();
    }
}

fn good(serial: u64) -> ReferenceValues {
    manifest("test", serial, "1.0.0", IMAGE)
}

fn reloaded(service: &mut Service) {
    service.next_line(&["Configuration reloaded", "attestation"]);
}

/// Says why, counts as stale, and the manifest of serial 5 stays in force.
fn kept(service: &mut Service, code: &str) {
    service.next_line(&["Configuration cannot be used", "references/test.json", code]);
    assert_eq!(service.metric("config_stale{part=\"attestation\"}"), 1);
    assert_eq!(service.metric("reference_serial{manifest=\"test\"}"), 5);
    let (status, health) = service.page("/healthz");
    assert!(status.contains("200") && health.contains(code), "{status} {health}");
}

#[test]
fn the_log_says_which_revision_by_whom_is_in_force_and_the_decision_by_which_it_was_made() {
    let node = Machine::new();
    let signed = Signed::new(&[&node]);
    let mut service = signed.rig.start();
    let key = format!("signer=\"{}\"", signed.key.public().id());
    service.next_line(&["Reference manifest in force", "manifest=test", "serial=5", &key, "manifest:test serial:5"]);
    service.join(&node, DISK, "worker-1").unwrap();
    service.next_line(&["audit", "granted", "serial=5", "machine=\"test\""]);
    signed.publish(&good(6));
    service.next_line(&["Reference manifest in force", "serial=6"]);
    assert_eq!(service.metric("reference_serial{manifest=\"test\"}"), 6);
}

#[test]
fn a_manifest_with_a_bad_signature_keeps_the_old_one() {
    let node = Machine::new();
    let signed = Signed::new(&[&node]);
    let mut service = signed.rig.start();
    let new = signed.key.sign_manifest(&manifest("test", 6, "1.0.0", NEW_IMAGE)).unwrap();
    let evil = signed.key.sign_manifest(&manifest("test", 6, "1.0.0", [0xee; 32])).unwrap();
    for (manifest, signature, code) in [
        (&evil.manifest, Some(new.signature.as_str()), "reference-signature-invalid"),
        (&new.manifest, Some(&new.signature.replace("serial:6", "serial:7")), "reference-signature-invalid"),
        (&new.manifest, Some("untrusted comment: x\n"), "reference-signature-malformed"),
        (&new.manifest, None, "reference-signature-missing"),
    ] {
        signed.place(manifest, signature);
        kept(&mut service, code);
        service.join(&node, DISK, "worker-1").unwrap();
    }
    signed.place(&new.manifest, Some(&new.signature));
    reloaded(&mut service);
    assert_eq!(service.rejoin(&node, DISK).unwrap_err().code(), "measurements-refused");
    service.rejoin(&node.rebooted(NEW_IMAGE), DISK).unwrap();
}

#[test]
fn a_manifest_by_an_unknown_signer_keeps_the_old_one() {
    let node = Machine::new();
    let signed = Signed::new(&[&node]);
    let mut service = signed.rig.start();
    let thief = SigningKey::generate().unwrap();
    let evil = thief.sign_manifest(&manifest("test", 6, "9.0.0", [0xee; 32])).unwrap();
    signed.place(&evil.manifest, Some(&evil.signature));
    kept(&mut service, "reference-signature-unknown-signer");
    let thief = Machine::new().rebooted([0xee; 32]);
    service.join(&thief, OTHER_DISK, "worker-2").unwrap_err();
    service.join(&node, DISK, "worker-1").unwrap();
}

/// The signature of a key that the policy names for *another* manifest is worth nothing here.
#[test]
fn a_signer_of_one_manifest_cannot_sign_another() {
    let node = Machine::new();
    let signed = Signed::new(&[&node]);
    let other = SigningKey::generate().unwrap();
    signed.demand_both(&other);
    let place = |key: &SigningKey| {
        let bench = other.sign_manifest(&manifest("bench", 1, "1.0.0", NEW_IMAGE)).unwrap();
        let test = key.sign_manifest(&good(6)).unwrap();
        signed.place_all(&[
            ("test", &test.manifest, Some(&test.signature)),
            ("bench", &bench.manifest, Some(&bench.signature)),
        ]);
    };
    place(&other);
    let said = String::from_utf8(signed.rig.check().stderr).unwrap();
    assert!(said.contains("reference-signature-unknown-signer") && said.contains("manifest test"), "{said}");
    place(&signed.key);
    assert!(signed.rig.check().status.success());
}

#[test]
fn a_manifest_rolled_back_keeps_the_newer_one_also_over_a_restart() {
    let node = Machine::new();
    let signed = Signed::new(&[&node]);
    let mut service = signed.rig.start();
    signed.publish(&good(4));
    kept(&mut service, "reference-rolled-back");
    service.join(&node, DISK, "worker-1").unwrap();
    signed.publish(&manifest("test", 5, "1.0.0", NEW_IMAGE));
    kept(&mut service, "reference-serial-reused");
    service.stop();
    // What was accepted is remembered, not only held in memory.
    signed.publish(&good(4));
    let check = signed.rig.check();
    let said = String::from_utf8(check.stderr).unwrap();
    assert_eq!(check.status.code(), Some(2));
    assert!(said.contains("reference-rolled-back") && said.contains("serial 5 was accepted before"), "{said}");
    signed.publish(&good(5));
    let mut service = signed.rig.start();
    service.rejoin(&node, DISK).unwrap();
    signed.publish(&good(6));
    reloaded(&mut service);
}

/// `--check` decides nothing, and so must remember nothing.
#[test]
fn a_check_of_a_newer_manifest_does_not_make_it_the_one_in_force() {
    let node = Machine::new();
    let signed = Signed::new(&[&node]);
    signed.publish(&good(9));
    assert!(signed.rig.check().status.success());
    signed.publish(&good(5));
    signed.rig.start().join(&node, DISK, "worker-1").unwrap();
}

#[test]
fn a_memory_that_cannot_be_read_admits_nobody() {
    let node = Machine::new();
    let signed = Signed::new(&[&node]);
    fs::write(signed.rig.path("cluster/revisions.json"), "{").unwrap();
    let check = signed.rig.check();
    assert_eq!(check.status.code(), Some(2));
    assert!(String::from_utf8(check.stderr).unwrap().contains("revisions.json"));
}

/// Both versions run while nodes are upgraded, and then only the new one does.
#[test]
fn two_versions_are_admitted_during_an_upgrade_window_and_the_expired_one_not_afterwards() {
    let (old, new) = (Machine::new(), Machine::new().rebooted(NEW_IMAGE));
    let signed = Signed::new(&[&old, &new]);
    let mut service = signed.rig.start();
    service.join(&old, DISK, "worker-1").unwrap();
    assert_eq!(service.join(&new, OTHER_DISK, "worker-2").unwrap_err().code(), "measurements-refused");
    let add = |images: &mut Vec<Image>, _: &mut Vec<Revocation>| {
        images.extend(manifest("test", 1, "2.0.0", NEW_IMAGE).images().iter().cloned());
    };
    let both = good(5).edited(6, add).unwrap();
    signed.publish(&both);
    reloaded(&mut service);
    service.rejoin(&old, DISK).unwrap();
    service.join(&new, OTHER_DISK, "worker-2").unwrap();
    let closed = both.edited(7, |images, _| images[0] = images[0].clone().valid_between(None, Some(ONCE))).unwrap();
    signed.publish(&closed);
    reloaded(&mut service);
    service.rejoin(&old, DISK).unwrap_err();
    service.next_line(&["audit", "refused", "image-expired"]);
    service.rejoin(&new, OTHER_DISK).unwrap();
}

#[test]
fn a_revoked_version_is_refused_with_its_reason_from_the_next_handshake_on() {
    let node = Machine::new();
    let signed = Signed::new(&[&node]);
    let mut service = signed.rig.start();
    service.join(&node, DISK, "worker-1").unwrap();
    let why = "its kernel trusts a stolen key".to_owned();
    let revoke = |_: &mut Vec<Image>, revoked: &mut Vec<Revocation>| {
        revoked.push(Revocation { name: "image".into(), version: "1.0.0".parse().unwrap(), why });
    };
    signed.publish(&good(5).edited(6, revoke).unwrap());
    reloaded(&mut service);
    service.rejoin(&node, DISK).unwrap_err();
    service.next_line(&["audit", "refused", "image-revoked", "its kernel trusts a stolen key"]);
    assert_eq!(service.metric("refusals_total{code=\"image-revoked\"}"), 1);
}

/// The version, as each of two signers calls it, has the same measurements: one of the two may end it.
#[test]
fn a_revocation_in_one_manifest_ends_what_another_one_admits_from_the_next_handshake_on() {
    let node = Machine::new();
    let signed = Signed::new(&[&node]);
    let other = SigningKey::generate().unwrap();
    let place = |bench: &ReferenceValues| {
        let (test, bench) = (signed.key.sign_manifest(&good(5)).unwrap(), other.sign_manifest(bench).unwrap());
        signed.place_all(&[
            ("test", &test.manifest, Some(&test.signature)),
            ("bench", &bench.manifest, Some(&bench.signature)),
        ]);
    };
    let bench = manifest("bench", 1, "7.0.0", IMAGE);
    place(&bench);
    signed.demand_both(&other);
    let mut service = signed.rig.start();
    service.join(&node, DISK, "worker-1").unwrap();
    let revoke = |_: &mut Vec<Image>, revoked: &mut Vec<Revocation>| {
        let why = "a stolen key".to_owned();
        revoked.push(Revocation { name: "image".into(), version: "7.0.0".parse().unwrap(), why });
    };
    place(&bench.edited(2, revoke).unwrap());
    reloaded(&mut service);
    service.rejoin(&node, DISK).unwrap_err();
    service.next_line(&["audit", "refused", "image-revoked", "manifest bench, serial 2", "a stolen key"]);
}

#[test]
fn an_old_version_below_the_minimum_is_refused_once_the_policy_says_so() {
    let node = Machine::new();
    let signed = Signed::new(&[&node]);
    let mut service = signed.rig.start();
    service.join(&node, DISK, "worker-1").unwrap();
    signed.demand("1.0.1");
    reloaded(&mut service);
    service.rejoin(&node, DISK).unwrap_err();
    service.next_line(&["audit", "refused", "image-version-too-old"]);
}
