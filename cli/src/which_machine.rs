//! Which machine is meant. Attestation says what a machine runs; that it is *this* one, its endorsement key says.

use std::path::Path;

use latchkey_attestation::EkDigest;

use crate::failure::{Exit, Failure};
use crate::files;
use crate::spec::Arguments;

/// A digest and what editors put around it.
const MAX_FILE: usize = 4096;

/// The EK digest that a flag names: 64 hexadecimal digits, or a file that holds them.
pub(crate) fn digest(arguments: &Arguments, flag: &str) -> Result<Option<EkDigest>, Failure> {
    let Some(path) = arguments.path(flag) else { return Ok(None) };
    read(path).map(Some).map_err(|failure| failure.because(format!("--{flag} {}", path.display())))
}

/// The EK digest that an argument names, in the same way.
pub(crate) fn read(named: &Path) -> Result<EkDigest, Failure> {
    let parse = |text: &str| EkDigest::from_hex(&text.trim().to_ascii_lowercase());
    if let Some(ek) = named.to_str().and_then(parse) {
        return Ok(ek);
    }
    let malformed = || {
        let failure = Failure::usage("neither an EK digest of 64 hexadecimal digits nor a file that holds one");
        failure.fix("see the line `TPM` of `latchkey verify NODE`")
    };
    let text = files::read(named, MAX_FILE).map_err(|_| malformed())?;
    std::str::from_utf8(&text).ok().and_then(parse).ok_or_else(malformed)
}

/// Refuses another machine than the one that a flag names.
pub(crate) fn expect(flag: &str, expected: EkDigest, got: EkDigest) -> Result<(), Failure> {
    if expected == got {
        return Ok(());
    }
    let failure = Failure::new(Exit::Attestation, "another-machine", "the node that answers is another machine");
    let failure = failure.because(format!("{flag} names the TPM {expected}, and this is the TPM {got}"));
    Err(failure.fix("check the address; if it is right, find out who answers there"))
}
