//! Reference manifests: by whom they must be, which revision, what their images are made from, and what they revoke.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use crate::support;

use crate::support::{
    NOW, booted, image_json, pinned, policy, policy_for, policy_json, provenance_json, reference_json,
    reference_values, value, verified,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use latchkey_attestation::reference::{Authority, KeyId, LaunchDigest, Signature};
use latchkey_attestation::refusal::{ReasonCode, Refusal};
use latchkey_attestation::validate::Comparison;
use latchkey_attestation::{
    Admission, AuthenticManifest, LockExpectation, ManifestFile, Policy, ReferenceValues, References, SignerKey,
};
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

/// A publisher who signs as old minisign did; what stock minisign makes today is read in `latchkey-measurements`.
struct Publisher(Ed25519KeyPair, KeyId);

impl Publisher {
    fn new(number: u8) -> Self {
        Self(Ed25519KeyPair::from_seed_unchecked(&[number; 32]).unwrap(), KeyId([number; 8]))
    }

    fn key(&self) -> SignerKey {
        SignerKey::new(self.1, self.0.public_key().as_ref().try_into().unwrap())
    }

    fn signature(&self, message: &[u8]) -> String {
        let signature = self.0.sign(message);
        let global = self.0.sign(&[signature.as_ref(), b"a comment"].concat());
        let first = STANDARD.encode([b"Ed", &self.1.0[..], signature.as_ref()].concat());
        format!("untrusted comment: x\n{first}\ntrusted comment: a comment\n{}\n", STANDARD.encode(global.as_ref()))
    }

    fn file(&self, json: &Value) -> ManifestFile {
        let json = json.to_string().into_bytes();
        let signature = self.signature(&json).into_bytes();
        ManifestFile::new(json, Some(signature))
    }
}

fn unsigned(json: &Value) -> ManifestFile {
    ManifestFile::new(json.to_string().into_bytes(), None)
}

/// A policy with these rules for manifests.
fn policy_of(rules: &Value) -> Policy {
    let digest = latchkey_attestation::EkDigest::from_hex(&value(1)).unwrap();
    let mut json = policy_json(pinned(&[digest]));
    json["references"] = rules.clone();
    policy(&json)
}

fn signed_by(name: &str, publisher: &Publisher) -> Value {
    json!({"manifest": name, "minimum_version": "0.0.0", "signers": [publisher.key()]})
}

fn local(name: &str) -> Value {
    json!({"manifest": name, "minimum_version": "0.0.0", "unsigned": "trust-local-file"})
}

fn named(name: &str) -> Value {
    let mut json = reference_json(&[image_json(1)]);
    json["name"] = json!(name);
    json
}

/// As a verifier loads: each file under the policy, then all together.
fn load(policy: &Policy, files: Vec<ManifestFile>) -> Result<References, Refusal> {
    let manifests = files.into_iter().map(|file| file.under(policy)).collect::<Result<Vec<_>, _>>()?;
    References::new(policy, manifests)
}

fn code<T>(result: Result<T, Refusal>) -> ReasonCode {
    result.err().unwrap().code()
}

#[test]
fn a_manifest_is_believed_by_the_signature_that_its_own_rule_demands_and_by_no_other() {
    let (ours, theirs) = (Publisher::new(1), Publisher::new(2));
    let policy = policy_of(&json!([signed_by("test", &ours)]));
    let references = load(&policy, vec![ours.file(&named("test"))]).unwrap();
    let manifest = references.iter().next().unwrap();
    let comment = "a comment".to_owned();
    assert_eq!(manifest.authority(), &Authority::Signed { signer: ours.key(), trusted_comment: comment });
    assert_eq!(code(load(&policy, vec![unsigned(&named("test"))])), ReasonCode::ReferenceSignatureMissing);
    assert_eq!(code(load(&policy, vec![theirs.file(&named("test"))])), ReasonCode::ReferenceSignatureUnknownSigner);
    let garbage = ManifestFile::new(named("test").to_string().into_bytes(), Some(b"garbage".to_vec()));
    assert_eq!(code(load(&policy, vec![garbage])), ReasonCode::ReferenceSignatureMalformed);
    let other = ours.signature(b"another file").into_bytes();
    let other = ManifestFile::new(named("test").to_string().into_bytes(), Some(other));
    assert_eq!(code(load(&policy, vec![other])), ReasonCode::ReferenceSignatureInvalid);
    // Values that the verifier itself made are nobody's signature either.
    let made = AuthenticManifest::local(reference_values(&named("test")));
    assert_eq!(code(References::new(&policy, vec![made])), ReasonCode::ReferenceSignatureMissing);
}

#[test]
fn one_manifest_s_signer_or_trusted_file_is_no_way_in_for_another() {
    let (ours, theirs) = (Publisher::new(1), Publisher::new(2));
    let policy = policy_of(&json!([signed_by("a", &ours), signed_by("b", &theirs), local("c")]));
    let good = || vec![ours.file(&named("a")), theirs.file(&named("b")), unsigned(&named("c"))];
    load(&policy, good()).unwrap();
    let with_a = |a: ManifestFile| {
        let mut files = good();
        files[0] = a;
        load(&policy, files)
    };
    assert_eq!(code(with_a(theirs.file(&named("a")))), ReasonCode::ReferenceSignatureUnknownSigner);
    assert_eq!(code(with_a(unsigned(&named("a")))), ReasonCode::ReferenceSignatureMissing);
    assert_eq!(code(with_a(Publisher::new(3).file(&named("a")))), ReasonCode::ReferenceSignatureUnknownSigner);
    // A signature that is demanded nowhere does no harm to a file that is trusted as it is.
    let mut files = good();
    files[2] = Publisher::new(3).file(&named("c"));
    load(&policy, files).unwrap();
}

/// The parser is never given what nobody vouched for.
#[test]
fn nothing_is_parsed_before_its_signature_is_verified() {
    let ours = Publisher::new(1);
    let policy = policy_of(&json!([signed_by("test", &ours)]));
    let file = |bytes: &[u8], signature: Option<String>| {
        ManifestFile::new(bytes.to_vec(), signature.map(String::into_bytes)).under(&policy).unwrap_err().code()
    };
    assert_eq!(file(b"{", None), ReasonCode::ReferenceSignatureMissing);
    assert_eq!(file(b"{", Some(ours.signature(b"["))), ReasonCode::ReferenceSignatureInvalid);
    assert_eq!(file(b"{", Some(ours.signature(b"{"))), ReasonCode::ReferenceMalformed);
    let giant = vec![b' '; ReferenceValues::MAX_JSON + 1];
    assert_eq!(file(&giant, Some(ours.signature(&giant))), ReasonCode::ReferenceMalformed);
}

#[test]
fn a_policy_that_says_not_or_twice_who_signs_is_refused_with_what_to_write() {
    let ours = Publisher::new(1);
    let mut json = policy_json(pinned(&[latchkey_attestation::EkDigest::from_hex(&value(1)).unwrap()]));
    let mut refused = |rule: Value| {
        json["references"] = json!([rule]);
        Policy::from_json(json.to_string().as_bytes()).unwrap_err()
    };
    let nothing = refused(json!({"manifest": "a", "minimum_version": "1.0.0"}));
    assert_eq!(nothing.code(), ReasonCode::PolicyMalformed);
    assert!(nothing.detail().contains("signers") && nothing.detail().contains("trust-local-file"), "{nothing}");
    let mut rule = signed_by("a", &ours);
    rule["unsigned"] = json!("trust-local-file");
    assert_eq!(refused(rule.clone()).code(), ReasonCode::PolicyMalformed);
    for (signers, expected) in [
        (json!([]), ReasonCode::PolicyEmpty),
        (json!([ours.key(), ours.key()]), ReasonCode::PolicyMalformed),
        (json!([ours.key().to_string().to_lowercase()]), ReasonCode::PolicyMalformed),
        (json!((0..17).map(|number| Publisher::new(number).key()).collect::<Vec<_>>()), ReasonCode::PolicyMalformed),
        (json!("RW"), ReasonCode::PolicyMalformed),
    ] {
        let rule = json!({"manifest": "a", "minimum_version": "1.0.0", "signers": signers});
        assert_eq!(refused(rule).code(), expected);
    }
    rule["signers"].take();
    rule["unsigned"] = json!("yes");
    assert_eq!(refused(rule).code(), ReasonCode::PolicyMalformed);
}

#[test]
fn a_revision_follows_only_older_ones_and_itself() {
    let manifest = |serial: u64, image: u8| {
        let mut json = reference_json(&[image_json(image)]);
        json["serial"] = json!(serial);
        unsigned(&json).as_local_file().unwrap()
    };
    let accepted = manifest(5, 1).revision();
    manifest(6, 2).check_follows(&accepted).unwrap();
    manifest(5, 1).check_follows(&accepted).unwrap();
    assert_eq!(code(manifest(4, 1).check_follows(&accepted)), ReasonCode::ReferenceRolledBack);
    assert_eq!(code(manifest(5, 2).check_follows(&accepted)), ReasonCode::ReferenceSerialReused);
}

/// Admission of a machine that booted image `number`, against these images and revocations.
fn against(
    tpm: &latchkey_attestation::fake_tpm::FakeTpm,
    images: &[Value],
    revoked: Value,
) -> Result<Admission, Refusal> {
    let policy = policy_for(tpm);
    let mut json = reference_json(images);
    json["revoked"] = revoked;
    let references = References::new(&policy, vec![AuthenticManifest::local(reference_values(&json))]).unwrap();
    policy.validate(&verified(&policy, tpm)?, &references, LockExpectation::Unlocked, NOW)
}

fn with_machines(numbers: &[u8]) -> Value {
    let mut image = image_json(1);
    let machine =
        |number: &u8| json!({"machine": format!("type-{number}"), "pcrs": image_json(*number)["machines"][0]["pcrs"]});
    image["machines"] = numbers.iter().map(machine).collect();
    image
}

#[test]
fn each_machine_type_of_an_image_is_admitted_and_named() {
    for number in [1, 2] {
        let admission = against(&booted(number), &[with_machines(&[1, 2])], json!([])).unwrap();
        assert_eq!(admission.image().machine, format!("type-{number}"));
        assert_eq!(admission.image().serial, 7);
    }
}

#[test]
fn values_of_two_machine_types_do_not_combine() {
    let mut chimera = booted(2);
    chimera.set_pcr(4, [1; 32]);
    let refusal = against(&chimera, &[with_machines(&[1, 2])], json!([])).unwrap_err();
    assert_eq!(refusal.code(), ReasonCode::BootLoaderDiffers);
    let difference = refusal.difference().unwrap();
    assert_eq!(difference.image.as_deref(), Some("test/image 1.1.0 on type-2"), "the closest machine is named");
    assert_eq!(difference.differing, [4]);
}

#[test]
fn a_revoked_version_is_refused_with_the_reason_whatever_else_names_its_measurements() {
    let revoked = json!([{"name": "image", "version": "1.1.0", "why": "CVE-2026-0001"}]);
    let refusal = against(&booted(1), &[image_json(1)], revoked.clone()).unwrap_err();
    assert_eq!(refusal.code(), ReasonCode::ImageRevoked);
    assert!(refusal.detail().contains("CVE-2026-0001") && refusal.detail().contains("serial 7"), "{refusal}");
    // The same bytes under another version do not get around it, in whatever order.
    let mut renamed = image_json(1);
    renamed["version"] = json!("1.9.0");
    renamed["provenance"] = provenance_json("1.9.0");
    for images in [[image_json(1), renamed.clone()], [renamed, image_json(1)]] {
        assert_eq!(code(against(&booted(1), &images, revoked.clone())), ReasonCode::ImageRevoked);
    }
    against(&booted(2), &[image_json(1), image_json(2)], revoked).unwrap();
}

#[test]
fn every_image_and_machine_is_compared_for_whoever_asks_why() {
    let tpm = booted(2);
    let policy = policy_for(&tpm);
    let mut old = image_json(2);
    old["version"] = json!("0.9.0");
    old["provenance"] = provenance_json("0.9.0");
    let manifest = reference_values(&reference_json(&[with_machines(&[1, 2]), old]));
    let references = References::new(&policy, vec![AuthenticManifest::local(manifest)]).unwrap();
    let evidence = verified(&policy, &tpm).unwrap();
    let compared = policy.compare(evidence.pcrs(), &references, NOW);
    let passes: Vec<_> = compared.iter().map(Comparison::passes).collect();
    assert_eq!(passes, [false, true, false]);
    assert_eq!(compared[0].differing.len(), support::ENFORCED.len());
    assert_eq!(compared[0].differing[0].expected.unwrap().to_string(), value(1));
    assert_eq!(compared[2].forbidden.as_ref().unwrap().code(), ReasonCode::ImageVersionTooOld);
    let admitted = policy.validate(&evidence, &references, LockExpectation::Unlocked, NOW).unwrap();
    assert_eq!(&compared[1].image, admitted.image(), "the explanation and the decision agree");
}

/// Whoever names both signers trusts each of them with all images: see LIMITATIONS.md.
#[test]
fn a_revocation_in_one_manifest_counts_in_all_manifests_of_a_policy() {
    let (ours, theirs) = (Publisher::new(1), Publisher::new(2));
    let tpm = booted(1);
    let mut json = policy_json(pinned(&[support::digest_of(&tpm)]));
    let (a, b) = (signed_by("a", &ours), signed_by("b", &theirs));
    // Under another name and version, too: what counts is what is measured.
    let mut renamed = image_json(1);
    renamed["version"] = json!("7.0.0");
    renamed["provenance"] = provenance_json("7.0.0");
    let mut revoking = reference_json(&[renamed]);
    revoking["name"] = json!("b");
    let mut decide = |revoking: &Value, rules: &[&Value]| {
        json["references"] = json!(rules);
        let policy = policy(&json);
        let files = [ours.file(&named("a")), theirs.file(revoking)];
        let references = load(&policy, files.into_iter().take(rules.len()).collect()).unwrap();
        policy.validate(&verified(&policy, &tpm).unwrap(), &references, LockExpectation::Unlocked, NOW)
    };
    decide(&revoking, &[&a, &b]).unwrap();
    revoking["revoked"] = json!([{"name": "image", "version": "7.0.0", "why": "a stolen key"}]);
    for rules in [[&a, &b], [&b, &a]] {
        let refusal = decide(&revoking, &rules).unwrap_err();
        assert_eq!(refusal.code(), ReasonCode::ImageRevoked);
        assert!(refusal.detail().contains("revoked by manifest b, serial 7: a stolen key"), "{refusal}");
    }
    // A policy that does not name that signer is not bound by it.
    decide(&revoking, &[&a]).unwrap();
}

fn altered(pointer: &str, new: Value) -> Result<ReferenceValues, Refusal> {
    let mut json = reference_json(&[image_json(1)]);
    json["revoked"] = json!([{"name": "image", "version": "1.0.0", "why": "a test"}]);
    json["images"][0]["machines"][0]["snp_launch"] = json!([launch_json(4, true, "ab")]);
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match json.pointer_mut(parent).unwrap() {
        Value::Object(object) => drop(object.insert(key.to_owned(), new)),
        list => list[key.parse::<usize>().unwrap()] = new,
    }
    ReferenceValues::from_json(json.to_string().as_bytes())
}

#[test]
fn a_manifest_of_version_1_is_refused_with_how_to_make_a_new_one() {
    let refusal = altered("/version", json!(1)).unwrap_err();
    assert_eq!(refusal.code(), ReasonCode::ReferenceVersionUnknown);
    let sentence = refusal.to_string();
    assert!(sentence.contains("latchkey record") && sentence.contains("latchkey image build"), "{sentence}");
}

/// A launch digest of `byte`, of guests with this many processors.
fn launch_json(vcpus: u32, kernel_hashes: bool, byte: &str) -> Value {
    json!({
        "digest": byte.repeat(48), "firmware_sha256": value(9), "kernel_hashes": kernel_hashes, "vcpus": vcpus,
        "vcpu_type": "EPYC-v4", "guest_features": 1,
    })
}

#[test]
fn launch_digests_are_kept_and_their_fields_bounded() {
    let values = altered("/serial", json!(8)).unwrap();
    let launch = &values.images()[0].machines()[0].snp_launch()[0];
    assert_eq!((launch.digest, launch.vcpus, launch.kernel_hashes), (LaunchDigest([0xab; 48]), 4, true));
    assert_eq!(ReferenceValues::from_json(values.to_json().as_bytes()).unwrap(), values);
    let place = "/images/0/machines/0/snp_launch/0";
    for (field, new) in [
        ("digest", json!("ab".repeat(47))),
        ("digest", json!("AB".repeat(48))),
        ("vcpus", json!(0)),
        ("vcpus", json!(4097)),
        ("vcpu_type", json!("")),
        ("vcpu_type", json!("EPYC v4")),
        ("guest_features", json!(-1)),
        ("guest_features", json!(2)),
        ("firmware_sha256", json!("ab".repeat(48))),
        ("kernel_hashes", json!(1)),
        ("kernel_hashes", json!(null)),
        ("extra", json!(1)),
    ] {
        assert_eq!(code(altered(&format!("{place}/{field}"), new)), ReasonCode::ReferenceMalformed, "{field}");
    }
}

#[test]
fn one_guest_has_one_launch_digest() {
    let place = "/images/0/machines/0/snp_launch";
    let with = |launches: Value| altered(place, launches);
    with(json!([launch_json(4, true, "ab"), launch_json(4, false, "cd"), launch_json(2, true, "ab")])).unwrap();
    let two = with(json!([launch_json(4, true, "ab"), launch_json(4, true, "cd")])).unwrap_err();
    assert_eq!(two.code(), ReasonCode::ReferenceMalformed);
    assert!(two.detail().contains("two launch digests for 4 × EPYC-v4, features 0x1, kernel hashes"), "{two}");
    let many: Vec<_> = (1..=257).map(|vcpus| launch_json(vcpus, true, "ab")).collect();
    assert_eq!(code(with(json!(many))), ReasonCode::ReferenceMalformed);
    with(json!(many[..256])).unwrap();
}

/// Or a signer who looks for the version sees the honest values, and a machine runs on the others.
#[test]
fn a_second_set_of_values_does_not_hide_under_a_version_that_is_there_already() {
    let mut again = image_json(2);
    again["version"] = json!("1.1.0");
    again["provenance"] = provenance_json("1.1.0");
    let with = |second: &Value| {
        let json = reference_json(&[image_json(1), second.clone()]);
        ReferenceValues::from_json(json.to_string().as_bytes())
    };
    let refusal = with(&again).unwrap_err();
    assert_eq!(refusal.code(), ReasonCode::ReferenceMalformed);
    assert!(refusal.detail().contains("image 1.1.0 is listed twice for machine test"), "{refusal}");
    // The same version on another type of machine is what machine types are for.
    again["machines"][0]["machine"] = json!("other");
    with(&again).unwrap();
}

#[test]
fn a_provenance_that_is_not_of_in_toto_and_slsa_or_not_of_this_image_is_refused() {
    let place = "/images/0/provenance";
    let build = format!("{place}/predicate/buildDefinition");
    let run = format!("{place}/predicate/runDetails");
    let artefact = json!({"name": "x", "digest": {"sha256": value(1)}});
    for (pointer, new) in [
        (format!("{place}/_type"), json!("https://in-toto.io/Statement/v0.1")),
        (format!("{place}/predicateType"), json!("https://slsa.dev/provenance/v0.2")),
        (format!("{place}/extra"), json!(1)),
        (format!("{place}/subject"), json!([])),
        (format!("{place}/subject"), json!(vec![&artefact; 17])),
        (format!("{place}/subject/0"), json!({"name": "x", "digest": {"sha1": "00"}})),
        (format!("{place}/subject/0"), json!({"name": "", "digest": {"sha256": value(1)}})),
        (format!("{place}/subject/0"), json!({"name": "x".repeat(257), "digest": {"sha256": value(1)}})),
        (format!("{build}/buildType"), json!("no uri")),
        (format!("{build}/buildType"), json!("urn:spaces are none")),
        (format!("{build}/externalParameters"), json!({"image": "other", "version": "1.1.0"})),
        (format!("{build}/externalParameters"), json!({"image": "image", "version": "1.2.0"})),
        (format!("{build}/externalParameters/commandLine"), json!("x".repeat(4097))),
        (format!("{build}/externalParameters/extra"), json!(1)),
        (format!("{build}/internalParameters"), json!({"x": "x".repeat(4097)})),
        (format!("{build}/internalParameters"), json!({"x": 1})),
        (format!("{build}/resolvedDependencies"), json!(vec![&artefact; 513])),
        (
            format!("{run}/builder/version"),
            json!((0..17).map(|n| (n.to_string(), json!("1"))).collect::<serde_json::Map<_, _>>()),
        ),
        (format!("{run}/builder/version"), json!({"mksquashfs": ""})),
        (format!("{run}/builder/id"), json!("")),
        (format!("{run}/builder/extra"), json!(1)),
        (format!("{run}/metadata/startedOn"), json!("yesterday")),
        (format!("{run}/metadata/invocationId"), json!("")),
    ] {
        assert_eq!(code(altered(&pointer, new)), ReasonCode::ReferenceMalformed, "{pointer}");
    }
    altered(&format!("{run}/metadata/invocationId"), json!("run 1")).unwrap();
    altered(&format!("{build}/externalParameters/options"), json!({"root": "squashfs"})).unwrap();
    altered(&format!("{build}/internalParameters"), json!({"kernelRelease": "6.1.0"})).unwrap();
    let altered = altered(&format!("{run}/builder/version"), json!({"a": "1", "latchkey": "latchkey 9"})).unwrap();
    assert_eq!(altered.images()[0].provenance().by(), "latchkey 9");
    assert_eq!(altered.images()[0].provenance().circumstances().collect::<Vec<_>>(), [("a", "1")]);
}

#[test]
fn machines_and_revocations_are_bounded_and_there_once() {
    let machine = image_json(1)["machines"][0].clone();
    let cases = [
        ("/images/0/machines", json!([]), ReasonCode::ReferenceEmpty),
        ("/images/0/machines", json!([&machine, &machine]), ReasonCode::ReferenceMalformed),
        ("/images/0/machines", json!(vec![&machine; 33]), ReasonCode::ReferenceMalformed),
        ("/revoked/0/why", json!(""), ReasonCode::ReferenceMalformed),
        ("/revoked/0/why", json!("two\nlines"), ReasonCode::ReferenceMalformed),
        ("/revoked/0/why", json!("x".repeat(257)), ReasonCode::ReferenceMalformed),
        ("/revoked/0/name", json!("Not A Name"), ReasonCode::ReferenceMalformed),
        ("/revoked/0/extra", json!(1), ReasonCode::ReferenceMalformed),
    ];
    for (pointer, new, expected) in cases {
        assert_eq!(code(altered(pointer, new)), expected, "{pointer}");
    }
    let twice = json!({"name": "image", "version": "1.0.0", "why": "again"});
    assert_eq!(code(altered("/revoked", json!([&twice, &twice]))), ReasonCode::ReferenceMalformed);
}

#[test]
fn a_signature_file_of_another_form_is_refused() {
    let good = Publisher::new(1).signature(b"x");
    Signature::parse(good.as_bytes()).unwrap();
    Signature::parse(good.replace('\n', "\r\n").as_bytes()).unwrap();
    Signature::parse(good.trim_end().as_bytes()).unwrap();
    let lines: Vec<&str> = good.lines().collect();
    let cases = [
        String::new(),
        lines[..3].join("\n"),
        format!("{good}more\n"),
        good.replace("untrusted comment: ", "untrusted: "),
        good.replace("trusted comment: a", "trusted: a"),
        good.replace(lines[1], &lines[1][..96]),
        good.replace(lines[1], &format!("RX{}", &lines[1][2..])),
        good.replace(lines[3], lines[1]),
        good.replace("a comment", &"x".repeat(8193)),
        format!("untrusted comment: {}", good.repeat(100)),
    ];
    for text in cases {
        assert_eq!(code(Signature::parse(text.as_bytes())), ReasonCode::ReferenceSignatureMalformed, "{text}");
    }
    assert_eq!(code(Signature::parse(b"\xff")), ReasonCode::ReferenceSignatureMalformed);
}
