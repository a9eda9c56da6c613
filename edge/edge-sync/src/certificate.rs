//! The certificate that secrets for this cluster are sealed for: that of the newest key of the sealed-secrets controller.
//!
//! The controller keeps each key in a Secret, and seals with the one whose certificate began last. Of a Secret only the certificate
//! is read.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_kubernetes_client::kube::api::ObjectMeta;
use serde::Deserialize;
use x509_cert::Certificate;
use x509_cert::time::Time;

use crate::kinds::read_only;

/// A Secret, of which only a certificate is read: the key beside it is skipped.
#[derive(Clone, Debug, Deserialize)]
pub struct KeySecret {
    /// Name and labels.
    pub metadata: ObjectMeta,
    /// What it holds.
    #[serde(default)]
    pub data: KeyData,
}

/// What a Secret with a key holds.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct KeyData {
    /// The certificate: base64 of PEM.
    #[serde(default, rename = "tls.crt")]
    pub certificate: Option<String>,
}

read_only!(KeySecret, NamespaceResourceScope, "", "v1", "Secret", "secrets");

/// The label of the Secrets with keys that the controller uses.
pub const ACTIVE: &str = "sealedsecrets.bitnami.com/sealed-secrets-key=active";
/// The most keys that are looked at; the controller makes one each month.
pub const MOST: usize = 1000;
/// The longest text of certificates, in bytes: what the centre takes.
const MAX_PEM: usize = 32 << 10;
/// How far in the future a certificate may begin, in seconds: clocks of the machines of one cluster.
const CLOCKS_DIFFER: u64 = 3600;

/// A certificate, and its times in seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealing {
    /// As the controller wrote it, without what stands around it.
    pub pem: String,
    /// From when it is good.
    pub from: u64,
    /// Until when.
    pub to: u64,
}

/// The certificate of a Secret; why there is none otherwise, without what the Secret holds.
pub fn read(secret: &KeySecret) -> Result<Sealing, &'static str> {
    let encoded = secret.data.certificate.as_deref().ok_or("has no `tls.crt`")?;
    if encoded.len() > MAX_PEM / 3 * 4 {
        return Err("has a `tls.crt` that is too large for a certificate");
    }
    let no_pem = "has a `tls.crt` that is no X.509 certificate in PEM";
    let pem = STANDARD.decode(encoded.trim()).ok().and_then(|pem| String::from_utf8(pem).ok()).ok_or(no_pem)?;
    let chain = Certificate::load_pem_chain(pem.as_bytes()).map_err(|_| no_pem)?;
    let validity = chain.first().ok_or(no_pem)?.tbs_certificate().validity();
    let seconds = |time: &Time| time.to_unix_duration().as_secs();
    let (from, to) = (seconds(&validity.not_before), seconds(&validity.not_after));
    Ok(Sealing { pem: pem.trim().to_owned() + "\n", from, to })
}

/// The certificate that secrets are sealed for at `now`, in seconds since 1970: of those that are good, the one that began last.
/// Of two that began together, the one whose text is the greater: so that it is the same one each time.
pub fn newest<'a>(all: impl IntoIterator<Item = &'a Sealing>, now: u64) -> Option<&'a Sealing> {
    let is_good = |one: &&Sealing| one.from <= now + CLOCKS_DIFFER && now <= one.to;
    all.into_iter().filter(is_good).max_by_key(|one| (one.from, &one.pem))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const DAY: u64 = 24 * 60 * 60;

    fn pem(from: (i32, u8, u8), to: (i32, u8, u8)) -> String {
        let mut params = rcgen::CertificateParams::default();
        (params.not_before, params.not_after) =
            (rcgen::date_time_ymd(from.0, from.1, from.2), rcgen::date_time_ymd(to.0, to.1, to.2));
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem()
    }

    fn secret(certificate: &serde_json::Value) -> KeySecret {
        serde_json::from_value(json!({"metadata": {"name": "k"}, "data": {"tls.crt": certificate, "tls.key": "hush"}}))
            .unwrap()
    }

    #[test]
    fn the_certificate_of_a_secret_is_read_with_its_times_and_its_key_is_not() {
        let text = pem((2026, 1, 1), (2036, 1, 1));
        let secret = secret(&json!(STANDARD.encode(&text)));
        assert!(!format!("{secret:?}").contains("hush"));
        let read = read(&secret).unwrap();
        assert_eq!(read.pem.trim(), text.trim());
        // The oracle: date -u -d 2026-01-01 +%s; date -u -d 2036-01-01 +%s
        assert_eq!((read.from, read.to), (1_767_225_600, 2_082_758_400));
    }

    #[test]
    fn what_is_no_certificate_is_said_without_being_repeated() {
        for (certificate, why) in [
            (json!(null), "has no `tls.crt`"),
            (json!("%"), "no X.509"),
            (json!(STANDARD.encode("x")), "no X.509"),
            (json!("A".repeat(2 * MAX_PEM)), "too large"),
        ] {
            assert!(read(&secret(&certificate)).unwrap_err().contains(why));
        }
    }

    #[test]
    fn the_newest_that_is_good_seals() {
        let one = |name: &str, from: u64, to: u64| Sealing { pem: name.to_owned(), from, to };
        let now = 100 * DAY;
        let (old, new) = (one("old", 10 * DAY, 1000 * DAY), one("new", 90 * DAY, 1000 * DAY));
        let (over, early) = (one("over", 95 * DAY, 99 * DAY), one("early", 101 * DAY, 1000 * DAY));
        let all = [&over, &new, &early, &old];
        assert_eq!(newest(all, now), Some(&new));
        assert_eq!(newest([&over, &old], now), Some(&old));
        assert_eq!(newest([&over, &early], now), None);
        // A clock that is a little late does not hide a key that was just made.
        assert_eq!(newest([&old, &early], 101 * DAY - 60), Some(&early));
    }

    proptest! {
        #[test]
        fn whatever_a_secret_holds_is_read_or_refused(bytes: Vec<u8>, text in ".{0,64}") {
            let _ = (read(&secret(&json!(STANDARD.encode(bytes)))), read(&secret(&json!(text))));
        }
    }
}
