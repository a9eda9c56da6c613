//! Whether every test is run. `test = false` and `doctest = false` in a manifest spare an executable that has no tests, and the recipe of
//! tests before a real API server names the modules that have some: a test that is written later must not be left out in silence.

use std::path::{Path, PathBuf};

use crate::{DocsError, Package, Target, Workspace, scan};

/// Every source with tests or examples that no target of its crate runs.
///
/// # Errors
/// A source cannot be read.
pub fn wrong(workspace: &Workspace) -> Result<Vec<String>, DocsError> {
    let mut wrong = Vec::new();
    for package in workspace.packages() {
        let sources = package.sources()?;
        for (path, text) in &sources {
            let Some(target) = target_of(package, path, &sources) else { continue };
            let place = path.strip_prefix(workspace.root()).unwrap_or(path).display();
            if !target.test && scan::tests(text).next().is_some() {
                wrong.push(format!("{place} has tests, and the manifest says `test = false`"));
            }
            if !target.doctest && is_library(target) && scan::has_example(text) {
                wrong.push(format!("{place} has an example to run, and the manifest says `doctest = false`"));
            }
        }
    }
    Ok(wrong)
}

/// Every source with tests before a real API server that `./dev e2e api-server` does not run. Its list in `dev` has crates, and modules as
/// `CRATE::MODULE`; of whatever stands there all modules below are run, too.
///
/// # Errors
/// A source or `dev` cannot be read.
pub fn by_the_recipe(workspace: &Workspace) -> Result<Vec<String>, DocsError> {
    const BEGIN: &str = "local api_server=(";
    let script = workspace.read("dev")?;
    let listed = script.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(')')).map_or("", |(list, _)| list);
    let listed: Vec<&str> = listed.split_whitespace().collect();
    let is_run = |name: &str| {
        let is_below = |rest: &str| rest.is_empty() || rest.starts_with("::");
        listed.iter().any(|one| name.strip_prefix(one).is_some_and(is_below))
    };
    let mut wrong = Vec::new();
    for package in workspace.packages() {
        for (path, text) in package.sources()? {
            let is_one =
                |line: &str| line.trim_start().starts_with("#[ignore") && line.contains("./dev e2e api-server");
            let name = module_of(package, &path);
            if text.lines().any(is_one) && !is_run(&name) {
                wrong.push(format!("{name} has tests that `./dev e2e api-server` does not run"));
            }
        }
    }
    Ok(wrong)
}

/// A source's module, as the recipe names it.
fn module_of(package: &Package, source: &Path) -> String {
    let inside = source.strip_prefix(&package.directory).unwrap_or(source).with_extension("");
    let mut parts: Vec<_> = inside.iter().filter_map(|part| part.to_str()).collect();
    // `src/a.rs` is the library's or program's, `tests/x/a.rs` that of the executable x.
    let outside = if parts.first() == Some(&"tests") { 2 } else { 1 };
    parts.drain(..outside.min(parts.len()));
    parts.retain(|part| !["mod", "main", "lib"].contains(part));
    [&[package.name.as_str()], &parts[..]].concat().join("::")
}

/// The library or program that a source in `src` is of: a program's are its first one, the modules that this declares, and below
/// `src/bin` all beside it.
fn target_of<'a>(package: &'a Package, source: &Path, sources: &[(PathBuf, String)]) -> Option<&'a Target> {
    let module = source.strip_prefix(package.directory.join("src")).ok()?;
    let module = module.iter().next()?.to_str()?.trim_end_matches(".rs");
    let is_first = |target: &&Target| target.src_path == source;
    let declares = |target: &&Target| {
        let first = sources.iter().find(|(path, _)| *path == target.src_path);
        let line = format!("mod {module};");
        target.kind == ["bin"] && first.is_some_and(|(_, text)| text.lines().any(|one| one.trim_start() == line))
    };
    let beside = |target: &&Target| {
        let of_its_own =
            target.src_path.ends_with("main.rs") && target.src_path.parent() != Some(&package.directory.join("src"));
        of_its_own && target.src_path.parent().is_some_and(|directory| source.starts_with(directory))
    };
    let targets = || package.targets.iter();
    let library = || targets().find(|target| is_library(target));
    let only = || targets().find(|target| target.kind == ["bin"]);
    let of_a_program = || targets().find(beside).or_else(|| targets().find(declares));
    targets().find(is_first).or_else(of_a_program).or_else(library).or_else(only)
}

fn is_library(target: &Target) -> bool {
    target.kind.iter().any(|kind| kind.ends_with("lib"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(kind: &str, source: &str, test: bool) -> Target {
        Target { kind: vec![kind.into()], src_path: source.into(), test, doctest: false }
    }

    fn package() -> Package {
        Package {
            name: "x".into(),
            directory: "/x".into(),
            uses: Vec::new(),
            tests_use: Vec::new(),
            targets: vec![
                target("lib", "/x/src/lib.rs", true),
                target("bin", "/x/src/main.rs", false),
                target("bin", "/x/src/bin/y/main.rs", false),
            ],
        }
    }

    #[test]
    fn the_recipe_names_modules_as_they_are_below_their_crate() {
        let of = |source: &str| module_of(&package(), source.as_ref());
        assert_eq!((of("/x/src/a/mod.rs"), of("/x/src/lib.rs")), ("x::a".to_owned(), "x".to_owned()));
        assert_eq!((of("/x/tests/x/a/b.rs"), of("/x/tests/x/main.rs")), ("x::a::b".to_owned(), "x".to_owned()));
    }

    #[test]
    fn a_source_is_of_the_library_but_for_programs() {
        let package = package();
        let sources = [("/x/src/main.rs".into(), "mod child;\nfn main() {}\n".to_owned())];
        let of = |source: &str| {
            target_of(&package, source.as_ref(), &sources).map(|target| target.src_path.to_str().unwrap())
        };
        assert_eq!(of("/x/src/deep/a.rs"), Some("/x/src/lib.rs"));
        assert_eq!(of("/x/src/main.rs"), Some("/x/src/main.rs"));
        assert_eq!((of("/x/src/child.rs"), of("/x/src/child/a.rs")), (Some("/x/src/main.rs"), Some("/x/src/main.rs")));
        assert_eq!(of("/x/src/bin/y/part.rs"), Some("/x/src/bin/y/main.rs"));
        assert_eq!(of("/x/tests/x.rs"), None);
    }
}
