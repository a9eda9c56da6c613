//! What ships: without the stand-ins that tests use, without switches in the environment, without its builder's paths.
//!
//! The agent is looked at as the very file that ships. Of the other programs what `./dev test` looks at is a build without
//! optimisation: of the same sources and features, with more names in it than theirs have. `./dev e2e release` builds the services
//! and the command line in their profile, with symbols left in, and looks at those, too; that takes minutes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use latchkey_qemu_tests::{build, process};
use memchr::memmem;

/// Names of test code: software TPMs, an AMD that is none, the rig around swtpm, what waits in tests, hostile peers, the thief. As
/// they stand in symbols and strings.
const TEST_CODE: [&str; 16] = [
    "FakeVerifier",
    "fake_tpm",
    "FakeTpm",
    "fake_amd",
    "FakeAmd",
    "fake_intel",
    "FakeIntel",
    "fake_processor",
    "fake-roots",
    "swtpm",
    "test_rig",
    "latchkey_test_support",
    "latchkey_bench",
    "THIEF",
    "FakeKubeadm",
    "elf_sample",
];
/// Parts of the names of features that only tests switch on.
const TEST_FEATURES: [&str; 4] = ["fake", "rig", "sample", "test"];
const PACKAGES: [&str; 15] = [
    "latchkey-agent",
    "latchkey-cli",
    "latchkey-join-service",
    "latchkey-key-service",
    "latchkey-auth",
    "latchkey-cluster-manager",
    "latchkey-config-db",
    "latchkey-directory",
    "latchkey-edge-monitor",
    "latchkey-edge-sync",
    "latchkey-enrol-service",
    "latchkey-git-server",
    "latchkey-kerberos-helper",
    "latchkey-krb-keys",
    "latchkey-mosquitto-plugin",
];
/// Where product code reads the environment. Stage 2 of the agent asks how its unit ended, in a call that systemd makes for
/// that. The others are the command's: how to print (`NO_COLOR`, `TERM`), where programs and temporary files are (`PATH`,
/// `TMPDIR`), and the time that a reproducible build states.
const READ_THE_ENVIRONMENT: [&str; 9] = [
    "agent/src/stage2/ended.rs",
    // Who holds a lock, for people; what is taken away from stock programs, or refused; where those are.
    "cli/src/lock/mod.rs",
    "cli/src/output/mod.rs",
    "cli/src/stock/call.rs",
    "cli/src/stock/helm.rs",
    "cli/src/stock/program.rs",
    // Where a pod finds the API server.
    "crates/kubernetes-client/src/pod.rs",
    "image/src/program.rs",
    "initramfs/src/layout.rs",
];
/// Names of ours in the environment: a cluster step is told its name, and a bootstrap script, which the command line carries for new
/// centres, may be told how long it waits. No program reads one.
const OUR_NAMES: [&str; 2] = ["LATCHKEY_LIMIT", "LATCHKEY_STEP"];

/// A program, and its bytes.
type Program = (PathBuf, Vec<u8>);

fn read(programs: impl IntoIterator<Item = PathBuf>) -> Vec<Program> {
    let read = |program: PathBuf| {
        let bytes = std::fs::read(&program).unwrap();
        assert!(contains(&bytes, "latchkey"), "{} is looked at the wrong way", program.display());
        (program, bytes)
    };
    programs.into_iter().map(read).collect()
}

/// The agent as it ships, the others as tests build them.
fn programs() -> Vec<Program> {
    read([build::agent().unwrap()].into_iter().chain(build::programs().unwrap()))
}

/// The services and the command line in the profile that ships.
fn shipped() -> Vec<Program> {
    read(["latchkey", "latchkey-join-service", "latchkey-key-service"].map(|binary| build::shipped(binary).unwrap()))
}

fn contains(binary: &[u8], name: &str) -> bool {
    memmem::find(binary, name.as_bytes()).is_some()
}

/// Everything in a binary that begins so and goes on with capitals and underscores.
fn names(binary: &[u8], start: &str) -> BTreeSet<String> {
    let end = |at: usize| {
        let rest = binary[at..].iter().take_while(|byte| byte.is_ascii_uppercase() || **byte == b'_');
        String::from_utf8_lossy(&rest.copied().collect::<Vec<_>>()).into_owned()
    };
    memmem::find_iter(binary, start).map(end).collect()
}

/// The crates that a package is made of, as `name vVERSION (directory)`, with their features.
fn crates(arguments: &[&str]) -> BTreeSet<(String, String)> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(build::workspace()).args(["tree", "--edges", "normal", "--prefix", "none", "--offline"]);
    let listing = process::output(cargo.args(["--format", "{p}|{f}"]).args(arguments)).unwrap();
    let ours = listing.lines().filter(|line| line.starts_with("latchkey-"));
    ours.filter_map(|line| line.trim_end_matches(" (*)").split_once('|'))
        .map(|(package, features)| (package.to_owned(), features.to_owned()))
        .collect()
}

