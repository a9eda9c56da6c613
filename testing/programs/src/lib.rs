//! For tests: the project's own programs, built the way a user builds them.
//!
//! Cargo is asked once for each set of programs in a process. In a run of the test runner ([`RUN`]) it is asked once in the whole
//! run: the programs are copied into the run's directory, and no build of another process replaces one while it is used.

mod cargo;
mod error;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use latchkey_test_support::{calls_cargo, output, output_within};

pub use cargo::RUN;
use cargo::{COMPILE, Set, cargo_build};
pub use error::BuildError;
use error::failed_to;

const MUSL: &str = "x86_64-unknown-linux-musl";
const GLIBC: &str = "x86_64-unknown-linux-gnu";
/// Makes a program of that target static.
const GLIBC_STATIC: &str = "target.x86_64-unknown-linux-gnu.rustflags=[\"-C\",\"target-feature=+crt-static\"]";
/// Where the programs are.
const PROGRAM_PACKAGES: [&str; 3] = ["latchkey-cli", "latchkey-join-service", "latchkey-key-service"];
/// They themselves.
const PROGRAMS: [&str; 3] = ["latchkey", "latchkey-join-service", "latchkey-key-service"];
/// The centre's programs, which the command line looks for beside itself; one of them is a library, mosquitto's plugin.
const CENTRE_PACKAGES: [&str; 8] = [
    "latchkey-auth",
    "latchkey-cluster-manager",
    "latchkey-config-db",
    "latchkey-directory",
    "latchkey-enrol-service",
    "latchkey-git-server",
    "latchkey-kerberos-helper",
    "latchkey-mosquitto-plugin",
];
/// What runs at an edge.
const EDGE_PACKAGES: [&str; 3] = ["latchkey-edge-monitor", "latchkey-edge-sync", "latchkey-krb-keys"];

/// Where cargo puts what it builds.
pub fn target_directory() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from)
}

/// The root of the checkout.
pub fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).into()
}

/// Builds what most tests of machines and centres need into a directory, which is then their [`RUN`]. Two calls of cargo work at a
/// time: for the nodes, and for this machine.
///
/// # Errors
/// [`BuildError`].
pub fn prepare_in(run: &Path) -> Result<(), BuildError> {
    std::thread::scope(|scope| {
        let of_nodes = scope.spawn(|| {
            agent_set().kept_in(run, true)?;
            guest_set().kept_in(run, true).map(drop)
        });
        let here = on_this_machine().kept_in(run, true);
        let here = here.and_then(|_| fake_vendors().kept_in(run, true).map(drop));
        of_nodes.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).and(here)
    })
}

/// Builds the agent and the programs of a cluster, with cargo's progress on standard error.
///
/// # Errors
/// [`BuildError`].
pub fn prepare_shown() -> Result<(), BuildError> {
    let shown = |set: Set| Set { shown: true, ..set }.built().map(drop);
    std::thread::scope(|scope| {
        let agent =
            scope.spawn(|| if std::env::var_os("LATCHKEY_AGENT").is_some() { Ok(()) } else { shown(agent_set()) });
        let programs = shown(of_a_cluster());
        agent.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).and(programs)
    })
}

/// The agent that ships. `LATCHKEY_AGENT` names another one to test.
///
/// # Errors
/// [`BuildError`].
pub fn agent() -> Result<PathBuf, BuildError> {
    if let Some(path) = std::env::var_os("LATCHKEY_AGENT") {
        return Ok(path.into());
    }
    if !has_musl() {
        eprintln!("notice: no Rust target {MUSL} (rustup target add {MUSL}); the agent is static glibc, and larger");
    }
    agent_set().built()?.program("latchkey-agent")
}

fn agent_set() -> Set {
    static_set("agent", &["--release", "--package", "latchkey-agent", "--bin", "latchkey-agent"])
}

/// A test program for the inside of a machine, linked as the agent is. `LATCHKEY_GUESTS` names a directory with other ones.
///
/// # Errors
/// [`BuildError`].
pub fn guest(binary: &str) -> Result<PathBuf, BuildError> {
    if let Some(directory) = std::env::var_os("LATCHKEY_GUESTS") {
        return Ok(Path::new(&directory).join(binary));
    }
    guest_set().built()?.program(binary)
}

fn guest_set() -> Set {
    let target = if has_musl() { MUSL } else { GLIBC };
    // Together with the agent, so that what both are made of has the same features, and is compiled once.
    let packages = ["--release", "--package", "latchkey-agent", "--package", "latchkey-guests", "--bins"];
    let arguments = [&packages[..], &["--target", target]].concat();
    Set { name: "guests".into(), arguments, shown: false, instead_of: None }
}

/// A program that images carry beside the agent, static like it. Its package has its name.
///
/// # Errors
/// [`BuildError`].
pub fn for_nodes(program: &'static str) -> Result<PathBuf, BuildError> {
    static_program("release", program, program)
}

/// A program of a centre or an edge as users get it: static, in the profile that ships.
///
/// # Errors
/// [`BuildError`].
pub fn as_shipped(package: &'static str, program: &str) -> Result<PathBuf, BuildError> {
    static_program(profile_of(package), package, program)
}

/// The profile that a service or the command line ships in.
fn profile_of(package: &str) -> &'static str {
    if package == "latchkey-join-service" { "verifier" } else { "service" }
}

fn static_program(profile: &'static str, package: &'static str, program: &str) -> Result<PathBuf, BuildError> {
    let name = format!("{profile}-{package}");
    static_set(&name, &["--profile", profile, "--package", package, "--bins"]).built()?.program(program)
}

