//! Where Intel's Provisioning Certification Service has what belongs to a TDX quote: "Intel SGX and Intel TDX Provisioning Certification
//! Service API, version 4", sections "Get Revocation List", "Get TDX TCB Info", "Get TDX QE Identity". Chains of certificates come in
//! headers of its answers.

use latchkey_attestation::verify::tdx::{TdxKind, TdxOf, TdxQuote};

/// Intel's own.
pub const PCS: &str = "https://api.trustedservices.intel.com";
/// Where Intel's root has its list, of which the service has none in DER. A mirror has it under the same path.
const ROOT_CRL: &str = "https://certificates.trustedservices.intel.com";

/// What a file holds, and of whom.
pub(super) type Holds = Vec<(TdxKind, TdxOf)>;

/// A file of the service.
pub(super) struct Wanted {
    pub(super) address: String,
    /// Its name in the directory of collateral.
    pub(super) name: String,
    pub(super) holds: Holds,
    pub(super) max: u64,
    /// Who signed it.
    pub(super) chain: Option<Chain>,
}

/// A chain of certificates, in a header of the answer.
pub(super) struct Chain {
    pub(super) header: &'static str,
    /// Its name in the directory of collateral.
    pub(super) name: String,
    pub(super) holds: Holds,
}

/// What belongs to a quote, below an address. The identity of the quoting enclave has its signer from the TCB information: Intel signs
/// both with one key, and a verifier knows one.
pub(super) fn wanted(quote: &TdxQuote, address: &str) -> [Wanted; 4] {
    let (authority, fmspc) = (quote.authority(), hex::encode(quote.fmspc()));
    let name = authority.name();
    let root = (TdxKind::Root, TdxOf::Intel);
    let pck = Chain {
        header: "SGX-PCK-CRL-Issuer-Chain",
        name: format!("pck-{name}.pem"),
        holds: vec![root, (TdxKind::PckAuthority, TdxOf::Authority(authority))],
    };
    let signing = Chain {
        header: "TCB-Info-Issuer-Chain",
        name: "tcb-signing.pem".to_owned(),
        holds: vec![root, (TdxKind::TcbSigning, TdxOf::Intel)],
    };
    let of_root = if address == PCS { ROOT_CRL } else { address };
    let file = |address: String, name: String, holds: (TdxKind, TdxOf), max, chain| Wanted {
        address,
        name,
        holds: vec![holds],
        max,
        chain,
    };
    [
        file(
            format!("{address}/sgx/certification/v4/pckcrl?ca={name}&encoding=der"),
            format!("pck-{name}.crl"),
            (TdxKind::Crl, TdxOf::Authority(authority)),
            MAX_LIST,
            Some(pck),
        ),
        file(
            format!("{of_root}/IntelSGXRootCA.der"),
            "root.crl".to_owned(),
            (TdxKind::Crl, TdxOf::Intel),
            MAX_LIST,
            None,
        ),
        file(
            format!("{address}/tdx/certification/v4/tcb?fmspc={fmspc}"),
            format!("tcb-{fmspc}.json"),
            (TdxKind::TcbInfo, TdxOf::Platforms(quote.fmspc())),
            MAX_JSON,
            Some(signing),
        ),
        file(
            format!("{address}/tdx/certification/v4/qe/identity"),
            "qe-identity.json".to_owned(),
            (TdxKind::QeIdentity, TdxOf::Intel),
            MAX_JSON,
            None,
        ),
    ]
}

/// A chain as a header has it: PEM, with `%` and two hexadecimal digits in the place of each byte that an address cannot hold as it is
/// (RFC 3986, section 2.1).
pub(super) fn chain(encoded: &str) -> Result<Vec<u8>, &'static str> {
    if encoded.len() > MAX_CHAIN {
        return Err("is longer than two certificates");
    }
    let mut bytes = encoded.bytes();
    let mut chain = Vec::with_capacity(encoded.len());
    while let Some(byte) = bytes.next() {
        chain.push(match byte {
            b'%' => {
                let mut digit = || bytes.next().and_then(|digit| char::from(digit).to_digit(16));
                let value = digit().zip(digit()).and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
                value.ok_or("has a % without two hexadecimal digits")?
            }
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' | b'=' => byte,
            _ => return Err("is not encoded as in an address"),
        });
    }
    Ok(chain)
}

/// A list of Intel's has 1 to 100 KiB.
const MAX_LIST: u64 = 512 * 1024;
/// TCB information has 20 KiB.
const MAX_JSON: u64 = 512 * 1024;
/// Two certificates have 3 KiB as an address holds them.
const MAX_CHAIN: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_otherwise_than_in_addresses_is_no_chain() {
        assert_eq!(chain("-----BEGIN%20X-----%0Aa%2Bb%2f/==%0a").unwrap(), b"-----BEGIN X-----\na+b//==\n");
        for wrong in ["a b", "a+b", "%", "%0", "%0g", "%+1", "a%00b%", "\u{e9}", &"a".repeat(MAX_CHAIN + 1)] {
            assert!(chain(wrong).is_err(), "{wrong}");
        }
    }
}
