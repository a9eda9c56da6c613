//! The benchmarks of the crates.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use latchkey_bench::{Figure, Quantity};
use latchkey_test_support::cargo;
use serde::Deserialize;

use crate::child;
use crate::outcome::Outcome;

/// Package and benchmark, from the lowest layer to the highest.
const BENCHMARKS: [(&str, &str); 21] = [
    ("latchkey-attestation", "appraise"),
    ("latchkey-attestation", "snp"),
    ("latchkey-attestation", "tdx"),
    ("latchkey-channel", "handshake"),
    ("latchkey-api", "calls"),
    ("latchkey-disk", "unlock"),
    ("latchkey-measurements", "launch"),
    ("latchkey-cli", "measure"),
    ("latchkey-join-service", "tickets"),
    ("latchkey-group-commit", "writes"),
    ("latchkey-config-db", "entries"),
    ("latchkey-config-db", "requests"),
    ("latchkey-cluster-manager", "seal"),
    ("latchkey-enrol-service", "decisions"),
    ("latchkey-qemu-tests", "centre"),
    ("latchkey-qemu-tests", "image"),
    ("latchkey-qemu-tests", "boot"),
    ("latchkey-qemu-tests", "disk"),
    ("latchkey-join-service", "api_server_tickets"),
    ("latchkey-qemu-tests", "edge"),
    ("latchkey-qemu-tests", "kubernetes"),
];

/// Those that need the programs of Kubernetes, which take too long to build for a run that does not ask for them.
const OF_KUBERNETES: [&str; 3] = ["api_server_tickets", "edge", "kubernetes"];

/// The benchmark whose server is measured as it ships, by a build of its own; which program that is, it reads there.
const STATIC_SERVER: (&str, &str, &str) = ("latchkey-config-db", "requests", "LATCHKEY_BENCH_SERVER");
const STATIC_TARGET: &str = "x86_64-unknown-linux-musl";

/// The benchmark that builds, when asked to, what those with machines need.
const PREPARES: &str = "boot";
/// Compiling everything, on a slow machine.
const BUILD: Duration = Duration::from_hours(2);
/// One benchmark: those with machines take two minutes on two idle cores without KVM, that of Kubernetes half an hour.
const RUN: Duration = Duration::from_hours(1);

/// Builds all, then runs one after the other. One that fails is named, and the others still run.
///
/// # Errors
/// A sentence: nothing can be built, or the run was stopped.
pub(crate) fn run(sources: &Path, scratch: &Path, outcome: &mut Outcome) -> Result<(), String> {
    eprintln!("building the benchmarks, which takes long the first time");
    let programs = build(sources, &BENCHMARKS, None)?;
    let (package, benchmark, variable) = STATIC_SERVER;
    let server = build(sources, &[(package, benchmark)], Some(STATIC_TARGET))?.pop();
    let program = |benchmark| programs.iter().find(|program| program.target.name == benchmark);
    if let Some(boot) = program(PREPARES) {
        let status = child::run(boot.command(scratch).arg("--prepare"), BUILD, |_| ());
        note("what the machines run", status, outcome)?;
    }
    eprintln!("measuring, which takes a while");
    let kubernetes = child::run(&mut programs_of_kubernetes(sources), BUILD, |_| ());
    let has_kubernetes = kubernetes.is_ok_and(|status| status.success());
    for (package, benchmark) in BENCHMARKS {
        let what = format!("{package}, {benchmark}");
        if OF_KUBERNETES.contains(&benchmark) && !has_kubernetes {
            outcome.skip(what, "Kubernetes' programs are not built: qemu-tests/kubernetes/build all");
            continue;
        }
        let Some(program) = program(benchmark) else {
            outcome.skip(what, "cargo built no such benchmark");
            continue;
        };
        let mut command = program.command(scratch);
        if let Some(server) = server.as_ref().filter(|server| server.target.name == benchmark) {
            command.env(variable, &server.executable);
        }
        let status = child::run(command.arg("--json"), RUN, |line| {
            if let Some(figure) = Figure::from_line(line) {
                eprintln!("  {}", figure.what);
                outcome.figures.push(figure);
            } else {
                outcome.quantities.extend(Quantity::from_line(line));
            }
        });
        note(&what, status, outcome)?;
    }
    sizes(sources, outcome)
}

/// Succeeds where all programs of Kubernetes are in the cache, and links them to their release.
fn programs_of_kubernetes(sources: &Path) -> Command {
    let mut build = Command::new(sources.join("qemu-tests/kubernetes/build"));
    build.args(["--cached", "all"]);
    build
}

/// What ships, in bytes and crates.
fn sizes(sources: &Path, outcome: &mut Outcome) -> Result<(), String> {
    let mut size = cargo();
    size.current_dir(sources).args([
        "run",
        "--quiet",
        "--package",
        "latchkey-qemu-tests",
        "--bin",
        "size",
        "--",
        "--json",
    ]);
    // Its exit code says whether a promise is kept; that is judged here, too.
    let status = child::run(&mut size, BUILD, |line| outcome.quantities.extend(Quantity::from_line(line)));
    child::check()?;
    if let Err(why) = status {
        outcome.skip("sizes", why);
    }
    Ok(())
}

/// All at once, so that what they share is compiled once.
fn build(sources: &Path, benchmarks: &[(&str, &str)], target: Option<&str>) -> Result<Vec<Program>, String> {
    let mut cargo = cargo();
    cargo.current_dir(sources).args(["bench", "--no-run", "--message-format", "json-render-diagnostics"]);
    if let Some(target) = target {
        cargo.args(["--target", target]);
    }
    for (package, benchmark) in benchmarks {
        cargo.args(["--package", package, "--bench", benchmark]);
    }
    let mut programs = Vec::new();
    let status = child::run(&mut cargo, BUILD, |line| programs.extend(serde_json::from_str::<Program>(line)))?;
    if status.success() { Ok(programs) } else { Err("the benchmarks cannot be built: see above".to_owned()) }
}

/// Names what failed; an error when all of it is to stop.
fn note(what: &str, status: Result<ExitStatus, String>, outcome: &mut Outcome) -> Result<(), String> {
    child::check()?;
    match status {
        Ok(status) if status.success() => {}
        Ok(_) => outcome.skip(what, "failed: see above"),
        Err(why) => outcome.skip(what, why),
    }
    Ok(())
}

/// The part of cargo's message "compiler-artifact" that says where a program is.
#[derive(Deserialize)]
struct Program {
    target: Target,
    manifest_path: PathBuf,
    executable: PathBuf,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

impl Program {
    /// As cargo would run it, temporary files in `scratch`.
    fn command(&self, scratch: &Path) -> Command {
        let mut command = Command::new(&self.executable);
        command.current_dir(self.manifest_path.parent().unwrap_or(Path::new("."))).env("TMPDIR", scratch);
        command
    }
}
