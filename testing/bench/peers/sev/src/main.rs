//! What crate sev takes for the report that our own benchmark verifies: DIRECTORY ID WHAT --json.
//!
//! It verifies the root's own signature, that of the ASK and of the chip's key, and the report's; no list of what AMD revoked, no
//! times, no extensions.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use latchkey_bench::Bench;
use sev::certs::snp::{Certificate, Chain, Verifiable as _, ca};
use sev::firmware::guest::AttestationReport;
use sev::parser::ByteParser as _;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(directory), Some(id), Some(what)) = (arguments.next(), arguments.next(), arguments.next()) else {
        return Err("DIRECTORY ID WHAT".into());
    };
    let read = |name| fs::read(PathBuf::from(&directory).join(name));
    let [ark, ask, vcek, report] = ["ark.der", "ask.der", "vcek.der", "report.bin"].map(read);
    let (ark, ask, vcek, report) = (ark?, ask?, vcek?, report?);
    // As a service has it, which reads it once.
    let authorities = ca::Chain { ark: Certificate::from_der(&ark)?, ask: Certificate::from_der(&ask)? };
    let verify = |report: &[u8]| -> Result<(), Box<dyn Error>> {
        let chain = Chain { ca: authorities.clone(), vek: Certificate::from_der(&vcek)? };
        Ok((&chain, &AttestationReport::from_bytes(report)?).verify()?)
    };
    verify(&report)?;
    // It must be able to say no.
    let mut changed = report.clone();
    changed[0x50] ^= 1;
    if verify(&changed).is_ok() {
        return Err("a changed report verifies".into());
    }
    Bench::from_args().measure(&id, &what, || verify(&report).is_ok());
    Ok(())
}
