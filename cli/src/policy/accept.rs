//! `latchkey policy accept-firmware`: the operator's word that a machine's new firmware is the one on record.

use std::io::{self, IsTerminal, Write};

use latchkey_attestation::{Digest, EkDigest};
use latchkey_cluster_store::NodeName;
use latchkey_measurements::firmware::{Changes, RegisterChange};
use serde::Serialize;

use crate::arguments::Arguments;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::firmware::{self, waiting};
use crate::output::{Output, Report, Style, Tone, pairs, printable};
use crate::{machines, nodes};

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let machines = machines::open(arguments)?;
    let (ek, record) = nodes::machine(arguments, &*machines)?;
    let record = record.ok_or_else(|| {
        let what = format!("the machine with the TPM {ek} is not on record");
        CommandError::new(Exit::Usage, CommandCode::NodeUnknown, what)
    })?;
    let (changes, change) = waiting(&record).ok_or_else(|| {
        let what = format!("the firmware of {} is the one on record, as far as it was seen", record.name);
        CommandError::new(Exit::Usage, CommandCode::NoFirmwareChange, what)
    })?;
    let report = AcceptReport { ek_sha256: ek, name: record.name, change, registers: changes };
    report.confirm(arguments, output)?;
    if !firmware::accept(&*machines, ek, &change)? {
        let what = format!("the firmware of {} is another by now", report.name);
        return Err(CommandError::new(Exit::Failed, CommandCode::ChangeNotConfirmed, what));
    }
    output.report(&report)
}

/// A machine's firmware is accepted.
#[derive(Serialize)]
struct AcceptReport {
    ek_sha256: EkDigest,
    name: NodeName,
    /// What names the accepted values.
    change: Digest,
    registers: Changes,
}

impl AcceptReport {
    /// The explicit word, which names this change: another one that comes in between is not accepted with it.
    fn confirm(&self, arguments: &Arguments, output: &Output) -> Result<(), CommandError> {
        let unconfirmed = |exit, what: String| {
            let error = CommandError::new(exit, CommandCode::ChangeNotConfirmed, what);
            let error = self.registers.iter().fold(error, |error, register| error.because(register.to_string()));
            error.fix(format!("if this change is yours, say --change {}", self.change))
        };
        match arguments.text("change")? {
            Some(named) if named.trim().eq_ignore_ascii_case(&self.change.to_string()) => Ok(()),
            Some(_) => {
                Err(unconfirmed(Exit::Usage, format!("--change names another firmware than {} has now", self.name)))
            }
            None if io::stdin().is_terminal() && io::stderr().is_terminal() => {
                output.say(Tone::Warning, "firmware", &format!("{}\n{}", self.name, self.values()));
                let _ = write!(io::stderr(), "Is this change meant? [yes/no] ");
                let mut answer = String::new();
                let read = io::stdin().read_line(&mut answer);
                read.map_err(|error| CommandError::usage("no answer").because(error.to_string()))?;
                if answer.trim() == "yes" {
                    return Ok(());
                }
                Err(unconfirmed(Exit::Failed, "you said that this change is not meant".to_owned()))
            }
            None => {
                Err(unconfirmed(Exit::Usage, format!("nobody said that the new firmware of {} is meant", self.name)))
            }
        }
    }

    /// The registers, each with its values and its event.
    fn values(&self) -> String {
        let register = |change: &RegisterChange| {
            let RegisterChange { pcr, before, now, event } = change;
            let event =
                event.as_ref().map_or_else(String::new, |_| format!("\n         {}", printable(&change.to_string())));
            format!("PCR {pcr:<3} {before}\n      -> {now}{event}")
        };
        self.registers.iter().map(register).collect::<Vec<_>>().join("\n")
    }
}

impl Report for AcceptReport {
    fn text(&self, style: Style) -> String {
        pairs(&[
            ("accepted", style.paint(Tone::Good, self.name.as_str())),
            ("TPM", self.ek_sha256.to_string()),
            ("change", self.change.to_string()),
            ("firmware", self.values()),
        ])
    }
}
