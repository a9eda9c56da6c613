//! Whether crates depend downwards only: the folder of a crate is its layer, and ARCHITECTURE.md says what each folder may
//! depend on.

use crate::{Package, Workspace};

/// The mark before the table of layers, and the one after it.
pub const MARKS: [&str; 2] = ["<!-- layers: begin -->", "<!-- layers: end -->"];
/// What the table says of a folder whose crates may use any other.
const EVERYTHING: &str = "everything";
/// Crates that test all others as users see them, or read them: nothing depends on these, no tests either.
const NOBODY_USES: [&str; 2] = ["qemu-tests", "docs-check"];

/// A row of the table.
#[derive(Debug, PartialEq, Eq)]
pub struct Layer<'a> {
    /// A folder of the checkout, such as `services`.
    folder: &'a str,
    /// Folders, and single crates in one, such as `centre/site`. `None`: everything.
    may_use: Option<Vec<&'a str>>,
}

/// Reads the table: a folder between backquotes, and in the next column what it may depend on. `None` if there is none.
pub fn table(document: &str) -> Option<Vec<Layer<'_>>> {
    let (_, rest) = document.split_once(MARKS[0])?;
    let (rows, _) = rest.split_once(MARKS[1])?;
    let rows = rows.lines().filter(|line| line.starts_with('|')).skip(2);
    let layers = rows.map(|row| {
        let mut cells = row.split('|').skip(1);
        let (folders, may_use) = (quoted(cells.next()?), cells.next()?);
        let may_use = (!may_use.contains(EVERYTHING)).then(|| quoted(may_use));
        Some(folders.into_iter().map(move |folder| Layer { folder, may_use: may_use.clone() }).collect::<Vec<_>>())
    });
    Some(layers.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect())
}

/// What stands between backquotes in a cell, without the slash at its end.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).map(|name| name.trim_end_matches('/')).collect()
}

/// Every crate of a folder that the table lacks, every folder in it that has none, and every dependency that the table does
/// not allow. Tests and benchmarks may use any crate but those that only test.
pub fn wrong(workspace: &Workspace, layers: &[Layer<'_>]) -> Vec<String> {
    let mut wrong = Vec::new();
    let packages = || workspace.packages().iter().map(|package| (package, workspace.place(package)));
    for Layer { folder, may_use } in layers {
        for named in [*folder].into_iter().chain(may_use.iter().flatten().copied()) {
            if !packages().any(|(_, place)| below(&place, named)) {
                wrong.push(format!("{named} is in the table, and has no crate"));
            }
        }
    }
    for (package, place) in packages() {
        let Some(layer) = layers.iter().find(|layer| below(&place, layer.folder)) else {
            wrong.push(format!("{place} is in no folder of the table"));
            continue;
        };
        for used in &package.uses {
            let used = workspace.package(used).map_or_else(|| used.clone(), |package| workspace.place(package));
            let allowed = layer.may_use.as_ref().is_none_or(|may| may.iter().any(|folder| below(&used, folder)));
            if !allowed {
                wrong.push(format!("{place} depends on {used}, which {} may not", layer.folder));
            }
        }
        wrong.extend(tests_that_use_tests(package).map(|used| format!("{place} uses {used}, which only tests others")));
    }
    wrong
}

fn tests_that_use_tests(package: &Package) -> impl Iterator<Item = &String> {
    package.uses.iter().chain(&package.tests_use).filter(|used| NOBODY_USES.contains(&used.as_str()))
}

/// By whole names: `centre/site-2` does not lie in `centre/site`.
fn below(place: &str, folder: &str) -> bool {
    place.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWING: &str = "x\n<!-- layers: begin -->\n| room | may depend on | d |\n|---|---|---|\n| `cli/` | `crates/`, `centre/site` | `x` |\n| `testing/`, `qemu-tests/` | everything | |\n<!-- layers: end -->";

    #[test]
    fn a_row_says_what_a_folder_may_depend_on() {
        let cli = Layer { folder: "cli", may_use: Some(vec!["crates", "centre/site"]) };
        let [testing, machines] = ["testing", "qemu-tests"].map(|folder| Layer { folder, may_use: None });
        assert_eq!(table(DRAWING).unwrap(), [cli, testing, machines]);
        assert_eq!(table("no table"), None);
    }

    #[test]
    fn a_dependency_that_no_row_allows_is_told() {
        let workspace = Workspace::here().unwrap();
        let layers = [
            Layer { folder: "crates", may_use: Some(vec!["crates/reason", "nowhere"]) },
            Layer { folder: "cli", may_use: None },
        ];
        let told = wrong(&workspace, &layers);
        assert!(
            told.contains(&"crates/channel depends on crates/attestation, which crates may not".to_owned()),
            "{told:?}"
        );
        assert!(!told.iter().any(|line| line.contains("on crates/reason")), "{told:?}");
        assert!(told.contains(&"nowhere is in the table, and has no crate".to_owned()), "{told:?}");
        assert!(told.contains(&"agent is in no folder of the table".to_owned()), "{told:?}");
    }

    #[test]
    fn a_folder_is_not_another_one_that_begins_alike() {
        assert!(below("centre/site", "centre") && below("centre/site", "centre/site"));
        assert!(!below("centre/site-2", "centre/site") && !below("centre", "centre/site"));
    }
}
