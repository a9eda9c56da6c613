//! The documents say what the code says.

use latchkey_attestation::ReasonCode;
use latchkey_docs_check::names::Names;
use latchkey_docs_check::{Workspace, codes, layers, left_out, limits};

#[test]
fn every_test_file_and_link_that_a_document_names_exists() {
    let workspace = Workspace::here().unwrap();
    let (names, documents) = (Names::of(&workspace).unwrap(), workspace.documents().unwrap());
    assert!(documents.contains_key("SECURITY.md") && documents.contains_key("docs/threats.md"), "{documents:?}");
    let wrong: Vec<_> = documents.iter().flat_map(|(document, text)| names.wrong(document, text)).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn crates_depend_downwards_only_as_it_is_drawn() {
    let workspace = Workspace::here().unwrap();
    let document = workspace.read("ARCHITECTURE.md").unwrap();
    let wrong = layers::wrong(&workspace, &layers::table(&document).unwrap());
    assert!(wrong.is_empty(), "ARCHITECTURE.md, layers:\n{}", wrong.join("\n"));
}

#[test]
fn no_test_is_left_out_by_a_manifest() {
    let wrong = left_out::wrong(&Workspace::here().unwrap()).unwrap();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn no_test_before_a_real_api_server_is_left_out_by_its_recipe() {
    let wrong = left_out::by_the_recipe(&Workspace::here().unwrap()).unwrap();
    assert!(wrong.is_empty(), "dev:\n{}", wrong.join("\n"));
}

#[test]
fn the_list_of_reason_codes_is_the_one_in_the_code() {
    let workspace = Workspace::here().unwrap();
    let written = codes::document(&codes::sets(&workspace).unwrap());
    assert!(workspace.read(codes::DOCUMENT).unwrap() == written, "`./dev docs` writes {}", codes::DOCUMENT);
}

#[test]
fn codes_are_never_renamed_or_removed() {
    let workspace = Workspace::here().unwrap();
    let wrong = codes::differences(&workspace.read(codes::FROZEN).unwrap(), &codes::sets(&workspace).unwrap());
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn codes_are_read_from_the_source_as_the_compiler_reads_them() {
    let sets = codes::sets(&Workspace::here().unwrap()).unwrap();
    let read = sets.iter().find(|set| set.package == "attestation" && set.name == "ReasonCode").unwrap();
    let read: Vec<_> = read.codes.iter().map(|row| (row.code.as_str(), row.remedy.as_str())).collect();
    let there: Vec<_> = ReasonCode::ALL.iter().map(|code| (code.as_str(), code.remedy())).collect();
    assert_eq!(read, there);
}

#[test]
fn limits_in_the_document_are_those_in_the_code() {
    let workspace = Workspace::here().unwrap();
    let text = workspace.read(limits::DOCUMENT).unwrap();
    let written = limits::written(&workspace, &text).unwrap();
    let differ: Vec<_> = text.lines().zip(written.lines()).filter(|(is, should)| is != should).collect();
    assert!(text == written, "`./dev docs` writes {}: {differ:#?}", limits::DOCUMENT);
}

/// `deny.toml` cannot say who may ask for a feature of a crate.
#[test]
fn no_program_but_the_join_service_has_more_of_tokio_than_its_traits() {
    let centre = [
        "latchkey-auth",
        "latchkey-config-db",
        "latchkey-directory",
        "latchkey-git-server",
        "latchkey-cluster-manager",
    ];
    for program in ["latchkey-agent", "latchkey-cli", "latchkey-key-service"].into_iter().chain(centre) {
        assert_eq!(of_a_runtime(program), [""; 0], "{program}");
    }
    let found = of_a_runtime("latchkey-join-service");
    assert!(found.iter().any(|what| what == "tokio: rt"), "what is looked for would not be found: {found:?}");
}

/// What a program links of an asynchronous runtime that is not smol. hyper itself has none.
fn of_a_runtime(program: &str) -> Vec<String> {
    let mut cargo = std::process::Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(Workspace::here().expect("a workspace").root());
    cargo.args(["tree", "--locked", "--offline", "--package", program, "--edges", "normal"]);
    let output = cargo.args(["--prefix", "none", "--format", "{p} {f}"]).output().expect("cargo, which runs this");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).expect("names of crates");
    let crates = tree.lines().filter(|line| line.starts_with("kube") || line.starts_with("hyper-")).map(str::to_owned);
    let features = tree.lines().filter(|line| line.starts_with("tokio v")).filter_map(|line| line.split(' ').nth(2));
    let traits = ["bytes", "default", "io-util", "sync", "", "(*)"];
    let features = features.flat_map(|features| features.split(',')).filter(|feature| !traits.contains(feature));
    let features = features.map(|feature| format!("tokio: {feature}"));
    crates.chain(features).collect()
}
