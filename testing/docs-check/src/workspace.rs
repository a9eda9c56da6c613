//! The checkout: its packages, documents and sources.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::DocsError;

/// What cargo's packages are called before the name of the crate.
const PREFIX: &str = "latchkey-";

/// The checkout.
#[derive(Debug)]
pub struct Workspace {
    root: PathBuf,
    packages: Vec<Package>,
}

/// A crate of the workspace.
#[derive(Debug)]
pub struct Package {
    /// As documents call it: `join-service`.
    pub name: String,
    /// Where it is, absolute.
    pub directory: PathBuf,
    /// Crates of the workspace that it is built with, itself left out.
    pub uses: Vec<String>,
    /// Those that only its tests and benchmarks are built with.
    pub tests_use: Vec<String>,
    /// What cargo builds of it.
    pub targets: Vec<Target>,
}

/// A library, a program, a file of tests.
#[derive(Debug, Deserialize)]
pub struct Target {
    /// `lib`, `bin`, `test`, …
    pub kind: Vec<String>,
    /// Its first source, absolute.
    pub src_path: PathBuf,
    /// Whether `cargo test` runs the tests in its sources.
    pub test: bool,
    /// Whether it runs the examples in its documentation.
    pub doctest: bool,
}

impl Workspace {
    /// This checkout, as cargo sees it.
    ///
    /// # Errors
    /// Cargo does not run.
    pub fn here() -> Result<Self, DocsError> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let root = root.canonicalize().map_err(|source| DocsError::File { path: root, source })?;
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(&root).args(["metadata", "--format-version=1", "--no-deps", "--offline", "--locked"]);
        let output = cargo.output().map_err(|error| DocsError::Cargo(error.to_string()))?;
        if !output.status.success() {
            return Err(DocsError::Cargo(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        let metadata: Metadata =
            serde_json::from_slice(&output.stdout).map_err(|error| DocsError::Cargo(error.to_string()))?;
        let mut packages: Vec<_> = metadata.packages.into_iter().map(Package::from).collect();
        packages.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Self { root, packages })
    }

    /// The root of the checkout, absolute.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// All crates, by name.
    pub fn packages(&self) -> &[Package] {
        &self.packages
    }

    /// The crate of that name.
    pub fn package(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.name == name)
    }

    /// Where a crate lies, from the root: `services/join-service`.
    pub fn place(&self, package: &Package) -> String {
        package.directory.strip_prefix(&self.root).unwrap_or(&package.directory).to_string_lossy().into_owned()
    }

    /// Every document that speaks of the present: Markdown at the root and in `docs/`, without the changelog. By path from
    /// the root.
    ///
    /// # Errors
    /// A directory or document cannot be read.
    pub fn documents(&self) -> Result<BTreeMap<String, String>, DocsError> {
        let mut documents = BTreeMap::new();
        for (directory, deep) in [("", false), ("docs", true)] {
            for path in files(&self.root.join(directory), deep, "md")? {
                let name = path.strip_prefix(&self.root).unwrap_or(&path).to_string_lossy().into_owned();
                if name != "CHANGELOG.md" {
                    documents.insert(name, read(&path)?);
                }
            }
        }
        Ok(documents)
    }

    /// Reads a file, its path from the root.
    ///
    /// # Errors
    /// It is not there or no text.
    pub fn read(&self, path: &str) -> Result<String, DocsError> {
        read(&self.root.join(path))
    }
}

impl Package {
    /// Every Rust source of this crate, tests included: path and text.
    ///
    /// # Errors
    /// A directory or file cannot be read.
    pub fn sources(&self) -> Result<Vec<(PathBuf, String)>, DocsError> {
        let mut sources = Vec::new();
        for part in ["src", "tests", "benches"].map(|part| self.directory.join(part)) {
            if part.is_dir() {
                for path in files(&part, true, "rs")? {
                    let text = read(&path)?;
                    sources.push((path, text));
                }
            }
        }
        Ok(sources)
    }
}

/// Files of a directory with this ending, sorted.
fn files(directory: &Path, deep: bool, ending: &str) -> Result<Vec<PathBuf>, DocsError> {
    let failed = |source| DocsError::File { path: directory.into(), source };
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            if deep {
                found.extend(files(&path, deep, ending)?);
            }
        } else if path.extension().is_some_and(|end| end == ending) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn read(path: &Path) -> Result<String, DocsError> {
    fs::read_to_string(path).map_err(|source| DocsError::File { path: path.into(), source })
}

/// The part of `cargo metadata` that matters here.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<CargoPackage>,
}

#[derive(Deserialize)]
struct CargoPackage {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
    /// Only dependencies of the workspace have one.
    path: Option<PathBuf>,
}

fn short(name: &str) -> String {
    name.strip_prefix(PREFIX).unwrap_or(name).to_owned()
}

impl From<CargoPackage> for Package {
    fn from(package: CargoPackage) -> Self {
        let ours = |tests: bool| {
            let of_kind = |dependency: &&Dependency| (dependency.kind.as_deref() == Some("dev")) == tests;
            let here = package.dependencies.iter().filter(|dependency| dependency.path.is_some()).filter(of_kind);
            let mut names: Vec<_> = here.map(|dependency| short(&dependency.name)).collect();
            names.retain(|name| *name != short(&package.name));
            names.sort();
            names.dedup();
            names
        };
        Self {
            uses: ours(false),
            tests_use: ours(true),
            directory: package.manifest_path.parent().map(Path::to_path_buf).unwrap_or_default(),
            name: short(&package.name),
            targets: package.targets,
        }
    }
}
