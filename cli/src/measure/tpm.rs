//! `latchkey measure log --tpm`: a log beside the registers of the TPM that it should be of.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use latchkey_attestation::parse::{Component, PcrSet};
use latchkey_measurements::Bank;
use latchkey_measurements::registers::RegisterComparison;
use latchkey_measurements::report::Report;
use latchkey_tpm::device::{CharDevice, Socket, Tpm};
use serde::Serialize;

use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::{Style, Tone};

/// A log beside the registers of a TPM, in every bank that both have. Nothing proves which TPM answered: to admit or refuse a
/// machine is for `latchkey verify`.
#[derive(Serialize)]
pub(super) struct TpmComparison {
    device: String,
    /// Whether every compared register is as the log replays it.
    pub(super) matches: bool,
    /// Bank, register.
    banks: BTreeMap<&'static str, BTreeMap<u8, RegisterComparison>>,
    /// Banks that the log replays in and the TPM does not have.
    banks_not_in_tpm: Vec<&'static str>,
}

/// Reads the registers and compares them; `complete` are those of which the log has every event there is.
pub(super) fn compare(path: &Path, log: &Report, complete: PcrSet) -> Result<TpmComparison, CommandError> {
    let failed = |error: &dyn Display| {
        let what = format!("the TPM at {} cannot be used", path.display());
        CommandError::local(CommandCode::TpmUnusable, what).because(error.to_string())
    };
    let mut tpm = open(path).map_err(|error| failed(&error))?;
    let (mut banks, mut banks_not_in_tpm) = (BTreeMap::new(), Vec::new());
    for bank in Bank::ALL.into_iter().filter(|bank| log.pcrs.contains_key(bank.as_str())) {
        let registers = tpm.read_bank(bank.algorithm().0).map_err(|error| failed(&error))?;
        match log.beside(bank, &registers, complete) {
            Some(compared) if !registers.is_empty() => drop(banks.insert(bank.as_str(), compared)),
            _ => banks_not_in_tpm.push(bank.as_str()),
        }
    }
    if banks.values().all(BTreeMap::is_empty) {
        let what = format!("the log replays in no register that the TPM at {} has", path.display());
        return Err(CommandError::new(Exit::Usage, CommandCode::TpmUnusable, what)
            .fix("compare banks that both have: see `banks` of the log, and `tpm2_getcap pcrs`"));
    }
    let matches = banks.values().flat_map(BTreeMap::values).all(|register| register.matches);
    Ok(TpmComparison { device: path.display().to_string(), matches, banks, banks_not_in_tpm })
}

/// The device file of a TPM, or the socket of swtpm.
fn open(path: &Path) -> std::io::Result<Tpm> {
    if fs::metadata(path)?.file_type().is_socket() {
        return Socket::connect(path).map(Tpm::new);
    }
    CharDevice::open(path).map(Tpm::new)
}

impl TpmComparison {
    pub(super) fn text(&self, style: Style) -> String {
        let Self { device, .. } = self;
        let mut text = String::new();
        for (bank, registers) in &self.banks {
            let differing: Vec<_> = registers.iter().filter(|(_, register)| !register.matches).collect();
            let count = registers.len() - differing.len();
            let line =
                format!("{bank}: {count} of {} registers of {device} are as the log replays them", registers.len());
            let tone = if differing.is_empty() { Tone::Good } else { Tone::Bad };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "\n{}", style.paint(tone, &line));
            for (pcr, RegisterComparison { replayed, register, .. }) in differing {
                let component = Component::of(*pcr).describe();
                let _ = writeln!(text, "  PCR {pcr} ({component})\n    replayed  {replayed}\n    the TPM   {register}");
            }
        }
        for bank in &self.banks_not_in_tpm {
            let _ = writeln!(text, "\n{bank}: {device} has no such bank");
        }
        if !self.matches {
            text.push_str("\nThe log is of another boot, was altered, or ended before the last measurement.\n");
        }
        text
    }
}
