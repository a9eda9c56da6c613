//! Whether crates depend downwards only, as ARCHITECTURE.md draws it.

use std::collections::BTreeMap;

use crate::Workspace;

/// The mark before the table of layers, and the one after it.
pub const MARKS: [&str; 2] = ["<!-- layers: begin -->", "<!-- layers: end -->"];

/// Reads the table of layers: each row's first backquoted names are crates; the first row is the highest layer.
pub fn table(document: &str) -> Option<BTreeMap<&str, usize>> {
    let (_, rest) = document.split_once(MARKS[0])?;
    let (rows, _) = rest.split_once(MARKS[1])?;
    let rows: Vec<&str> = rows.lines().filter(|line| line.starts_with('|')).skip(2).collect();
    let mut layers = BTreeMap::new();
    for (below, row) in rows.iter().rev().enumerate() {
        let crates = row.split('|').nth(2)?;
        for name in crates.split('`').skip(1).step_by(2) {
            layers.insert(name, below);
        }
    }
    Some(layers)
}

/// Every crate that the table lacks, every name in it that is no crate, and every dependency that does not lead to a lower
/// layer. What only tests and benchmarks use may be of any layer below that of the crates that only test (the highest).
pub fn wrong(workspace: &Workspace, layers: &BTreeMap<&str, usize>) -> Vec<String> {
    let mut wrong = Vec::new();
    for name in layers.keys().filter(|name| workspace.package(name).is_none()) {
        wrong.push(format!("{name} is in the table, and no crate"));
    }
    let highest = layers.values().copied().max().unwrap_or_default();
    for package in workspace.packages() {
        let Some(layer) = layers.get(package.name.as_str()) else {
            wrong.push(format!("{} is in no layer", package.name));
            continue;
        };
        let upwards = package.uses.iter().filter(|used| layers.get(used.as_str()).is_none_or(|used| used >= layer));
        wrong.extend(upwards.map(|used| format!("{} depends upwards on {used}", package.name)));
        let tests =
            package.tests_use.iter().filter(|used| layers.get(used.as_str()).is_none_or(|used| *used >= highest));
        wrong.extend(tests.map(|used| format!("the tests of {} use {used}, which only tests others", package.name)));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWING: &str = "x\n<!-- layers: begin -->\n| l | c | d |\n|---|---|---|\n| 2 | `docs-check` | |\n| 1 | `cli`, `reason` | |\n<!-- layers: end -->";

    #[test]
    fn the_first_row_is_the_highest_layer() {
        let layers = table(DRAWING).unwrap();
        assert_eq!(layers.into_iter().collect::<Vec<_>>(), [("cli", 0), ("docs-check", 1), ("reason", 0)]);
    }

    #[test]
    fn a_crate_that_depends_on_its_own_layer_or_a_higher_one_is_told() {
        let workspace = Workspace::here().unwrap();
        let told = wrong(&workspace, &BTreeMap::from([("attestation", 0), ("channel", 0), ("nobody", 0)]));
        assert!(told.contains(&"channel depends upwards on attestation".to_owned()), "{told:?}");
        assert!(told.contains(&"nobody is in the table, and no crate".to_owned()), "{told:?}");
        assert!(told.contains(&"keys is in no layer".to_owned()), "{told:?}");
    }
}
