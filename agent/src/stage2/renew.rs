//! The certificates of a control plane that is not restarted for months: run by a timer of the image.

use std::process::ExitCode;

use crate::cluster::Kubeadm;
use crate::platform::console;

/// Runs to its end: 0, or 1 if little is left of a certificate and it could not be renewed.
pub fn run() -> ExitCode {
    let mut progress = |line: &str| console::line("certificates", line);
    match smol::block_on(Kubeadm::default().renew_certificates(&mut progress)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            console::failure("certificates", error.code, &error.message);
            ExitCode::FAILURE
        }
    }
}
