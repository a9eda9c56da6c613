//! The same work done by others.

mod kubeseal;
mod launch;
mod python;
mod quote;
mod sev;
mod systemd;
mod tls;

use std::path::Path;

use crate::child;
use crate::outcome::Outcome;

/// Measures every peer that this machine has or can fetch. cryptsetup, pgbench and kadmin are beside our own benchmarks already.
///
/// # Errors
/// The run was stopped.
pub(crate) fn run(sources: &Path, target: &Path, outcome: &mut Outcome) -> Result<(), String> {
    eprintln!("measuring peers");
    outcome.figures.push(tls::mutual());
    systemd::run(outcome);
    sev::run(sources, target, outcome);
    child::check()?;
    kubeseal::run(target, outcome);
    child::check()?;
    let python = python::Python::prepare(sources, target);
    child::check()?;
    if let Err(why) = &python {
        outcome.skip("keylime, grpcio and sev-snp-measure", why);
    }
    quote::run(sources, python.as_ref().ok(), outcome);
    launch::run(python.as_ref().ok(), outcome);
    if let Ok(python) = python {
        unary(&python, outcome);
    }
    child::check()
}

fn unary(python: &python::Python, outcome: &mut Outcome) {
    let measured = tempfile::tempdir().map_err(|error| error.to_string()).and_then(|directory| {
        let socket = directory.path().join("socket");
        let what = "grpcio: unary gRPC call, one at a time, both ends, Unix socket";
        python.run("grpcio_unary.py", &[socket.as_os_str(), "grpcio/unary".as_ref(), what.as_ref()])
    });
    outcome.take("grpcio", measured);
}
