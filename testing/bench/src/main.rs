//! `./dev bench`: every benchmark of Latchkey in one run, beside its peers on the same machine.
//!
//! Runs the benchmarks of the crates (each can also be run alone with `cargo bench -p …`), then what others have for
//! the same work: rustls in this process, keylime, grpcio and sev-snp-measure from the Python package index in a virtual
//! environment in the target directory; crate sev
//! in a workspace of its own (`testing/bench/peers/sev`); tpm2-tools, cryptsetup, systemd-measure, snpguest,
//! kadmin and kubeseal (which Go builds, once) as the processes they are. A peer
//! that is not there is named and left out.

mod child;
mod document;
mod outcome;
mod own;
mod peers;
mod promises;
mod report;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lexopt::prelude::{Long, Short};

use outcome::{Machine, Outcome};

fn main() -> ExitCode {
    match Options::read().and_then(|options| options.map_or(Ok(()), |options| run(&options))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            eprintln!("latchkey-bench: {sentence}");
            ExitCode::FAILURE
        }
    }
}

const HELP: &str = "Usage: ./dev bench [--output table|json] [--no-peers] [--write]

Measures everything that SPECIFICATION.md has a number for, in one run, beside what others have for the same work.
It builds everything first, and then takes a while; machines boot in it, one at a time. Nothing is
judged by it but in the table at its end: promised, measured, beside which peer. With --write that table goes into
SPECIFICATION.md. Ctrl-C stops it and tidies up.";

struct Options {
    json: bool,
    peers: bool,
    write: bool,
}

impl Options {
    /// `None` when they asked for help, and got it.
    fn read() -> Result<Option<Self>, String> {
        let (mut options, mut arguments) =
            (Self { json: false, peers: true, write: false }, lexopt::Parser::from_env());
        while let Some(argument) = arguments.next().map_err(|error| error.to_string())? {
            match argument {
                Long("output") => match arguments.value().map_err(|error| error.to_string())?.to_str() {
                    Some("json") => options.json = true,
                    Some("table") => options.json = false,
                    _ => return Err("--output takes `table` or `json`".to_owned()),
                },
                Long("no-peers") => options.peers = false,
                Long("write") => options.write = true,
                Long("help") | Short('h') => {
                    println!("{HELP}");
                    return Ok(None);
                }
                other => return Err(format!("{}\n{HELP}", other.unexpected())),
            }
        }
        Ok(Some(options))
    }
}

fn run(options: &Options) -> Result<(), String> {
    child::listen()?;
    let (sources, machine) = (sources()?, Machine::now());
    // Everything temporary lies here, that of programs which are ended too. Sockets' paths must be short.
    let scratch = tempfile::Builder::new().prefix("lkb").tempdir().map_err(|error| error.to_string())?;
    tempfile::env::override_temp_dir(scratch.path()).map_err(|_| "another directory for temporary files is set")?;
    let mut outcome = Outcome::new(machine);
    own::run(&sources, scratch.path(), &mut outcome)?;
    if options.peers {
        peers::run(&sources, &target_directory()?, &mut outcome)?;
    }
    outcome.finish();
    if options.json {
        report::json(&outcome);
    } else {
        report::table(&outcome);
    }
    if options.write { write(&sources, &outcome) } else { Ok(()) }
}

/// Puts the table of promises into the document.
fn write(sources: &Path, outcome: &Outcome) -> Result<(), String> {
    let path = sources.join(document::DOCUMENT);
    let said = |error: std::io::Error| format!("{}: {error}", path.display());
    let document = std::fs::read_to_string(&path).map_err(said)?;
    let written = document::written(&document, outcome).ok_or("the table's marks are gone from the document")?;
    std::fs::write(&path, written).map_err(said)
}

/// The root of the checkout that this program was built from.
fn sources() -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).map(Path::to_path_buf);
    root.filter(|root| root.join("Cargo.lock").exists()).ok_or_else(|| "the sources are gone".to_owned())
}

/// Where cargo put this program: `…/release/latchkey-bench`.
fn target_directory() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    program.ancestors().nth(2).map(Path::to_path_buf).ok_or_else(|| "no target directory".to_owned())
}
