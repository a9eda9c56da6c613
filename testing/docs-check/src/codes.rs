//! Reason codes, read from the sources, and the document that lists them.
//!
//! What is read are the blocks of `reason_codes!`: the enum with its comment, and each variant with its comment, code and
//! remedy (in `attestation` also who has to act, and what the peer is told). A block of another form is an error, not a gap.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use crate::{DocsError, Package, Workspace};

/// The document that is written from the code.
pub const DOCUMENT: &str = "docs/reason-codes.md";
/// Every code there ever was, one a line. Codes are added, never renamed and never taken off the list: what no program says any
/// more is marked with [`RETIRED`] by hand, and means nothing else ever again.
pub const FROZEN: &str = "testing/docs-check/reason-codes.txt";
/// Follows a code that no program says any more.
const RETIRED: &str = " retired";

/// A closed enum of reason codes.
#[derive(Debug, PartialEq, Eq)]
pub struct CodeSet {
    /// The crate.
    pub package: String,
    /// Its source, from the root.
    pub file: String,
    /// The enum.
    pub name: String,
    /// What the enum's comment says.
    pub meaning: String,
    /// In the order of the source.
    pub codes: Vec<Code>,
}

/// A row.
#[derive(Debug, PartialEq, Eq)]
pub struct Code {
    /// The stable code.
    pub code: String,
    /// What the variant's comment says.
    pub meaning: String,
    /// What to do.
    pub remedy: String,
    /// `attestation` only: who has to act, and what the peer is told.
    pub blame: Option<[String; 2]>,
}

/// All enums of all crates.
///
/// # Errors
/// A source cannot be read, or has a block of another form.
pub fn sets(workspace: &Workspace) -> Result<Vec<CodeSet>, DocsError> {
    let mut sets = Vec::new();
    for package in workspace.packages().iter().filter(|package| !matches!(&*package.name, "reason" | "docs-check")) {
        for (path, text) in package.sources()? {
            sets.extend(in_source(workspace.root(), package, &path, &text)?);
        }
    }
    Ok(sets)
}

/// The document.
pub fn document(sets: &[CodeSet]) -> String {
    let mut out = String::from(concat!(
        "# Reason codes\n\n",
        "Made from the code by `./dev docs`; do not edit. A code is stable for ever. It is unique within its set (one enum, named in\n",
        "parentheses); where the same word stands in two sets, it names the same thing as two sides see it. [How to read a\n",
        "refusal](how-to/read-a-refusal.md) says where codes appear and who has to act.\n",
    ));
    let mut package = "";
    for set in sets {
        if package != set.package {
            package = &set.package;
            let _ = write!(out, "\n## {package}\n");
        }
        let _ = write!(out, "\n{} (`{}::{}`)\n\n", set.meaning, set.file, set.name);
        let blamed = set.codes.iter().any(|code| code.blame.is_some());
        out += if blamed {
            "| code | meaning | who has to act | the peer learns | what to do |\n|---|---|---|---|---|\n"
        } else {
            "| code | meaning | what to do |\n|---|---|---|\n"
        };
        for Code { code, meaning, remedy, blame } in &set.codes {
            let blame = blame.as_ref().map(|[blame, coarse]| format!("{blame} | `{coarse}` | ")).unwrap_or_default();
            let _ = writeln!(out, "| `{code}` | {} | {blame}{} |", cell(meaning), cell(remedy));
        }
    }
    out
}

/// What is wrong between the frozen list and the code: codes that are gone, that are not on the list, or that are back.
pub fn differences(frozen: &str, sets: &[CodeSet]) -> Vec<String> {
    let (retired, frozen) = frozen_codes(frozen);
    let there: BTreeSet<&str> = sets.iter().flat_map(|set| &set.codes).map(|code| code.code.as_str()).collect();
    let gone = frozen
        .difference(&there)
        .map(|code| format!("{code} is gone: a code is never renamed, and retired only by its mark"));
    let back = there.intersection(&retired).map(|code| format!("{code} is retired: a new meaning needs a new code"));
    let new = there.iter().filter(|code| !frozen.contains(*code) && !retired.contains(*code));
    let new = new.map(|code| format!("{code} is new: `./dev docs` adds it to {FROZEN}"));
    gone.chain(back).chain(new).collect()
}

