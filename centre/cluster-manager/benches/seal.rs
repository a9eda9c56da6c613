//! A secret sealed for a cluster: `cargo bench -p latchkey-cluster-manager --bench seal`.
//!
//! As the cluster manager does it for a request: it reads the certificate that the edge reported, seals the value, and writes the
//! manifest with it. `./dev bench` puts the process kubeseal beside it, which does the same from files.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot prepare its input shall fail there")]

use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeySize, PrivateDecryptingKey};
use latchkey_bench::Bench;
use latchkey_cluster_manager::seal::{Place, SealedSecret, SealingKey, seal};

/// Within the validity of the certificate.
const NOW: u64 = 1_800_000_000;

fn main() {
    // The size of a controller's own keys.
    let key = PrivateDecryptingKey::generate(KeySize::Rsa4096).unwrap();
    let pkcs8: Pkcs8V1Der<'_> = key.as_der().unwrap();
    let pair = rcgen::KeyPair::from_pkcs8_der_and_sign_algo(&pkcs8.as_ref().to_vec().into(), &rcgen::PKCS_RSA_SHA256);
    let mut parameters = rcgen::CertificateParams::new(vec![]).unwrap();
    parameters.not_before = rcgen::date_time_ymd(2026, 1, 1);
    parameters.not_after = rcgen::date_time_ymd(2036, 1, 1);
    let certificate = parameters.self_signed(&pair.unwrap()).unwrap().pem();
    let place = Place::new("fplus-edge", "plc", "password").unwrap();
    Bench::from_args().measure("cluster-manager/seal", "a secret sealed, in the library", || {
        let key = SealingKey::of(&certificate, NOW).unwrap();
        let mut manifest = SealedSecret::new(&place);
        manifest.insert(&seal(&key, &place, b"a secret of the plant").unwrap()).unwrap();
        manifest.write().unwrap().unwrap()
    });
}
