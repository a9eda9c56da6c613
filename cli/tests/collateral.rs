//! `latchkey collateral`: what a directory of AMD's files holds, and what of it is good.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

mod support;

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use support::command::{Ran, latchkey};
use tempfile::TempDir;

/// Certificates of real chips, from public projects.
fn real(name: &str) -> Option<Vec<u8>> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/vectors/snp").join(name)).ok()
}

fn with(files: &[(&str, &[u8])]) -> TempDir {
    let directory = TempDir::new().unwrap();
    fs::create_dir_all(directory.path().join("amd/snp")).unwrap();
    for (name, content) in files {
        fs::write(directory.path().join("amd/snp").join(name), content).unwrap();
    }
    directory
}

fn run(directory: &TempDir, arguments: &[&str]) -> Ran {
    latchkey(directory.path(), &[&["collateral"], arguments].concat())
}

/// File, kind and verdict of each row.
fn verdicts(ran: &Ran) -> Vec<[Value; 3]> {
    let rows = ran.json()["files"].as_array().unwrap().clone();
    rows.into_iter().map(|row| ["file", "kind", "verdict"].map(|name| row[name].clone())).collect()
}

#[test]
fn what_is_not_there_is_empty_or_is_no_file_of_amds_is_said_with_its_code() {
    let nothing = TempDir::new().unwrap();
    for command in ["show", "check"] {
        let ran = run(&nothing, &[command, "amd", "--output", "json"]).failed(2);
        assert_eq!(ran.json()["error"]["code"], "usage");
        run(&nothing, &[command]).failed(2);
    }
    let empty = with(&[]);
    let ran = run(&empty, &["check", "amd", "--output", "json"]).failed(1);
    assert_eq!(ran.json()["error"]["code"], "collateral-empty");
    assert_eq!(run(&empty, &["show", "amd", "--output", "json"]).succeeded().json()["files"], json!([]));

    let notes = with(&[("notes.txt", b"fetched on Monday"), (".notes.swp", b"an editor's")]);
    let ran = run(&notes, &["show", "amd", "--output", "json"]).failed(1);
    assert_eq!(ran.json()["files"][0]["refusal"]["code"], "collateral-malformed");
    let ran = run(&notes, &["check", "amd", "--output", "json"]).failed(1);
    assert_eq!(verdicts(&ran), [[json!("notes.txt"), Value::Null, json!("collateral-malformed")]]);
    let text = run(&notes, &["check", "amd"]).failed(1).out;
    assert!(
        text.contains("collateral-malformed") && text.contains("fetch the file that the detail names again"),
        "{text}"
    );
    let far = run(&notes, &["check", "amd", "--within", "99999", "--output", "json"]).failed(2);
    assert_eq!(far.json()["error"]["code"], "usage");
}

#[test]
fn real_files_are_shown_with_chip_and_firmware_and_each_is_checked() {
    let (Some(chain), Some(vcek), Some(turin)) =
        (real("chain-milan.pem"), real("vcek-milan-1.der"), real("vcek-turin.der"))
    else {
        return latchkey_test_support::skip(format_args!("the vectors of real chips are not here"));
    };
    let there = with(&[("chain.pem", &chain), ("chip.der", &vcek), ("turin.der", &turin)]);
    let ran = run(&there, &["show", "amd", "--output", "json"]).succeeded();
    let rows = ran.json()["files"].as_array().unwrap().clone();
    let kinds: Vec<_> = rows.iter().map(|row| row["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["ASK", "ARK", "VCEK", "VCEK"]);
    assert_eq!(rows[2]["product"], "milan");
    assert_eq!((rows[2]["chip"].as_str().unwrap().len(), rows[3]["chip"].as_str().unwrap().len()), (128, 16));
    assert!(rows[2]["tcb"]["microcode"].as_u64().unwrap() > 0 && rows[3]["tcb"]["fmc"].as_u64().is_some(), "{rows:?}");
    let text = run(&there, &["show", "amd"]).succeeded().out;
    let chip = &rows[2]["chip"].as_str().unwrap()[..16];
    assert!(text.contains(chip) && text.contains("boot loader") && text.contains("ARK"), "{text}");

    // AMD's list of what it revoked is not among the vectors, and of Turin there is no chain.
    let missing = json!("snp-revocation-list-missing");
    let ran = run(&there, &["check", "amd", "--output", "json"]).failed(1);
    let expected = [
        [json!("chain.pem"), json!("ASK"), json!("good")],
        [json!("chain.pem"), json!("ARK"), missing.clone()],
        [json!("chip.der"), json!("VCEK"), missing],
        [json!("turin.der"), json!("VCEK"), json!("snp-certificate-untrusted")],
    ];
    assert_eq!((verdicts(&ran), &ran.json()["good"]), (expected.to_vec(), &json!(false)));
    // All of it ends within a hundred years.
    let ran = run(&there, &["check", "amd", "--within", "36500", "--output", "json"]).failed(1);
    assert_eq!(verdicts(&ran)[0][2], "collateral-ends-soon");
    assert!(ran.json()["files"][0]["fix"].as_str().unwrap().contains("fetch it again"));

    // With another bit in the ASK, its signature is nobody's.
    let text = String::from_utf8(chain).unwrap();
    let middle = text.len() / 4;
    let (at, letter) = text.char_indices().skip(middle).find(|(_, letter)| letter.is_ascii_lowercase()).unwrap();
    let mut changed = text.clone().into_bytes();
    changed[at] = if letter == 'b' { b'c' } else { b'b' };
    fs::write(there.path().join("amd/snp/chain.pem"), changed).unwrap();
    let ran = run(&there, &["check", "amd", "--output", "json"]).failed(1);
    assert_eq!(verdicts(&ran)[0][2], "snp-certificate-untrusted", "{}", ran.out);
}
