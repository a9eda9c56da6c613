use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeySize, OaepPrivateDecryptingKey, PrivateDecryptingKey};

use super::*;

/// Within the validity of the tests' certificates.
const NOW: u64 = 1_800_000_000;

struct Controller {
    key: PrivateDecryptingKey,
    certificate: String,
}

fn controller(size: KeySize) -> Controller {
    let key = PrivateDecryptingKey::generate(size).unwrap();
    let pkcs8: Pkcs8V1Der<'_> = key.as_der().unwrap();
    let pair =
        rcgen::KeyPair::from_pkcs8_der_and_sign_algo(&pkcs8.as_ref().to_vec().into(), &rcgen::PKCS_RSA_SHA256).unwrap();
    Controller { key, certificate: certificate(&pair) }
}

fn certificate(pair: &rcgen::KeyPair) -> String {
    let mut parameters = rcgen::CertificateParams::new(vec![]).unwrap();
    parameters.not_before = rcgen::date_time_ymd(2026, 1, 1);
    parameters.not_after = rcgen::date_time_ymd(2036, 1, 1);
    parameters.self_signed(pair).unwrap().pem()
}

/// What the controller does at the edge.
fn open(controller: &Controller, label: &str, sealed: &Sealed) -> Option<Vec<u8>> {
    let sealed = STANDARD.decode(sealed.as_str()).unwrap();
    let (length, rest) = sealed.split_at(2);
    let (wrapped, encrypted) = rest.split_at(usize::from(u16::from_be_bytes([length[0], length[1]])));
    let key = OaepPrivateDecryptingKey::new(controller.key.clone()).unwrap();
    let mut session = vec![0; key.min_output_size()];
    let session = key.decrypt(&OAEP_SHA256_MGF1SHA256, wrapped, &mut session, Some(label.as_bytes())).ok()?;
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, session).unwrap());
    let mut bytes = encrypted.to_vec();
    let nonce = Nonce::assume_unique_for_key([0; 12]);
    key.open_in_place(nonce, Aad::empty(), &mut bytes).ok().map(|text| text.to_vec())
}

fn place(key: &str) -> Place {
    Place::new("fplus-edge", "edge-agent.secrets", key).unwrap()
}

#[test]
fn a_secret_opens_for_its_cluster_and_its_place_alone() {
    let (mine, other) = (controller(KeySize::Rsa2048), controller(KeySize::Rsa2048));
    let key = SealingKey::of(&mine.certificate, NOW).unwrap();
    for secret in [&b""[..], b"hunter2", &[0xff; 5_000]] {
        let sealed = seal(&key, &place("password"), secret).unwrap();
        assert_eq!(open(&mine, "fplus-edge/edge-agent.secrets", &sealed).as_deref(), Some(secret));
        assert_eq!(open(&other, "fplus-edge/edge-agent.secrets", &sealed), None);
        assert_eq!(open(&mine, "fplus-edge/other", &sealed), None);
        assert_ne!(seal(&key, &place("password"), secret).unwrap(), sealed, "each has a key of its own");
    }
    assert!(matches!(seal(&key, &place("password"), &vec![0; MAX_SECRET + 1]), Err(SealError::TooLarge)));
}

#[test]
fn a_certificate_that_cannot_be_used_says_why() {
    let told = |pem: &str, now: u64| SealingKey::of(pem, now).unwrap_err().to_string();
    let good = controller(KeySize::Rsa4096).certificate;
    assert!(SealingKey::of(&format!("{good}{good}"), NOW).is_ok(), "the first of several");
    // 2026-01-01 and 2036-01-01.
    let (from, to) = (1_767_225_600, 2_082_758_400);
    assert!(SealingKey::of(&good, from).is_ok() && SealingKey::of(&good, to).is_ok());
    for now in [0, from - 1, to + 1, u64::MAX] {
        assert!(told(&good, now).contains("is valid from 1767225600 to 2082758400"), "{now}");
    }
    for bad in ["", "x", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        assert!(told(bad, NOW).contains("certificate i"), "{bad:?}");
    }
    assert!(told(&"x".repeat(40_000), NOW).contains("is too large"));
    let elliptic = rcgen::KeyPair::generate().unwrap();
    assert!(told(&certificate(&elliptic), NOW).contains("no RSA key"));
}

