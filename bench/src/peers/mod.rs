//! The same work done by others.

mod python;
mod quote;
mod systemd;
mod tls;

use std::path::Path;

use crate::outcome::Outcome;

/// Measures every peer that this machine has or can fetch. cryptsetup is beside our own key check already.
pub(crate) fn run(sources: &Path, target: &Path, outcome: &mut Outcome) {
    outcome.figures.push(tls::mutual());
    systemd::run(outcome);
    let python = python::Python::prepare(sources, target);
    if let Err(why) = &python {
        outcome.skip("keylime, grpcio and sev-snp-measure", why);
    }
    quote::run(sources, python.as_ref().ok(), outcome);
    if let Ok(python) = python {
        unary(&python, outcome);
        launch(&python, outcome);
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

/// The same file and the same number of processors as in our own benchmark.
fn launch(python: &python::Python, outcome: &mut Outcome) {
    let (id, what) = ("sev-snp-measure/launch-digest", "sev-snp-measure: launch digest, the same file");
    let arguments = ["/usr/share/ovmf/OVMF.fd", "4", id, what].map(AsRef::as_ref);
    outcome.take(id, python.run("snp_measure.py", &arguments));
}
