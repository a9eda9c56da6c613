//! What is sealed here, other programs open: npm's aes-gcm-rsa-oaep, and kubeseal itself.

use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeySize, PrivateDecryptingKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_cluster_manager::seal::{Place, SealedSecret, SealingKey, seal};
use serde_json::json;

use crate::oracles::programs::{kubeseal, node};

/// What a sealed-secrets controller has, as PEM.
struct Controller {
    key: String,
    certificate: String,
}

fn controller() -> Controller {
    let key = PrivateDecryptingKey::generate(KeySize::Rsa4096).unwrap();
    let pkcs8: Pkcs8V1Der<'_> = key.as_der().unwrap();
    let pair =
        rcgen::KeyPair::from_pkcs8_der_and_sign_algo(&pkcs8.as_ref().to_vec().into(), &rcgen::PKCS_RSA_SHA256).unwrap();
    let mut parameters = rcgen::CertificateParams::new(vec![]).unwrap();
    parameters.not_before = rcgen::date_time_ymd(2026, 1, 1);
    parameters.not_after = rcgen::date_time_ymd(2036, 1, 1);
    Controller { key: pair.serialize_pem(), certificate: parameters.self_signed(&pair).unwrap().pem() }
}

const NOW: u64 = 1_800_000_000;
const SECRET: &str = "pass'word\n$(x) é";

fn place(key: &str) -> Place {
    Place::new("fplus-edge", "edge-agent-secrets", key).unwrap()
}

#[test]
fn npm_opens_what_is_sealed_here() {
    let controller = controller();
    let key = SealingKey::of(&controller.certificate, NOW).unwrap();
    for secret in ["", SECRET, &"x".repeat(100_000)] {
        let sealed = seal(&key, &place("password"), secret.as_bytes()).unwrap();
        let place = json!({"namespace": "fplus-edge", "name": "edge-agent-secrets"});
        let mut open = json!({"key": controller.key, "sealed": sealed.as_str()});
        open.as_object_mut().unwrap().extend(place.as_object().unwrap().clone());
        let Some(opened) = node("seal.js", &open) else { return };
        assert_eq!(opened, json!({"text": secret}));
    }
}

#[test]
fn kubeseal_opens_the_manifest_that_is_written_here() {
    let controller = controller();
    let key = SealingKey::of(&controller.certificate, NOW).unwrap();
    let mut text: Option<String> = None;
    for (name, secret) in [("password", SECRET), ("__FPSI__123", "two"), ("123", "three")] {
        let place = place(name);
        let mut manifest = match &text {
            None => SealedSecret::new(&place),
            Some(text) => SealedSecret::read(&place, text).unwrap(),
        };
        manifest.insert(&seal(&key, &place, secret.as_bytes()).unwrap()).unwrap();
        text = manifest.write().unwrap();
    }
    let Some(secret) = kubeseal(&controller.key, &text.unwrap()) else { return };
    assert_eq!(secret["metadata"]["name"], "edge-agent-secrets");
    assert_eq!(secret["metadata"]["namespace"], "fplus-edge");
    let expected = json!({"password": STANDARD.encode(SECRET), "__FPSI__123": STANDARD.encode("two"), "123": STANDARD.encode("three")});
    assert_eq!(secret["data"], expected);
}