#[test]
fn no_part_of_a_path_leads_elsewhere() {
    for bad in ["", ".", "..", "../x", "a/b", "%2e", "A", "a_b", "-a", "a\0", "a\n", &"a".repeat(64)] {
        assert!(matches!(Place::new(bad, "n", "k"), Err(PlaceError::Namespace(_))), "{bad:?}");
    }
    for bad in ["", ".", "..", "a/..", "a..b", ".a", "a/", "A", "a b", &"a".repeat(254)] {
        assert!(matches!(Place::new("ns", bad, "k"), Err(PlaceError::Name(_))), "{bad:?}");
    }
    for bad in ["", ".", "..", "..data", "a/b", "a b", "é", "a\n", &"a".repeat(254)] {
        assert!(matches!(Place::new("ns", "n", bad), Err(PlaceError::Key(_))), "{bad:?}");
    }
    let place = Place::new("ns", "a.b", "__FPSI__4b1d").unwrap();
    assert_eq!(place.path(), "edo/secrets/ns/a.b.yaml");
}

#[test]
fn keys_come_and_go_and_the_rest_of_a_manifest_stays() {
    let controller = controller(KeySize::Rsa2048);
    let key = SealingKey::of(&controller.certificate, NOW).unwrap();
    let (first, second) = (place("123"), place("b"));
    let sealed = seal(&key, &first, b"one").unwrap();
    let mut manifest = SealedSecret::new(&first);
    assert_eq!(manifest.write().unwrap(), None, "a secret without keys is no file");
    manifest.insert(&sealed).unwrap();
    let text = manifest.write().unwrap().unwrap();
    // Somebody added a label by hand.
    let text = text.replace("kind: SealedSecret", "kind: SealedSecret\nextra: {yes: [1, null]}");
    let mut manifest = SealedSecret::read(&second, &text).unwrap();
    assert!(manifest.insert(&sealed).is_err(), "sealed for another key");
    manifest.insert(&seal(&key, &second, b"two").unwrap()).unwrap();
    let text = manifest.write().unwrap().unwrap();
    assert!(text.contains("extra:") && text.contains("\"123\":") && text.contains("b:"), "{text}");
    let mut manifest = SealedSecret::read(&first, &text).unwrap();
    assert!(manifest.remove() && !manifest.remove());
    let text = manifest.write().unwrap().unwrap();
    let mut manifest = SealedSecret::read(&second, &text).unwrap();
    assert!(manifest.remove());
    assert_eq!(manifest.write().unwrap(), None);
}

#[test]
fn a_file_that_is_something_else_is_left_alone() {
    let place = place("k");
    let good = "apiVersion: bitnami.com/v1alpha1\nkind: SealedSecret\n\
                metadata: {name: edge-agent.secrets, namespace: fplus-edge}\n";
    let told = |text: &str| SealedSecret::read(&place, text).unwrap_err().to_string();
    assert!(told(good).contains("no object spec.encryptedData"));
    assert!(told(&format!("{good}spec: {{encryptedData: []}}")).contains("no object spec.encryptedData"));
    assert!(SealedSecret::read(&place, &format!("{good}spec: {{encryptedData: {{a: b}}}}")).is_ok());
    assert!(told(&good.replace("edge-agent.secrets", "x")).contains("another secret"));
    assert!(told("kind: Secret").contains("is no SealedSecret"));
    for bad in ["", "a: b: c", "- x", "\0", "&a [*a]", &"[".repeat(10_000), "a: 1\na: 2"] {
        assert!(told(bad).starts_with("edo/secrets/fplus-edge/edge-agent.secrets.yaml in the cluster's repository"));
    }
    assert!(told(&"#".repeat(MAX_MANIFEST + 1)).contains("too large"));
}
