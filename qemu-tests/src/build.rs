//! The project's own binaries, built the way a user builds them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use latchkey_test_support::{calls_cargo, cargo};

use crate::error::{HarnessError, io_error};
use crate::process::{output, output_within, run};

const MUSL: &str = "x86_64-unknown-linux-musl";
const GLIBC: &str = "x86_64-unknown-linux-gnu";
/// Where the programs are.
const PROGRAM_PACKAGES: [&str; 3] = ["latchkey-cli", "latchkey-join-service", "latchkey-key-service"];
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
/// The agent and all it stands on, from nothing, on a busy machine; or waiting for another cargo that has the target
/// directory, which is what it says then.
const COMPILE: Duration = Duration::from_mins(30);

/// Where cargo puts what it builds.
pub fn target_directory() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from)
}

/// The root of the checkout.
pub fn workspace() -> PathBuf {
    let room = Path::new(env!("CARGO_MANIFEST_DIR"));
    room.parent().unwrap_or(room).into()
}

/// The agent that ships, built once per process. `LATCHKEY_AGENT` names another one to test.
pub fn agent() -> Result<PathBuf, HarnessError> {
    static AGENT: Mutex<Option<PathBuf>> = Mutex::new(None);
    let mut agent = AGENT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = agent.as_ref() {
        return Ok(path.clone());
    }
    let path = match std::env::var_os("LATCHKEY_AGENT") {
        Some(path) => path.into(),
        None if has_musl() => build_agent(&["--target", MUSL])?,
        None => {
            eprintln!(
                "notice: no Rust target {MUSL} (rustup target add {MUSL}); the agent is static glibc, and larger"
            );
            let flags = format!("target.{GLIBC}.rustflags=[\"-C\",\"target-feature=+crt-static\"]");
            build_agent(&["--target", GLIBC, "--config", &flags])?
        }
    };
    Ok(agent.insert(path).clone())
}

/// A test program for the inside of a machine, linked as the agent is; built once per process. `LATCHKEY_GUESTS` names a
/// directory with other ones.
pub fn guest(binary: &str) -> Result<PathBuf, HarnessError> {
    static GUESTS: Mutex<Option<Built>> = Mutex::new(None);
    if let Some(directory) = std::env::var_os("LATCHKEY_GUESTS") {
        return Ok(Path::new(&directory).join(binary));
    }
    let target = if has_musl() { MUSL } else { GLIBC };
    // Together with the agent, so that what both are made of has the same features, and is compiled once.
    let packages = ["--package", "latchkey-agent", "--package", "latchkey-guests", "--bins"];
    once(&GUESTS, &[&["--release"], &packages[..], &["--target", target]].concat())?.program(binary)
}

/// A program that images carry beside the agent, static like it. Its package has its name.
pub fn for_nodes(program: &str) -> Result<PathBuf, HarnessError> {
    static_program("release", program, program)
}

fn static_program(profile: &str, package: &str, program: &str) -> Result<PathBuf, HarnessError> {
    let arguments = ["--profile", profile, "--package", package, "--bins", "--target"];
    if has_musl() {
        return cargo_build(&[&arguments[..], &[MUSL]].concat())?.program(program);
    }
    let flags = format!("target.{GLIBC}.rustflags=[\"-C\",\"target-feature=+crt-static\"]");
    cargo_build(&[&arguments[..], &[GLIBC, "--config", &flags]].concat())?.program(program)
}

/// A program of a centre or an edge as users get it: static, in the profile that ships.
pub fn as_shipped(package: &str, program: &str) -> Result<PathBuf, HarnessError> {
    static_program("service", package, program)
}

/// The directory of all programs of a centre and its edges as users get them, mosquitto's plugin and the Kerberos helper too.
pub fn centre_packaged() -> Result<PathBuf, HarnessError> {
    let packages = ["latchkey-cli"]
        .iter()
        .chain(&CENTRE_PACKAGES)
        .chain(&EDGE_PACKAGES)
        .flat_map(|package| ["--package", package]);
    let arguments = ["--profile", "service", "--bins", "--lib"].into_iter().chain(packages);
    let latchkey = cargo_build(&arguments.collect::<Vec<_>>())?.program("latchkey")?;
    Ok(latchkey.parent().unwrap_or_else(|| Path::new("/")).to_owned())
}

/// A program of the workspace that runs on this machine (a service, the command line); built once per process, all in one
/// go, for the same reason.
pub fn program(binary: &str) -> Result<PathBuf, HarnessError> {
    all_programs()?.program(binary)
}

/// Every such program: the command line, the services, and what tests run of a centre and of an edge.
pub fn programs() -> Result<Vec<PathBuf>, HarnessError> {
    Ok(all_programs()?.0.into_iter().map(|(_, path)| path).collect())
}

fn all_programs() -> Result<Built, HarnessError> {
    static PROGRAMS: Mutex<Option<Built>> = Mutex::new(None);
    once(&PROGRAMS, &on_this_machine())
}

fn on_this_machine() -> Vec<&'static str> {
    let packages = PROGRAM_PACKAGES.iter().chain(&CENTRE_PACKAGES).chain(&EDGE_PACKAGES);
    packages.flat_map(|package| ["--package", package]).chain(["--bins", "--lib"]).collect()
}

