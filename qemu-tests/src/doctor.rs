//! What this machine lacks, one line each, with the way to get it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::HarnessError;

/// The list that `./dev` reads too.
const TOOLS: &str = include_str!("../tools.txt");

/// Something the harness calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tool {
    /// A command, the absolute path of a file, or `python3:MODULE`.
    pub name: &'static str,
    /// The Debian package that brings it.
    pub package: &'static str,
    /// What it is for.
    pub purpose: &'static str,
    /// Whether the demo of two machines needs it, too.
    pub for_the_demo: bool,
}

/// Everything on the list.
pub fn tools() -> impl Iterator<Item = Tool> {
    TOOLS.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let mut columns = line.split('|').map(str::trim);
        let [name, package, purpose] = [columns.next()?, columns.next()?, columns.next()?];
        Some(Tool { name, package, purpose, for_the_demo: columns.next() == Some("demo") })
    })
}

/// What is not there.
pub fn missing() -> Vec<Tool> {
    tools().filter(|tool| find(tool.name).is_none()).collect()
}

/// The same for the demo of two machines, which needs less.
pub fn missing_for_the_demo() -> Vec<Tool> {
    missing().into_iter().filter(|tool| tool.for_the_demo).collect()
}

/// Where a command or file is; for a Python module, where its interpreter is.
pub fn find(name: &str) -> Option<PathBuf> {
    if let Some(module) = name.strip_prefix("python3:") {
        let python = find("python3")?;
        let found = crate::process::output(Command::new(&python).args(["-c", &format!("import {module}")])).is_ok();
        return found.then_some(python);
    }
    if name.starts_with('/') {
        return Path::new(name).exists().then(|| name.into());
    }
    // Administrators' tools are not in every user's path.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    places.map(|place| place.join(name)).find(|file| file.is_file())
}

/// Where a command or file is, or how to get it.
pub fn need(name: &str) -> Result<PathBuf, HarnessError> {
    find(name).ok_or_else(|| {
        let package = tools().find(|tool| tool.name == name).map_or(name, |tool| tool.package);
        HarnessError::MissingTool { tool: name.into(), package: package.into() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_the_list_has_its_columns() {
        let lines = TOOLS.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(tools().count(), lines);
        let lines = TOOLS.lines().filter(|line| !line.starts_with('#'));
        let words = lines.filter_map(|line| line.split('|').nth(3)).map(str::trim);
        assert!(words.clone().all(|word| word == "demo") && words.count() > 5);
        assert!(tools().all(|tool| ![tool.name, tool.package, tool.purpose].contains(&"")));
    }

    #[test]
    fn a_missing_tool_is_named_with_its_package() {
        assert!(need("sh").is_ok());
        let error = need("/nonexistent/tool").unwrap_err().to_string();
        assert!(error.contains("apt-get install /nonexistent/tool"), "{error}");
    }
}