/// The frozen list with all codes of now.
pub fn grown(frozen: &str, sets: &[CodeSet]) -> String {
    let (retired, _) = frozen_codes(frozen);
    let mut all: BTreeSet<&str> = frozen.lines().collect();
    all.extend(
        sets.iter().flat_map(|set| &set.codes).map(|code| code.code.as_str()).filter(|code| !retired.contains(code)),
    );
    all.into_iter().fold(String::new(), |list, code| list + code + "\n")
}

/// The retired codes, and the others.
fn frozen_codes(frozen: &str) -> (BTreeSet<&str>, BTreeSet<&str>) {
    let retired = frozen.lines().filter_map(|line| line.strip_suffix(RETIRED)).collect();
    (retired, frozen.lines().filter(|line| !line.ends_with(RETIRED)).collect())
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn in_source(root: &Path, package: &Package, path: &Path, text: &str) -> Result<Vec<CodeSet>, DocsError> {
    let mut sets = Vec::new();
    let mut rest = text;
    while let Some((before, block)) = rest.split_once("reason_codes! {") {
        rest = block;
        let line = before.rsplit('\n').next().unwrap_or_default();
        if line.contains("//") || line.contains("macro_rules!") {
            continue;
        }
        let file = path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
        let failed = |what: String| DocsError::Codes { path: path.into(), what };
        let mut set = Block { rest: block }.read().map_err(failed)?;
        (set.package, set.file) = (package.name.clone(), file);
        if set.name.is_empty() {
            "ReasonCode".clone_into(&mut set.name);
        }
        sets.push(set);
    }
    Ok(sets)
}

/// What is left of a block.
struct Block<'a> {
    rest: &'a str,
}

impl<'a> Block<'a> {
    /// Reads to the brace that ends the block.
    fn read(mut self) -> Result<CodeSet, String> {
        let mut set = CodeSet {
            package: String::new(),
            file: String::new(),
            name: String::new(),
            meaning: String::new(),
            codes: Vec::new(),
        };
        let mut comment = self.comment();
        // `attestation` says the enum's name in its own macro.
        let enumerated = self.take("pub(crate) enum ")
            || self.take("pub(super) enum ")
            || self.take("pub enum ")
            || self.take("enum ");
        if enumerated {
            set.name = self.word()?;
            self.expect("{")?;
            set.meaning = std::mem::take(&mut comment);
        } else {
            "Why evidence, a policy or a manifest is refused.".clone_into(&mut set.meaning);
        }
        loop {
            comment += &self.comment();
            if self.take("}") {
                return Ok(set);
            }
            let variant = self.word()?;
            self.expect("=")?;
            let code = self.literal().map_err(|what| format!("{variant}: {what}"))?;
            let blame = if self.take(",") {
                let blame = self.word()?;
                self.expect(",")?;
                let coarse = self.word()?;
                self.expect(",")?;
                Some([kebab(&blame), kebab(&coarse)])
            } else {
                self.expect(":")?;
                None
            };
            let remedy = self.literal().map_err(|what| format!("{variant}: {what}"))?;
            self.expect(";")?;
            set.codes.push(Code { code, meaning: std::mem::take(&mut comment), remedy, blame });
        }
    }

    /// Comments and attributes before the next word; the text of the doc comments' first paragraph.
    fn comment(&mut self) -> String {
        let (mut text, mut ended) = (String::new(), false);
        loop {
            self.rest = self.rest.trim_start();
            let line = self.rest.lines().next().unwrap_or_default();
            if let Some(words) = line.strip_prefix("///") {
                ended |= words.trim().is_empty();
                if !ended {
                    text += if text.is_empty() { "" } else { " " };
                    text += words.trim();
                }
            } else if !line.starts_with("//") && !line.starts_with("#[") {
                // A link in a comment is its text.
                return text.replace("[`", "`").replace("`]", "`");
            }
            self.rest = &self.rest[line.len()..];
        }
    }