/// The same with the roots of a fake AMD or Intel, where a directory of collateral names them: no release can be built so. In a place of
/// their own, and those without are where they were.
pub fn with_fake_vendors(binary: &str) -> Result<PathBuf, HarnessError> {
    static PROGRAMS: Mutex<Option<Built>> = Mutex::new(None);
    let mut place = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
    if place.is_none() {
        // The same packages as without, so that what they are made of has the same features, and is there.
        let packages = on_this_machine();
        let built = cargo_build(&[&packages[..], &["--features", "latchkey-collateral/fake-processors"]].concat())?;
        let directory = target_directory().join("fake-vendors");
        std::fs::create_dir_all(&directory).map_err(io_error("make", &directory))?;
        let mut copies = Vec::new();
        for (name, path) in built.0 {
            let copy = directory.join(&name);
            // What runs is not written to: another process may have the one before.
            let new = directory.join(format!("{name}.{}", std::process::id()));
            std::fs::copy(&path, &new).and_then(|_| std::fs::rename(&new, &copy)).map_err(io_error("copy", &path))?;
            copies.push((name, copy));
        }
        cargo_build(&packages)?;
        *place = Some(Built(copies));
    }
    place.as_ref().map_or_else(|| Built(Vec::new()).program(binary), |built| built.program(binary))
}

/// The same as users get it: in the profile that ships, but with its symbols (debug information is left out as there).
pub fn shipped(binary: &str) -> Result<PathBuf, HarnessError> {
    static PROGRAMS: Mutex<Option<Built>> = Mutex::new(None);
    let packages = PROGRAM_PACKAGES.iter().flat_map(|package| ["--package", package]);
    let profile = ["--profile", "service", "--config", "profile.service.strip=\"debuginfo\"", "--bins"];
    once(&PROGRAMS, &packages.chain(profile).collect::<Vec<_>>())?.program(binary)
}

/// A program as users get it, to the bit: without its symbols, too.
pub fn packaged(binary: &str) -> Result<PathBuf, HarnessError> {
    cargo_build(&["--profile", "service", "--package", binary, "--bins"])?.program(binary)
}

/// Runs a script of the workspace that builds programs.
pub(crate) fn by_script(script: &str, argument: &Path) -> Result<(), HarnessError> {
    let mut command = calls_cargo(workspace().join(script));
    output_within(command.arg(argument), COMPILE).map(drop)
}

fn build_agent(target: &[&str]) -> Result<PathBuf, HarnessError> {
    let arguments = [&["--release", "--package", "latchkey-agent", "--bin", "latchkey-agent"], target].concat();
    cargo_build(&arguments)?.program("latchkey-agent")
}

/// Whether the musl target is there, or rustup could add it.
fn has_musl() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    let installed = || {
        let mut rustc = Command::new("rustc");
        rustc.current_dir(workspace()).args(["--print", "target-libdir", "--target", MUSL]);
        output(&mut rustc).is_ok_and(|path| Path::new(path.trim()).is_dir())
    };
    *HAS.get_or_init(|| {
        let mut rustup = Command::new("rustup");
        installed() || (output(rustup.current_dir(workspace()).args(["target", "add", MUSL])).is_ok() && installed())
    })
}

/// Name and path of each program that was built.
#[derive(Clone)]
struct Built(Vec<(String, PathBuf)>);

impl Built {
    fn program(&self, name: &str) -> Result<PathBuf, HarnessError> {
        let program = self.0.iter().find(|(there, _)| there == name);
        let path =
            program.map(|(_, path)| path).ok_or_else(|| HarnessError::Unusable(format!("cargo built no {name}")))?;
        path.canonicalize().map_err(io_error("find", path))
    }
}

fn once(place: &Mutex<Option<Built>>, arguments: &[&str]) -> Result<Built, HarnessError> {
    let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(built) = place.as_ref() {
        return Ok(built.clone());
    }
    Ok(place.insert(cargo_build(arguments)?).clone())
}

fn cargo_build(arguments: &[&str]) -> Result<Built, HarnessError> {
    let mut command = cargo();
    command.current_dir(workspace()).args(["build", "--message-format", "json-render-diagnostics"]).args(arguments);
    let built = run(&mut command, COMPILE)?;
    if !built.status.success() {
        let output = String::from_utf8_lossy(&built.err).into_owned();
        return Err(HarnessError::Command { command: format!("cargo build {}", arguments.join(" ")), output });
    }
    let messages = built.out.split(|byte| *byte == b'\n');
    let artifacts = messages.filter_map(|line| serde_json::from_slice::<Artifact>(line).ok());
    let program = |artifact: Artifact| artifact.executable.map(|path| (artifact.target.name, path));
    Ok(Built(artifacts.filter_map(program).collect()))
}

/// The part of cargo's message "compiler-artifact" that says where a program is.
#[derive(serde::Deserialize)]
struct Artifact {
    target: Target,
    executable: Option<PathBuf>,
}

#[derive(serde::Deserialize)]
struct Target {
    name: String,
}