fn static_set(name: &str, arguments: &[&'static str]) -> Set {
    let linked = if has_musl() { &["--target", MUSL][..] } else { &["--target", GLIBC, "--config", GLIBC_STATIC] };
    Set { name: name.into(), arguments: [arguments, linked].concat(), shown: false, instead_of: None }
}

/// The directory of all programs of a centre and its edges as users get them, mosquitto's plugin and the Kerberos helper too.
///
/// # Errors
/// [`BuildError`].
pub fn centre_packaged() -> Result<PathBuf, BuildError> {
    let packages = ["latchkey-cli"].iter().chain(&CENTRE_PACKAGES).chain(&EDGE_PACKAGES);
    let packages = packages.flat_map(|package| ["--package", package]);
    let arguments = ["--profile", "service", "--bins", "--lib"].into_iter().chain(packages);
    let latchkey = cargo_build(&arguments.collect::<Vec<_>>(), false)?.program("latchkey")?;
    Ok(latchkey.parent().unwrap_or_else(|| Path::new("/")).to_owned())
}

/// A program of the workspace that runs on this machine (a service, the command line).
///
/// # Errors
/// [`BuildError`].
pub fn program(binary: &str) -> Result<PathBuf, BuildError> {
    let of_a_cluster_alone = PROGRAMS.contains(&binary) && std::env::var_os(RUN).is_none();
    if of_a_cluster_alone { of_a_cluster() } else { on_this_machine() }.built()?.program(binary)
}

/// What a cluster needs, without a centre and edges.
fn of_a_cluster() -> Set {
    let packages = PROGRAM_PACKAGES.iter().flat_map(|package| ["--package", package]).chain(["--bins"]).collect();
    Set { name: "cluster".into(), arguments: packages, shown: false, instead_of: None }
}

/// Every such program: the command line, the services, and what tests run of a centre and of an edge.
///
/// # Errors
/// [`BuildError`].
pub fn programs() -> Result<Vec<PathBuf>, BuildError> {
    let mut built = on_this_machine().built()?;
    // Mosquitto loads it; by itself it is no program.
    built.0.retain(|(name, _)| name != "latchkey_mosquitto_plugin");
    Ok(built.paths())
}

fn on_this_machine() -> Set {
    Set { name: "programs".into(), arguments: packages(), shown: false, instead_of: None }
}

/// All in one go, so that what they are made of has the same features, and is compiled once.
fn packages() -> Vec<&'static str> {
    let packages = PROGRAM_PACKAGES.iter().chain(&CENTRE_PACKAGES).chain(&EDGE_PACKAGES);
    packages.flat_map(|package| ["--package", package]).chain(["--bins", "--lib"]).collect()
}

/// The same with the roots of a fake AMD or Intel, where a directory of collateral names them: no release can be built so. In a place of
/// their own, and those without are where they were.
///
/// # Errors
/// [`BuildError`].
pub fn with_fake_vendors(binary: &str) -> Result<PathBuf, BuildError> {
    fake_vendors().built()?.program(binary)
}

fn fake_vendors() -> Set {
    // The same packages as without, so that what they are made of has the same features, and is there.
    let packages = packages();
    let arguments = [&packages[..], &["--features", "latchkey-collateral/fake-processors"]].concat();
    Set { name: "fake-vendors".into(), arguments, shown: false, instead_of: Some(packages) }
}

/// The same as users get it: in the profile that ships, but with its symbols (debug information is left out as there).
///
/// # Errors
/// [`BuildError`].
pub fn shipped(binary: &str) -> Result<PathBuf, BuildError> {
    let profile = profile_of(binary);
    let packages = PROGRAM_PACKAGES.into_iter().filter(|package| profile_of(package) == profile);
    let strip = if profile == "verifier" {
        "profile.verifier.strip=\"debuginfo\""
    } else {
        "profile.service.strip=\"debuginfo\""
    };
    let arguments = packages.flat_map(|package| ["--package", package]);
    let arguments = arguments.chain(["--profile", profile, "--config", strip, "--bins"]).collect();
    let name = format!("shipped-{profile}");
    Set { name, arguments, shown: false, instead_of: None }.built()?.program(binary)
}

/// A program or library of another package, which a test needs beside its own programs: cargo builds it for its own package's tests
/// only.
///
/// # Errors
/// [`BuildError`].
pub fn of_package(package: &'static str, name: &str) -> Result<PathBuf, BuildError> {
    if std::env::var_os(RUN).is_some() {
        return on_this_machine().built()?.program(name);
    }
    let arguments = vec!["--package", package];
    Set { name: package.into(), arguments, shown: false, instead_of: None }.built()?.program(name)
}

/// Runs a script of the workspace that builds programs.
///
/// # Errors
/// [`BuildError`].
pub fn by_script(script: &str, argument: &Path) -> Result<(), BuildError> {
    let path = workspace().join(script);
    let ran = output_within(COMPILE, calls_cargo(&path).arg(argument)).map_err(failed_to("start", &path))?;
    let output = || String::from_utf8_lossy(&[&ran.stdout[..], &ran.stderr].concat()).into_owned();
    let failed = || BuildError::Failed { command: format!("{script} {}", argument.display()), output: output() };
    ran.status.success().then_some(()).ok_or_else(failed)
}

/// Whether the musl target is there, or rustup could add it.
fn has_musl() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    let ran = |program: &str, arguments: &[&str]| {
        output(Command::new(program).current_dir(workspace()).args(arguments)).ok().filter(|ran| ran.status.success())
    };
    let installed = || {
        let said = ran("rustc", &["--print", "target-libdir", "--target", MUSL]);
        said.is_some_and(|said| Path::new(String::from_utf8_lossy(&said.stdout).trim()).is_dir())
    };
    *HAS.get_or_init(|| installed() || (ran("rustup", &["target", "add", MUSL]).is_some() && installed()))
}
