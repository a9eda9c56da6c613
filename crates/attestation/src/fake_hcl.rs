//! A fake of what Azure's paravisor says, for tests: claims that name a key, and the content of the NV index that has report and claims.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};

/// The numbers of an RSA key of 2048 bits that signs SHA-256 by PKCS #1.
pub const EXPONENT: [u8; 3] = [1, 0, 1];

/// Claims of these keys: `kid` and modulus.
pub fn claims(keys: &[(&str, &[u8])]) -> Vec<u8> {
    let key = |(kid, modulus): &(&str, &[u8])| {
        let [n, e] = [*modulus, &EXPONENT].map(|number| URL_SAFE_NO_PAD.encode(number));
        format!(r#"{{"kid":"{kid}","key_ops":["sign"],"kty":"RSA","e":"{e}","n":"{n}"}}"#)
    };
    let keys: Vec<_> = keys.iter().map(key).collect();
    let machine = r#"{"root-cert-thumbprint":"","console-enabled":true,"secure-boot":true,"vmUniqueId":"fake"}"#;
    format!(r#"{{"keys":[{}],"vm-configuration":{machine},"user-data":"00"}}"#, keys.join(",")).into_bytes()
}

/// What a report over claims has as its data.
pub fn report_data(claims: &[u8]) -> [u8; 64] {
    let mut data = [0; 64];
    data[..32].copy_from_slice(digest(&SHA256, claims).as_ref());
    data
}

/// The content of the NV index, its data of version 1 or 2; Azure's has zeros behind it, 2600 bytes in all.
pub fn content(report: &[u8], claims: &[u8], version: u32) -> Vec<u8> {
    let number = |value: u32| value.to_le_bytes();
    let size = u32::try_from(claims.len()).unwrap_or(u32::MAX);
    let extension = if version == 1 { 0 } else { 4 };
    let mut content = b"HCLA".to_vec();
    for value in [2, 1216 + 20 + extension + size, 2, 0, 0, 0, 0] {
        content.extend(number(value));
    }
    content.extend(report);
    for value in [20 + extension + size, version, 2, 1, size] {
        content.extend(number(value));
    }
    content.extend(vec![0; if version == 1 { 0 } else { 4 }]);
    content.extend(claims);
    content
}
