//! The same work done by others.

mod python;
mod quote;
mod tls;

use std::path::Path;

use crate::outcome::Outcome;

/// Measures every peer that this machine has or can fetch. cryptsetup is beside our own key check already.
pub(crate) fn run(sources: &Path, target: &Path, outcome: &mut Outcome) {
    outcome.figures.push(tls::mutual());
    let python = python::Python::prepare(sources, target);
    if let Err(why) = &python {
        outcome.skip("keylime and grpcio", why);
    }
    quote::run(sources, python.as_ref().ok(), outcome);
    if let Ok(python) = python {
        unary(&python, outcome);
    }
}

fn unary(python: &python::Python, outcome: &mut Outcome) {
    let measured = tempfile::tempdir().map_err(|error| error.to_string()).and_then(|folder| {
        let socket = folder.path().join("socket");
        let what = "grpcio: unary gRPC call, one at a time, both ends, Unix socket";
        python.run("grpcio_unary.py", &[socket.as_os_str(), "grpcio/unary".as_ref(), what.as_ref()])
    });
    outcome.take("grpcio", measured);
}
