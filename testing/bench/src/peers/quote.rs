//! keylime and tpm2-tools check the very quotes that our own benchmark checks.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_bench::Bench;

use super::python::Python;
use crate::outcome::Outcome;

/// The recordings: the name of the figure, the fixture, the algorithm.
const QUOTES: [(&str, &str, &str); 2] =
    [("quote-p256", "ek-p256-pinned", "P-256"), ("quote-rsa", "ak-rsa", "RSA-2048")];

/// Measures both, on both quotes.
pub(crate) fn run(sources: &Path, python: Option<&Python>, outcome: &mut Outcome) {
    for (id, fixture, algorithm) in QUOTES {
        let recording = sources.join("crates/attestation/tests/fixtures").join(fixture).join("evidence.json");
        let prepared = tempfile::tempdir().map_err(|error| error.to_string()).and_then(|directory| {
            let json = fs::read(&recording).map_err(|error| error.to_string())?;
            let nonce = translate(&json, directory.path()).ok_or("not of the form this program knows")?;
            Ok((directory, nonce))
        });
        let (directory, nonce) = match prepared {
            Ok(prepared) => prepared,
            Err(why) => {
                outcome.skip(recording.display().to_string(), why);
                continue;
            }
        };
        if let Some(python) = python {
            let (id, what) = (format!("keylime/{id}"), format!("keylime: checkquote, {algorithm}"));
            let arguments = [directory.path().as_os_str(), id.as_ref(), what.as_ref()];
            outcome.take(&id, python.run("keylime_quote.py", &arguments));
        }
        let (id, what) = (format!("tpm2-tools/{id}"), format!("tpm2-tools: tpm2_checkquote, {algorithm} (process)"));
        match checkquote(directory.path(), &nonce) {
            Ok(()) => outcome.figures.push(Bench::quiet().measure_process(&id, &what, || {
                let _ = checkquote(directory.path(), &nonce);
            })),
            Err(why) => outcome.skip(id, why),
        }
    }
}

fn checkquote(directory: &Path, nonce: &str) -> Result<(), String> {
    let mut command = Command::new("tpm2_checkquote");
    command.current_dir(directory).args([
        "-u",
        "ak.pem",
        "-m",
        "quote",
        "-s",
        "signature",
        "-f",
        "pcrs",
        "-g",
        "sha256",
    ]);
    let output = command.args(["-q", nonce]).stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("tpm2_checkquote failed: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// Writes a recording as the files that tpm2-tools exchange; gives the nonce in hexadecimal.
fn translate(json: &[u8], directory: &Path) -> Option<String> {
    let recording: serde_json::Value = serde_json::from_slice(json).ok()?;
    let bytes = |value: &serde_json::Value| STANDARD.decode(value.as_str()?).ok();
    let nonce = recording["binding"].as_str()?;
    let files = [
        ("quote", bytes(&recording["quote"])?),
        ("signature", bytes(&recording["signature"])?),
        ("pcrs", pcr_file(recording["pcrs"].as_object()?)?),
        ("ak.pem", pem(&bytes(&recording["identity"]["ak_public"])?)?),
        ("nonce", unhex(nonce)?),
    ];
    files.iter().try_for_each(|(name, content)| fs::write(directory.join(name), content)).ok()?;
    Some(nonce.to_owned())
}

/// TPM 2.0 Library Part 2: `TPML_PCR_SELECTION`, then `TPML_DIGEST` lists, as C structures of the ESAPI on a
/// little-endian machine: what `tpm2_quote --pcr` writes.
fn pcr_file(pcrs: &serde_json::Map<String, serde_json::Value>) -> Option<Vec<u8>> {
    let mut values: Vec<(u8, Vec<u8>)> = Vec::new();
    for (index, value) in pcrs {
        values.push((index.parse().ok()?, unhex(value.as_str()?)?));
    }
    values.sort();
    let select = values.iter().fold(0_u32, |select, (index, _)| select | 1 << index);
    let mut file = 1_u32.to_le_bytes().to_vec();
    // One TPMS_PCR_SELECTION of SHA-256 with three bytes, fifteen unused.
    file.extend([0x0b, 0x00, 3]);
    file.extend(select.to_le_bytes());
    file.resize(4 + 16 * 8, 0);
    let lists = values.chunks(8);
    file.extend(u32::try_from(lists.len()).ok()?.to_le_bytes());
    for list in lists {
        let start = file.len();
        file.extend(u32::try_from(list.len()).ok()?.to_le_bytes());
        for (_, value) in list {
            file.extend(u16::try_from(value.len()).ok()?.to_le_bytes());
            file.extend(value);
            file.resize(file.len() + 64 - value.len(), 0);
        }
        file.resize(start + 4 + 8 * 66, 0);
    }
    Some(file)
}

/// The public key at the end of a `TPMT_PUBLIC`, as `SubjectPublicKeyInfo`.
fn pem(public: &[u8]) -> Option<Vec<u8>> {
    /// RFC 5480: `id-ecPublicKey`, `secp256r1`, an uncompressed point.
    const P256: &[u8] =
        b"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00\x04";
    /// RFC 3279: `rsaEncryption`, a modulus of 2048 bits; the exponent follows it.
    const RSA: &[u8] = b"\x30\x82\x01\x22\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00\x03\x82\x01\x0f\x00\x30\x82\x01\x0a\x02\x82\x01\x01\x00";
    const EXPONENT: &[u8] = b"\x02\x03\x01\x00\x01";
    let der = if let Some((_, modulus)) = public.split_last_chunk::<258>()
        && let Some(modulus) = modulus.strip_prefix(b"\x01\x00")
    {
        [RSA, modulus, EXPONENT].concat()
    } else {
        let (_, point) = public.split_last_chunk::<68>()?;
        let (x, y) = point.split_at(34);
        [P256, x.strip_prefix(b"\x00\x20")?, y.strip_prefix(b"\x00\x20")?].concat()
    };
    let text = STANDARD.encode(der);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    Some(format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", lines.join("\n")).into_bytes())
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}
