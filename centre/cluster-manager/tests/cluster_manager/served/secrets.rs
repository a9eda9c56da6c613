//! Sealed secrets.

use latchkey_factory_plus::cluster::Status;
use latchkey_factory_plus_client::{Call, Precondition};
use latchkey_factory_plus_server::http::Method;
use latchkey_test_support::block_on;

use crate::served::rig::{ADMIN, NOBODY, Rig};

/// A certificate like that of a sealed-secrets controller.
fn certificate() -> String {
    use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der};
    let key = aws_lc_rs::rsa::PrivateDecryptingKey::generate(aws_lc_rs::rsa::KeySize::Rsa2048).unwrap();
    let pkcs8: Pkcs8V1Der<'_> = key.as_der().unwrap();
    let pair =
        rcgen::KeyPair::from_pkcs8_der_and_sign_algo(&pkcs8.as_ref().to_vec().into(), &rcgen::PKCS_RSA_SHA256).unwrap();
    rcgen::CertificateParams::new(vec![]).unwrap().self_signed(&pair).unwrap().pem()
}

const SECRET: &str = "very secret indeed";

#[test]
fn a_secret_is_sealed_into_the_repository_and_nothing_else_is() {
    let rig = Rig::new();
    let cluster = rig.ready("Nord");
    let put = |who: &str, path: &str| {
        let path = format!("v1/cluster/{cluster}/secret/{path}");
        block_on(rig.service(who).call(Call::new(Method::PUT, &path).text(SECRET))).unwrap().status
    };
    let place = "fplus-edge/agent/password";
    assert_eq!(put(ADMIN, place), 404, "no edge has reported");
    rig.report(cluster, &Status::default());
    rig.until("the report", |all| all[&cluster].bootstrapped.then_some(()));
    assert_eq!(put(ADMIN, place), 503, "it did not say what to seal for");
    rig.report(cluster, &Status { kubeseal_cert: Some(certificate()), ..Status::default() });
    rig.until("the certificate", |all| all[&cluster].sealing.then_some(()));

    assert_eq!(put(NOBODY, place), 403);
    assert_eq!(put(ADMIN, &format!("{place}?dryrun")), 204);
    assert_eq!(rig.commits(cluster), 1);
    // Names that lead elsewhere (§11.6).
    for path in [
        "..%2f..%2fx/agent/password",
        "fplus-edge/..%2f..%2f..%2fREADME.md/x",
        "fplus-edge/%2e%2e/password",
        "fplus-edge/agent.%0a/password",
        "UPPER/agent/password",
        "fplus-edge/agent/a%20b",
        "fplus-edge/agent/..x",
        "fplus-edge/-agent/password",
    ] {
        assert!([400, 422].contains(&put(ADMIN, path)), "{path}");
    }
    assert_eq!(put(ADMIN, place), 204);
    assert_eq!(put(ADMIN, "fplus-edge/agent/other"), 204);
    let files = rig.cloned(cluster).unwrap();
    let file = &files["edo/secrets/fplus-edge/agent.yaml"];
    assert!(file.contains("SealedSecret") && file.contains("password:") && file.contains("other:"), "{file}");
    assert!(files.values().all(|text| !text.contains(SECRET)));
    assert_eq!(files.len(), 8, "{files:?}");
    assert_eq!(rig.commits(cluster), 3);

    let take = |key: &str| {
        let path = format!("v1/cluster/{cluster}/secret/fplus-edge/agent/{key}");
        block_on(rig.service(ADMIN).delete(&path, &Precondition::None)).unwrap()
    };
    assert!(take("password") && !take("password") && take("other"));
    assert_eq!(rig.cloned(cluster).unwrap().len(), 7);
    // A roll-out leaves secrets alone, and the other way round.
    assert_eq!(put(ADMIN, place), 204);
    let mut changed = rig.configuration("Nord");
    changed["bare"] = true.into();
    rig.write(cluster, &changed);
    let rolled_out = || rig.cloned(cluster).filter(|files| !files.contains_key("edo/cluster/flux-system.yaml"));
    let files = rig.until("the roll-out", |_| rolled_out());
    assert!(files.contains_key("edo/secrets/fplus-edge/agent.yaml"));
    assert_eq!(rig.left_in_work(), 0);
}
