//! The documents at the root say what the code says: each test and file they name exists, and no reason code is missing.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use latchkey_attestation::{Blame, ReasonCode};

const DOCUMENTS: [&str; 3] = ["SECURITY.md", "LIMITATIONS.md", "SPECIFICATION.md"];

/// Crates as the documents call them, and where they are.
const CRATES: [(&str, &str); 16] = [
    ("agent", "agent"),
    ("api", "api"),
    ("attestation", "attestation"),
    ("channel", "channel"),
    ("cli", "cli"),
    ("cluster-store", "cluster-store"),
    ("disk", "disk"),
    ("service-runtime", "services/service-runtime"),
    ("image", "image"),
    ("initramfs", "initramfs"),
    ("join-service", "services/join-service"),
    ("key-service", "services/key-service"),
    ("keys", "keys"),
    ("measurements", "measurements"),
    ("qemu-tests", "qemu-tests"),
    ("tpm", "tpm"),
];

/// Where codes are written, as `=> "code"`, `=> ("code", …)` or `= "code"`.
const CODES: [&str; 20] = [
    "agent/src/platform/config/fault.rs",
    "agent/src/platform/devices/fault.rs",
    "agent/src/platform/switch_root.rs",
    "agent/src/platform/metadata/mod.rs",
    "agent/src/platform/modules.rs",
    "agent/src/platform/mounts.rs",
    "agent/src/platform/net/fault.rs",
    "agent/src/platform/root/fault.rs",
    "channel/src/error/mod.rs",
    "channel/src/error/reason.rs",
    "channel/src/error/refused.rs",
    "channel/src/frame.rs",
    "channel/src/tls/mod.rs",
    "disk/src/luks2/refusal.rs",
    "disk/src/luks2/unlocked.rs",
    "disk/src/probe.rs",
    "disk/src/superblock.rs",
    "services/join-service/src/decision/refusal.rs",
    "services/key-service/src/decision.rs",
    "tpm/src/device/error.rs",
];

#[test]
fn the_table_of_attestation_codes_is_the_one_in_the_code() {
    const BEGIN: &str = "<!-- attestation codes: begin -->\n";
    const END: &str = "<!-- attestation codes: end -->";
    let document = read("SECURITY.md");
    let (_, rest) = document.split_once(BEGIN).unwrap();
    let (written, _) = rest.split_once(END).unwrap();
    let mut table = String::from("| code | blame | the peer learns | what to do |\n|---|---|---|---|\n");
    for code in ReasonCode::ALL {
        let (blame, coarse, remedy) = (blame(code.blame()), code.coarse(), code.remedy());
        writeln!(table, "| `{code}` | {blame} | `{coarse}` | {remedy} |").unwrap();
    }
    assert!(written == table, "SECURITY.md must have this between the two marks:\n{table}");
}

#[test]
fn no_reason_code_is_missing() {
    let document = read("SECURITY.md");
    for file in CODES {
        let source = read(file);
        let codes = codes_in(&source);
        assert!(!codes.is_empty(), "{file} has no codes any more: correct the list in this test");
        let missing: Vec<_> = codes.into_iter().filter(|code| !document.contains(&format!("`{code}`"))).collect();
        assert!(missing.is_empty(), "SECURITY.md does not explain {missing:?} of {file}");
    }
}

#[test]
fn every_test_and_file_that_a_document_names_exists() {
    for document in DOCUMENTS {
        let text = read(document);
        assert!(quoted(&text).count() > 10, "{document} names nothing");
        let faults: Vec<_> =
            quoted(&text).filter_map(|name| Some(format!("`{name}`: {}", check(name).err()?))).collect();
        assert!(faults.is_empty(), "{document}:\n{}", faults.join("\n"));
    }
}

/// `crate::test`, `path/file.rs` or `path/file.rs::WORD`; anything else is prose.
fn check(name: &str) -> Result<(), String> {
    let (left, right) = name.rsplit_once("::").unwrap_or((name, ""));
    if let Some((_, directory)) = CRATES.iter().find(|(name, _)| *name == left && !right.is_empty()) {
        let function = format!("fn {right}(");
        return if any_source(&root().join(directory), &function) {
            Ok(())
        } else {
            Err(format!("no {function}…) there"))
        };
    }
    let is_path =
        left.contains('/') && [".rs", ".txt", ".toml", ".json", ".service"].iter().any(|end| left.ends_with(end));
    if !is_path || left.contains([' ', '*']) || left.starts_with('/') {
        return Ok(());
    }
    let text = fs::read_to_string(root().join(left)).map_err(|error| error.to_string())?;
    if text.contains(right) { Ok(()) } else { Err(format!("{right} is not in that file")) }
}

fn any_source(directory: &Path, needle: &str) -> bool {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).any(|path| {
        if path.is_dir() {
            return any_source(&path, needle);
        }
        path.extension().is_some_and(|end| end == "rs")
            && fs::read_to_string(path).is_ok_and(|text| text.contains(needle))
    })
}

/// What stands between backticks, outside of fenced blocks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split("```").step_by(2).flat_map(|prose| prose.split('`').skip(1).step_by(2))
}

fn codes_in(source: &str) -> Vec<&str> {
    source
        .lines()
        .filter(|line| !line.trim_start().starts_with(['#', '/']))
        .filter_map(literal)
        .filter(|text| text.contains('-') && text.bytes().all(is_kebab))
        .collect()
}

/// The string that a match arm, a tuple or a constant begins with.
fn literal(line: &str) -> Option<&str> {
    let marks = ["=> \"", "=> (\"", " = \"", "    (\""];
    let (_, rest) = marks.iter().find_map(|mark| line.split_once(mark))?;
    rest.split('"').next()
}

fn is_kebab(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-')
}

fn blame(blame: Blame) -> &'static str {
    match blame {
        Blame::Peer => "peer",
        Blame::Platform => "platform",
        Blame::Operator => "operator",
        Blame::Verifier => "verifier",
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
