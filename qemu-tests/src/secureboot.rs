//! Secure Boot with the test keys of Debian's firmware package, which everybody has.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::HarnessError;
use crate::hardware::{Firmware, beside};
use crate::process::output;
use crate::run::Run;

/// Beside the firmware in one file.
const CERTIFICATE: &str = "PkKek-1-snakeoil.pem";
const KEY: &str = "PkKek-1-snakeoil.key";
const PASSPHRASE: &str = "pass:snakeoil";
/// Variables with those keys enrolled.
const VARIABLES: &str = "OVMF_VARS_4M.snakeoil.fd";

/// The keys, ready to sign with.
#[derive(Debug, Clone)]
pub struct TestKeys {
    /// The key (PEM), without passphrase.
    pub key: PathBuf,
    /// Its certificate (PEM).
    pub certificate: PathBuf,
    /// A firmware's variables in which they are enrolled.
    pub variables: PathBuf,
}

impl TestKeys {
    /// Takes the keys out of the package.
    pub fn take(run: &Run) -> Result<Self, HarnessError> {
        let directory = crate::hardware::one_file()?;
        let file = |name: &str| directory.with_file_name(name);
        let key = run.file("secure-boot.key");
        let mut command = Command::new(crate::doctor::need("openssl")?);
        command.arg("rsa").arg("-in").arg(file(KEY)).args(["-passin", PASSPHRASE, "-out"]).arg(&key);
        output(&mut command)?;
        Ok(Self { key, certificate: file(CERTIFICATE), variables: beside(VARIABLES)? })
    }

    /// Signs a PE file; the signed one is called `name` in the run's directory.
    pub fn sign(&self, run: &Run, image: &Path, name: &str) -> Result<PathBuf, HarnessError> {
        let signed = run.file(name);
        let mut command = Command::new(crate::doctor::need("sbsign")?);
        command.arg("--key").arg(&self.key).arg("--cert").arg(&self.certificate);
        output(command.arg("--output").arg(&signed).arg(image))?;
        Ok(signed)
    }

    /// Flash for the machine `name` that starts nothing but what these keys have signed.
    pub fn firmware(&self, run: &Run, name: &str) -> Result<Firmware, HarnessError> {
        Firmware::secure_flash(run, name, &self.variables)
    }
}

/// A new key and its certificate (PEM), as an operator makes them.
pub(crate) fn new_keys(run: &Run) -> Result<(PathBuf, PathBuf), HarnessError> {
    let (key, certificate) = (run.file("own-secure-boot.key"), run.file("own-secure-boot.pem"));
    let mut command = Command::new(crate::doctor::need("openssl")?);
    command.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=Latchkey test"]);
    output(command.arg("-keyout").arg(&key).arg("-out").arg(&certificate))?;
    Ok((key, certificate))
}
