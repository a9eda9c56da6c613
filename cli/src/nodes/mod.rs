//! `latchkey node …`: the machines of a cluster, in its directory or its API server. No machine is asked.

mod change;
mod look;
mod service;

pub(crate) use change::{admit, allow, deny, remove};
pub(crate) use look::{list, lost, show, state};

use latchkey_attestation::{EkDigest, EkPrefix, KnownMachine};
use latchkey_cluster_store::NodeRecord;

use crate::arguments::Arguments;
use crate::codes::CommandCode;
use crate::ek_file;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::machines::Machines;
use crate::which_machine::{self, on_record};

/// The machine that the operand names: by its name on record, by its EK digest, on record or not, or by the beginning of one that is
/// known here, in digits or words. A name that a machine merely asks for names nobody.
pub(crate) fn machine(
    arguments: &Arguments,
    machines: &dyn Machines,
) -> Result<(EkDigest, Option<NodeRecord>), CommandError> {
    let named = arguments.operand_text(0)?;
    let (nodes, wrong) = machines.nodes()?;
    let mut known: Vec<KnownMachine> = nodes.iter().map(on_record).collect();
    let prefix = EkPrefix::parse(named);
    // Whoever is named by a name, or as a whole, is found whatever else cannot be read.
    if prefix.is_some_and(|prefix| prefix.whole().is_none()) {
        known.extend(machines.pending()?.iter().map(|held| (held.ek_sha256, None)));
        let denials = machines.denials()?;
        // What cannot be read may begin alike.
        let unread: Vec<&String> = wrong.iter().chain(denials.unreadable()).collect();
        if !unread.is_empty() {
            return Err(not_alone(named, &unread));
        }
        known.extend(denials.iter().map(|ek| (*ek, None)));
    }
    let ek = match which_machine::find(named, &known)? {
        Some(ek) => ek,
        None if prefix.is_some() => return Err(not_known(named)),
        None => which_machine::read(named.as_ref(), ek_file::is_usual).map_err(|_| not_known(named))?,
    };
    Ok((ek, nodes.into_iter().find(|node| node.ek_sha256 == ek)))
}

/// The machine that an operand names by itself, as a whole digest: nothing has to be known here of it.
pub(crate) fn whole_digest(arguments: &Arguments) -> Option<EkDigest> {
    EkDigest::from_hex(&arguments.operand_text(0).ok()?.trim().to_ascii_lowercase())
}

fn not_known(named: &str) -> CommandError {
    let what =
        format!("no node on record is called {named}, and it is no EK digest, nor the beginning of one that is known");
    CommandError::usage(what).fix("see `latchkey node list`; of a machine that is not there say all 64 digits")
}

/// Whether this beginning is of one machine alone nobody knows.
fn not_alone(named: &str, unread: &[&String]) -> CommandError {
    let what = format!("{named} may be the beginning of several digests: not all records and denials can be read");
    let failure = unread.iter().fold(CommandError::usage(what), CommandError::because);
    failure.fix("say all 64 digits of the machine that is meant, or its name on record; or mend what is named first")
}

/// No node on record has this name.
pub(crate) fn unknown(name: &str) -> CommandError {
    let what = format!("no node on record is called {name}");
    CommandError::new(Exit::Usage, CommandCode::NodeUnknown, what).fix("see `latchkey node list`")
}
