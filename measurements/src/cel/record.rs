//! One record: which register, which digests, what content.

use serde::Deserialize;
use serde_json::Value;

use super::content::Content;
use super::error::{CelError, CelErrorKind};
use super::{Record, Register};
use crate::bank::{AlgorithmId, Bank};

/// "CEL Record" of TCG's section 5; systemd leaves out the number.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    recnum: Option<u64>,
    pcr: Option<u64>,
    nv_index: Option<u32>,
    digests: Vec<WireDigest>,
    content_type: String,
    content: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireDigest {
    #[serde(rename = "hashAlg")]
    algorithm: String,
    digest: String,
}

pub(super) fn parse(index: usize, offset: usize, text: &[u8]) -> Result<Record, CelError> {
    let error = |kind| CelError { record: index, offset, kind };
    // serde_json's own words name line and column, and no more of the text than a short token.
    let wire: Wire =
        serde_json::from_slice(text).map_err(|json| error(CelErrorKind::Json(plain(&json.to_string()))))?;
    Ok(Record {
        index,
        offset,
        number: wire.recnum,
        register: register(wire.pcr, wire.nv_index).map_err(error)?,
        digests: digests(&wire.digests).map_err(error)?,
        content: Content::of(&wire.content_type, &wire.content).map_err(error)?,
    })
}

fn register(pcr: Option<u64>, nv_index: Option<u32>) -> Result<Register, CelErrorKind> {
    match (pcr, nv_index) {
        (Some(pcr), None) => match u8::try_from(pcr) {
            Ok(index) if index < PCR_COUNT => Ok(Register::Pcr(index)),
            _ => Err(CelErrorKind::PcrUnknown(pcr)),
        },
        (None, Some(index)) => Ok(Register::Nv(index)),
        _ => Err(CelErrorKind::Register),
    }
}

fn digests(wire: &[WireDigest]) -> Result<Vec<(AlgorithmId, Vec<u8>)>, CelErrorKind> {
    if wire.is_empty() || wire.len() > MAX_DIGESTS {
        return Err(CelErrorKind::DigestCount(wire.len()));
    }
    let mut digests: Vec<(AlgorithmId, Vec<u8>)> = Vec::with_capacity(wire.len());
    for WireDigest { algorithm, digest } in wire {
        let algorithm = self::algorithm(algorithm).ok_or_else(|| CelErrorKind::AlgorithmUnknown(plain(algorithm)))?;
        if digests.iter().any(|(earlier, _)| *earlier == algorithm) {
            return Err(CelErrorKind::DigestTwice(algorithm));
        }
        let value = hex::decode(digest).ok().filter(|value| algorithm.digest_size() == Some(value.len()));
        digests.push((algorithm, value.ok_or(CelErrorKind::Digest(algorithm))?));
    }
    Ok(digests)
}

/// TCG Algorithm Registry, by the names that event logs use.
fn algorithm(name: &str) -> Option<AlgorithmId> {
    match name {
        "sm3_256" | "sm3-256" => Some(AlgorithmId(0x0012)),
        "sha3_256" | "sha3-256" => Some(AlgorithmId(0x0027)),
        "sha3_384" | "sha3-384" => Some(AlgorithmId(0x0028)),
        "sha3_512" | "sha3-512" => Some(AlgorithmId(0x0029)),
        _ => name.parse::<Bank>().ok().map(Bank::algorithm),
    }
}

/// Safe to print, and short.
fn plain(text: &str) -> String {
    text.chars().take(200).flat_map(char::escape_debug).collect()
}

/// PC Client Platform TPM Profile 1.05, section 4.6: "a minimum of 24 PCRs".
const PCR_COUNT: u8 = 24;
/// TPMs have up to five banks.
const MAX_DIGESTS: usize = 8;