fn test_features(crates: &BTreeSet<(String, String)>) -> Vec<String> {
    let of_tests = |feature: &&str| TEST_FEATURES.iter().any(|part| feature.contains(part));
    let all = crates.iter().flat_map(|(_, features)| features.split(','));
    all.filter(of_tests).map(str::to_owned).collect()
}

/// Neither names of test code, nor variables of ours in the environment.
fn ships_nothing_of_tests(programs: &[Program]) {
    for (program, binary) in programs {
        for name in TEST_CODE {
            assert!(!contains(binary, name), "{} contains {name}", program.display());
        }
        let ours = names(binary, "LATCHKEY_");
        let others: Vec<_> = ours.iter().filter(|name| !OUR_NAMES.contains(&name.as_str())).collect();
        assert!(others.is_empty(), "{}: {others:?}", program.display());
    }
}

#[test]
fn no_test_code_and_no_switch_is_in_what_ships() {
    ships_nothing_of_tests(&programs());
}

#[test]
#[ignore = "builds the services as they ship, which takes minutes; ./dev e2e release"]
fn no_test_code_and_no_path_is_in_the_services_in_their_profile() {
    let programs = shipped();
    ships_nothing_of_tests(&programs);
    names_no_path(&programs);
}

#[test]
fn no_test_feature_is_on_in_what_ships() {
    for package in PACKAGES {
        let crates = crates(&["--package", package]);
        assert!(crates.iter().any(|(name, _)| name.starts_with(&format!("{package} "))), "{package}: {crates:?}");
        let helper = crates.iter().find(|(name, _)| {
            ["latchkey-test-support", "-rig ", "latchkey-bench"].iter().any(|helper| name.contains(helper))
        });
        assert_eq!((test_features(&crates), helper), (Vec::new(), None), "{package}");
    }
    let rig = crates(&["--package", "latchkey-channel", "--features", "test-rig"]);
    assert!(!test_features(&rig).is_empty(), "the look finds nothing: {rig:?}");
}

#[test]
fn the_environment_switches_nothing_in_what_ships() {
    let root = build::workspace();
    let packages = PACKAGES.iter().flat_map(|package| crates(&["--package", package]));
    let directories =
        packages.filter_map(|(name, _)| Some(PathBuf::from(name.split_once('(')?.1.trim_end_matches(')')).join("src")));
    let mut reading = BTreeSet::new();
    for directory in directories.collect::<BTreeSet<_>>() {
        reads(&directory, &mut reading);
    }
    let reading: Vec<_> = reading.iter().map(|path| path.strip_prefix(&root).unwrap().to_str().unwrap()).collect();
    assert_eq!(reading, READ_THE_ENVIRONMENT);
}

/// Sources that read the environment, without those of tests and of rigs.
fn reads(directory: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            if name != "tests" {
                reads(&path, found);
            }
        } else if path.extension().is_some_and(|end| end == "rs") && name != "rig.rs" && !name.contains("test") {
            let text = std::fs::read_to_string(&path).unwrap();
            if ["env::var", "var_os(", "getenv("].iter().any(|word| code(&text).contains(word)) {
                found.insert(path);
            }
        }
    }
}

/// A source without its comments.
fn code(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_agent_names_no_path_of_its_builder() {
    names_no_path(&read([build::agent().unwrap()]));
}

fn names_no_path(programs: &[Program]) {
    let home = std::env::var("CARGO_HOME").ok();
    let home = home.or_else(|| Some(format!("{}/.cargo", std::env::var("HOME").ok()?)));
    let mut paths = vec!["/.cargo/".to_owned(), "/registry/src/".to_owned(), "/.rustup/".to_owned()];
    paths.extend(
        [build::workspace(), build::target_directory()]
            .map(|path| path.canonicalize().unwrap())
            .map(|path| path.to_str().unwrap().to_owned()),
    );
    paths.extend(home);
    for (program, binary) in programs {
        for path in &paths {
            assert!(!contains(binary, path), "{} names {path}", program.display());
        }
        // The look sees paths: those that stand for the builder's are there.
        assert!(contains(binary, "/cargo/h2-"), "{} names no source at all", program.display());
    }
}

#[test]
fn the_look_finds_what_it_looks_for() {
    let thief = std::fs::read(build::guest("thief").unwrap()).unwrap();
    assert!(contains(&thief, "THIEF"));
    assert_eq!(
        names(b"xLATCHKEY_A_B7LATCHKEY_Cd", "LATCHKEY_").into_iter().collect::<Vec<_>>(),
        ["LATCHKEY_A_B", "LATCHKEY_C"]
    );
}
