//! Cargo builds the tests, and says which executables they are.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use latchkey_test_support::cargo;
use serde::Deserialize;

use crate::RunnerError;
use crate::arguments::Arguments;
use crate::error::at;

/// What cargo's packages are called before the name of the crate.
const PREFIX: &str = "latchkey-";
/// Follows the name of an executable with the tests of a crate's sources.
const UNIT: &str = " (unit)";
/// The crate whose modules run in processes of their own: they have machines, and only so many at a time.
pub(crate) const MACHINES: &str = "qemu-tests";

/// One executable of tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executable {
    /// The crate: `join-service`.
    pub package: String,
    /// The target: `join_service` for integration tests, `join_service (unit)` for those in the sources.
    pub name: String,
    /// The program.
    pub path: PathBuf,
    /// Where cargo would run it: the crate's directory.
    pub directory: PathBuf,
}

impl Executable {
    /// Whether its tests are those in the sources.
    pub fn is_unit(&self) -> bool {
        self.name.ends_with(UNIT)
    }
}

/// What is to be built: all of the workspace, or what selectors name.
#[derive(Debug, PartialEq, Eq)]
pub struct Selection {
    /// Of each selector: crate, test target if one is named, modules in it.
    parts: Vec<Part>,
    workspace: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    package: String,
    target: Option<String>,
    module: Option<String>,
    /// The integration tests of the crate, or the one that is named.
    tests: Vec<String>,
}

impl Selection {
    /// Finds what selectors name among the workspace's crates and their test targets.
    ///
    /// # Errors
    /// [`RunnerError::Usage`], if one names nothing; [`RunnerError::Cargo`].
    pub fn of(arguments: &Arguments) -> Result<Self, RunnerError> {
        let workspace = Workspace::here()?;
        let parts = arguments.selectors.iter().map(|selector| workspace.find(selector));
        Ok(Self { parts: parts.collect::<Result<_, _>>()?, workspace: arguments.workspace })
    }

    /// Builds the executables, with cargo's progress on standard error.
    ///
    /// # Errors
    /// [`RunnerError::Build`], [`RunnerError::Cargo`], [`RunnerError::File`].
    pub fn build(&self) -> Result<Vec<Executable>, RunnerError> {
        let mut command = cargo();
        command.args(["test", "--no-run", "--message-format", "json-render-diagnostics"]).args(self.for_cargo());
        let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().map_err(at(Path::new("cargo")))?;
        if !output.status.success() {
            return Err(RunnerError::Build(output.status));
        }
        let messages = output.stdout.split(|byte| *byte == b'\n');
        let mut built: Vec<_> =
            messages.filter_map(|line| serde_json::from_slice(line).ok()).filter_map(executable).collect();
        built.retain(|executable| self.parts.is_empty() || self.parts.iter().any(|part| part.is_of(executable)));
        built.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(built)
    }

    /// The modules that are selected of an executable; `None`: all of it.
    pub fn modules(&self, executable: &Executable) -> Option<Vec<&str>> {
        let parts: Vec<_> = self.parts.iter().filter(|part| part.is_of(executable)).collect();
        if parts.is_empty() || parts.iter().any(|part| part.module.is_none()) {
            return None;
        }
        Some(parts.iter().filter_map(|part| part.module.as_deref()).collect())
    }

    /// Whether several processes will ask for the project's programs: they are built before the tests then, once.
    pub fn shares_programs(&self) -> bool {
        let machines = || self.parts.iter().filter(|part| part.package == MACHINES);
        self.parts.is_empty() || machines().count() > 1 || machines().any(|part| part.module.is_none())
    }

    /// Whether documentation of what is selected is tested, too: where no single executable was asked for.
    pub fn with_documentation(&self) -> bool {
        self.parts.is_empty()
    }

    fn for_cargo(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        if self.parts.is_empty() || self.workspace {
            arguments.push("--workspace".to_owned());
        } else {
            arguments.extend(
                self.parts.iter().flat_map(|part| ["--package".to_owned(), format!("{PREFIX}{}", part.package)]),
            );
        }
        let targets: Vec<_> = self.parts.iter().filter_map(|part| part.target.clone()).collect();
        if !targets.is_empty() && targets.len() == self.parts.len() {
            arguments.extend(targets.into_iter().flat_map(|target| ["--test".to_owned(), target]));
        } else if self.workspace && !self.parts.is_empty() {
            // The unit tests of a crate cannot be named among all: those of all are built.
            arguments.extend(["--lib", "--bins"].map(str::to_owned));
            let tests = self.parts.iter().flat_map(|part| part.tests.clone());
            arguments.extend(tests.flat_map(|target| ["--test".to_owned(), target]));
        }
        arguments
    }
}

impl Part {
    fn is_of(&self, executable: &Executable) -> bool {
        self.package == executable.package && self.target.as_ref().is_none_or(|target| *target == executable.name)
    }
}

/// The part of `cargo metadata` that matters here.
#[derive(Deserialize)]
struct Workspace {
    workspace_root: PathBuf,
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

impl Workspace {
    fn here() -> Result<Self, RunnerError> {
        let mut command = cargo();
        command.args(["metadata", "--format-version=1", "--no-deps", "--offline"]).stderr(Stdio::inherit());
        let output = command.output().map_err(at(Path::new("cargo")))?;
        serde_json::from_slice(&output.stdout).map_err(|error| RunnerError::Cargo(error.to_string()))
    }

