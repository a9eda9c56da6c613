//! The text of a script: here-documents within one function.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use super::entry::Filled;

/// The function that is called on the last line.
const FUNCTION: &str = "latchkey_bootstrap";

/// A text as one word of a shell, whatever is in it.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

pub(super) fn write(filled: &Filled, name: &str, random: [u8; 16]) -> String {
    let mark = mark(filled, random);
    let mut text = format!(
        "#!/bin/sh\n# Bootstraps the edge cluster {name}. Nothing is run before the last line.\n\n{FUNCTION}() {{\n"
    );
    push_lines(&mut text, &filled.before);
    for (file, contents) in &filled.files {
        // Writing to a string does not fail.
        let _ = writeln!(text, "cat >{} <<'{mark}'", quoted(file));
        push_lines(&mut text, contents);
        let _ = writeln!(text, "{mark}");
    }
    push_lines(&mut text, &filled.after);
    let _ = write!(text, "}}\n\n{FUNCTION} \"$@\"\n");
    text
}

/// Whole lines: a here-document ends each of its lines, and a file gets an end of its last one.
fn push_lines(text: &mut String, lines: &str) {
    text.push_str(lines);
    if !text.ends_with('\n') {
        text.push('\n');
    }
}

/// A word that occurs in no file: made of random bytes, and made anew while it does occur.
fn mark(filled: &Filled, random: [u8; 16]) -> String {
    let mut seed = random.to_vec();
    loop {
        let mark = format!("END_{}", hex::encode(&seed[..16]));
        let occurs = filled.files.values().any(|text| text.contains(&mark));
        if !occurs && !filled.before.contains(&mark) && !filled.after.contains(&mark) {
            return mark;
        }
        seed = Sha256::digest(&seed).to_vec();
    }
}
