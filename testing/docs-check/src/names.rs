//! Whether what a document names is there.

use std::collections::{BTreeMap, BTreeSet};

use crate::scan;
use crate::{DocsError, Workspace};

/// Endings of files that a document names by their path.
const FILES: [&str; 8] = [".rs", ".txt", ".toml", ".json", ".service", ".proto", ".md", ".sh"];

/// Knows every test, constant and file of the checkout.
#[derive(Debug)]
pub struct Names<'a> {
    workspace: &'a Workspace,
    tests: BTreeMap<&'a str, BTreeSet<String>>,
}

impl<'a> Names<'a> {
    /// Looks through the sources of all crates.
    ///
    /// # Errors
    /// A source cannot be read.
    pub fn of(workspace: &'a Workspace) -> Result<Self, DocsError> {
        let mut tests = BTreeMap::new();
        for package in workspace.packages() {
            let sources = package.sources()?;
            let found = sources.iter().flat_map(|(_, text)| scan::tests(text)).map(str::to_owned).collect();
            tests.insert(package.name.as_str(), found);
        }
        Ok(Self { workspace, tests })
    }

    /// What is wrong with a document: each name between backticks and each relative link that leads nowhere.
    pub fn wrong(&self, document: &str, text: &str) -> Vec<String> {
        let mut wrong = Vec::new();
        for name in quoted(text) {
            if let Err(why) = self.check(name) {
                wrong.push(format!("{document}: `{name}`: {why}"));
            }
        }
        let directory = document.rsplit_once('/').map_or("", |(directory, _)| directory);
        for link in links(text) {
            let path = self.workspace.root().join(directory).join(link);
            if !path.exists() {
                wrong.push(format!("{document}: the link to {link} leads nowhere"));
            }
        }
        wrong
    }

    /// `crate::test`, `path/file.rs` or `path/file.rs::NAME`; anything else is prose.
    fn check(&self, name: &str) -> Result<(), String> {
        // A limit is written `path::NAME = value`; the value is compared elsewhere.
        let name = name.split_once(" = ").map_or(name, |(name, _)| name);
        let (left, right) = name.rsplit_once("::").unwrap_or((name, ""));
        if let Some(tests) = self.tests.get(left).filter(|_| !right.is_empty()) {
            let there = tests.contains(right);
            return if there { Ok(()) } else { Err(format!("the crate {left} has no such test")) };
        }
        let is_path = left.contains('/') && FILES.iter().any(|end| left.ends_with(end));
        if !is_path || left.contains([' ', '*', '…']) || left.starts_with(['/', '.']) {
            return Ok(());
        }
        // Files that a reader makes, such as `build-1.0/reference.json`, are in no directory of the checkout.
        let top = left.split('/').next().unwrap_or_default();
        if left.rsplit('.').next() != Some("rs") && !self.workspace.root().join(top).is_dir() {
            return Ok(());
        }
        let text = self.workspace.read(left).map_err(|error| error.to_string())?;
        if text.contains(right) { Ok(()) } else { Err(format!("{right} is not in that file")) }
    }
}

/// What stands between backticks, outside of fenced blocks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split("```").step_by(2).flat_map(|prose| prose.split('`').skip(1).step_by(2))
}

/// Where links lead that stay in the checkout, without the part after `#`.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let prose = text.split("```").step_by(2);
    let targets = prose.flat_map(|prose| prose.split("](").skip(1)).filter_map(|rest| rest.split(')').next());
    let paths = targets.filter_map(|target| target.split('#').next());
    paths.filter(|path| !path.is_empty() && !path.contains("://") && !path.starts_with("mailto:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_links_are_found_outside_of_fenced_blocks_only() {
        let text = "See `a::b` and [c](docs/c.md#d).\n```sh\necho `no` [x](y)\n```\nThen `e/f.rs`, [w](https://w.org).";
        assert_eq!(quoted(text).collect::<Vec<_>>(), ["a::b", "e/f.rs"]);
        assert_eq!(links(text).collect::<Vec<_>>(), ["docs/c.md"]);
    }

    #[test]
    fn a_name_that_is_not_there_is_told() {
        let workspace = Workspace::here().unwrap();
        let names = Names::of(&workspace).unwrap();
        let own = "docs-check::a_name_that_is_not_there_is_told";
        assert_eq!(names.check(own), Ok(()));
        // A function, but no test.
        assert!(names.check("docs-check::quoted").is_err());
        assert!(
            names.check("testing/docs-check/src/lib.rs").is_ok()
                && names.check("testing/docs-check/src/no.rs").is_err()
        );
        assert!(names.check("testing/docs-check/src/names.rs::FILES").is_ok());
        assert!(names.check("testing/docs-check/src/names.rs::NOTHING_OF_THE\u{20}KIND").is_err());
        assert_eq!(
            names.wrong("docs/x.md", "[a](../README.md) [b](gone.md)"),
            ["docs/x.md: the link to gone.md leads nowhere"]
        );
    }
}