    fn find(&self, selector: &str) -> Result<Part, RunnerError> {
        let (named, module) =
            selector.split_once("::").map_or((selector, None), |(named, module)| (named, Some(module)));
        let module = module.map(str::to_owned);
        let named = named.trim_end_matches('/');
        let is_crate = |package: &&Package| {
            let short = package.name.strip_prefix(PREFIX).unwrap_or(&package.name);
            let directory =
                package.manifest_path.parent().and_then(|path| path.strip_prefix(&self.workspace_root).ok());
            [package.name.as_str(), short].contains(&named) || directory.is_some_and(|path| path == Path::new(named))
        };
        let short = |package: &Package| package.name.strip_prefix(PREFIX).unwrap_or(&package.name).to_owned();
        if let Some(package) = self.packages.iter().find(is_crate) {
            let tests = package.targets.iter().filter(|target| target.kind == ["test"]);
            let tests = tests.map(|target| target.name.clone()).collect();
            return Ok(Part { package: short(package), target: None, module, tests });
        }
        let is_target = |target: &Target| target.kind == ["test"] && target.name == named;
        let package = self.packages.iter().find(|package| package.targets.iter().any(is_target));
        let package = package.ok_or_else(|| {
            RunnerError::Usage(format!("{selector}: no crate, no folder of one and no test executable is called so"))
        })?;
        let target = named.to_owned();
        Ok(Part { package: short(package), target: Some(target.clone()), module, tests: vec![target] })
    }
}

/// Cargo's message "compiler-artifact", as far as it tells of an executable.
#[derive(Deserialize)]
struct Artifact {
    manifest_path: PathBuf,
    package_id: String,
    target: Target,
    profile: Profile,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

fn executable(artifact: Artifact) -> Option<Executable> {
    let path = artifact.executable.filter(|_| artifact.profile.test)?;
    let directory = artifact.manifest_path.parent()?.to_path_buf();
    // `path+file:///…/crates/tpm#latchkey-tpm@0.1.0`, or without the name where the directory has it.
    let package = artifact.package_id.rsplit('#').next()?.split('@').next()?;
    let package = package.strip_prefix(PREFIX).unwrap_or(package).to_owned();
    let unit = artifact.target.kind != ["test"];
    let name = artifact.target.name.replace('-', "_");
    let name = name.strip_prefix("latchkey_").unwrap_or(&name);
    // A program may have its library's name.
    let name = if artifact.target.kind == ["bin"] { format!("{name} program") } else { name.to_owned() };
    Some(Executable { package, name: if unit { format!("{name}{UNIT}") } else { name }, path, directory })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace() -> Workspace {
        serde_json::from_str(
            r#"{"workspace_root": "/w", "packages": [
                {"name": "latchkey-join-service", "manifest_path": "/w/services/join-service/Cargo.toml",
                 "targets": [{"name": "latchkey_join_service", "kind": ["lib"]}, {"name": "join_service", "kind": ["test"]}]},
                {"name": "latchkey-qemu-tests", "manifest_path": "/w/qemu-tests/Cargo.toml",
                 "targets": [{"name": "machines", "kind": ["test"]}]}]}"#,
        )
        .unwrap()
    }

    fn part(package: &str, target: Option<&str>, module: Option<&str>, tests: &[&str]) -> Part {
        let [target, module] = [target, module].map(|name| name.map(Into::into));
        Part { package: package.into(), target, module, tests: tests.iter().map(|&name| name.into()).collect() }
    }

    #[test]
    fn a_selector_is_a_crate_its_folder_or_an_executable() {
        let workspace = workspace();
        for crate_ in ["join-service", "services/join-service/", "latchkey-join-service"] {
            assert_eq!(
                workspace.find(crate_).unwrap(),
                part("join-service", None, None, &["join_service"]),
                "{crate_}"
            );
        }
        assert_eq!(
            workspace.find("machines::life").unwrap(),
            part("qemu-tests", Some("machines"), Some("life"), &["machines"])
        );
        let refused = workspace.find("nothing").unwrap_err().to_string();
        assert!(refused.starts_with("nothing: no crate"), "{refused}");
    }

    #[test]
    fn what_is_selected_is_all_that_cargo_builds() {
        let machines =
            Selection { parts: vec![part("qemu-tests", Some("machines"), None, &["machines"])], workspace: false };
        assert_eq!(machines.for_cargo(), ["--package", "latchkey-qemu-tests", "--test", "machines"]);
        let crate_ = Selection { parts: vec![part("tpm", None, None, &["tpm"])], workspace: false };
        assert_eq!(crate_.for_cargo(), ["--package", "latchkey-tpm"]);
        let all = Selection { parts: Vec::new(), workspace: false };
        assert_eq!(all.for_cargo(), ["--workspace"]);
        let parts = vec![part("api", None, Some("calls"), &["api", "bounded_memory"]), part("bench", None, None, &[])];
        let with_all_features = Selection { parts, workspace: true };
        let arguments = ["--workspace", "--lib", "--bins", "--test", "api", "--test", "bounded_memory"];
        assert_eq!(with_all_features.for_cargo(), arguments);
    }
}
