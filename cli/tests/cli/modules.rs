//! The modules of the command line are layers: none needs a module that needs it, and what a command found is a type.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Which modules of the crate's root each of them names.
type Needs = BTreeMap<String, BTreeSet<String>>;

fn read(path: &Path, module: &str, needs: &mut Needs) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            read(&entry.unwrap().path(), module, needs);
        }
        return;
    }
    let text = fs::read_to_string(path).unwrap();
    let word =
        |text: &str| text.trim().split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap().to_owned();
    let named = text.split("crate::").skip(1).flat_map(|rest| match rest.strip_prefix('{') {
        None => vec![word(rest)],
        Some(several) => several.split('}').next().unwrap().split(',').map(word).collect(),
    });
    let named = named.filter(|name| !name.is_empty() && name != module);
    needs.entry(module.to_owned()).or_default().extend(named);
}

#[test]
fn no_module_needs_one_that_needs_it() {
    let mut needs = Needs::new();
    for entry in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src")).unwrap() {
        let path = entry.unwrap().path();
        let module = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if module != "lib" && module != "main" {
            read(&path, &module, &mut needs);
        }
    }
    assert!(needs.len() > 20 && needs["verify"].contains("trust"), "{needs:?}");
    // Whatever needs nothing that is left can be taken away, until nothing is left but circles.
    while let Some(free) = needs.iter().find(|(_, names)| names.is_empty()).map(|(module, _)| module.clone()) {
        needs.remove(&free);
        for names in needs.values_mut() {
            names.retain(|name| *name != free);
        }
    }
    assert!(needs.is_empty(), "modules that need each other: {needs:?}");
}

/// A command computes a typed report and prints it: it has nothing to read back from its own JSON.
#[test]
fn no_command_works_on_untyped_json() {
    let mut files = vec![PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))];
    let mut read = 0;
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        // Tests are no commands.
        if path.file_name().unwrap() == "tests.rs" {
            continue;
        }
        // Names in certificates have values of their own, which are typed.
        let text = fs::read_to_string(&path).unwrap().replace("DnValue::", "");
        for word in ["serde_json::Value", "json!(", "serde_json::{", "Value::"] {
            assert!(!text.contains(word), "{}: {word}", path.display());
        }
        read += 1;
    }
    assert!(read > 40, "{read}");
}