    fn take(&mut self, mark: &str) -> bool {
        let found = self.rest.trim_start().strip_prefix(mark);
        if let Some(rest) = found {
            self.rest = rest;
        }
        found.is_some()
    }

    fn expect(&mut self, mark: &str) -> Result<(), String> {
        if self.take(mark) { Ok(()) } else { Err(format!("expected `{mark}` before `{}`", self.excerpt())) }
    }

    fn word(&mut self) -> Result<String, String> {
        let rest = self.rest.trim_start();
        let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
        if end == 0 {
            return Err(format!("expected a name before `{}`", self.excerpt()));
        }
        self.rest = &rest[end..];
        Ok(rest[..end].to_owned())
    }

    /// A string literal, with `\"`, `\\` and a line that goes on in the next one.
    fn literal(&mut self) -> Result<String, String> {
        self.expect("\"")?;
        let mut text = String::new();
        let mut letters = self.rest.char_indices();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(text);
                }
                '\\' => match letters.next() {
                    Some((_, same @ ('"' | '\\' | '\''))) => text.push(same),
                    Some((at, '\n')) => {
                        self.rest = self.rest[at..].trim_start();
                        letters = self.rest.char_indices();
                    }
                    _ => return Err("an escape that is not read here".to_owned()),
                },
                other => text.push(other),
            }
        }
        Err("a text without an end".to_owned())
    }

    fn excerpt(&self) -> &'a str {
        self.rest.trim_start().lines().next().unwrap_or_default()
    }
}

/// `TpmNotTrusted` → `tpm-not-trusted`.
fn kebab(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !text.is_empty() {
            text.push('-');
        }
        text.extend(letter.to_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: &str = r#"
        /// Why a file
        /// is not read.
        ///
        /// More.
        pub enum FileCode {
            // A group.
            /// It is [`Long`].
            TooLong = "file-too-long": "give the file; the \"right\" \
                one";
            #[doc(hidden)]
            Odd = "file-odd": "mend it";
        }
    }"#;

    #[test]
    fn a_block_is_read_with_its_comments_codes_and_remedies() {
        let set = Block { rest: BLOCK }.read().unwrap();
        assert_eq!((&*set.name, &*set.meaning), ("FileCode", "Why a file is not read."));
        let rows: Vec<_> = set.codes.iter().map(|row| (&*row.code, &*row.meaning, &*row.remedy)).collect();
        assert_eq!(
            rows,
            [("file-too-long", "It is `Long`.", "give the file; the \"right\" one"), ("file-odd", "", "mend it")]
        );
    }

    #[test]
    fn a_block_of_another_form_is_an_error() {
        for (from, to) in [("=", "=>"), ("\";", "\""), (": \"mend", " \"mend"), ("FileCode {", "FileCode (")] {
            assert!(Block { rest: &BLOCK.replace(from, to) }.read().is_err(), "{from} → {to}");
        }
    }

    #[test]
    fn a_code_that_is_gone_and_one_that_is_new_are_told_and_the_list_only_grows() {
        let sets = [Block { rest: BLOCK }.read().unwrap()];
        let frozen = "file-gone\nfile-odd\n";
        assert_eq!(differences(frozen, &sets).len(), 2);
        assert_eq!(grown(frozen, &sets), "file-gone\nfile-odd\nfile-too-long\n");
    }

    #[test]
    fn a_retired_code_may_be_gone_and_may_not_come_back() {
        let sets = [Block { rest: BLOCK }.read().unwrap()];
        let frozen = "file-gone retired\nfile-odd\nfile-too-long\n";
        assert!(differences(frozen, &sets).is_empty());
        assert_eq!(grown(frozen, &sets), frozen);
        let back = "file-odd retired\nfile-too-long\n";
        assert_eq!(differences(back, &sets), ["file-odd is retired: a new meaning needs a new code"]);
        assert_eq!(grown(back, &sets), back);
    }
}
