//! `latchkey node …`: the machines of a cluster, in its directory or its API server. No machine is asked.

mod change;
mod look;

pub(crate) use change::{admit, allow, deny, remove};
pub(crate) use look::{list, show, state};

use latchkey_attestation::EkDigest;
use latchkey_cluster_store::NodeRecord;

use crate::arguments::Arguments;
use crate::codes::CommandCode;
use crate::ek_file;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::machines::Machines;
use crate::which_machine;

/// The machine that the operand names: by its name on record, or by its EK digest, on record or not. A name that a machine merely
/// asks for names nobody.
pub(crate) fn machine(
    arguments: &Arguments,
    machines: &dyn Machines,
) -> Result<(EkDigest, Option<NodeRecord>), CommandError> {
    let named = arguments.operand_text(0)?;
    let (nodes, _) = machines.nodes()?;
    if let Some(record) = nodes.iter().find(|node| node.name.as_str() == named) {
        return Ok((record.ek_sha256, Some(record.clone())));
    }
    let ek = which_machine::read(named.as_ref(), ek_file::is_usual).map_err(|_| {
        let failure = CommandError::usage(format!("no node on record is called {named}, and it is no EK digest"));
        failure.fix("see `latchkey node list`")
    })?;
    Ok((ek, nodes.into_iter().find(|node| node.ek_sha256 == ek)))
}

/// No node on record has this name.
pub(crate) fn unknown(name: &str) -> CommandError {
    let what = format!("no node on record is called {name}");
    CommandError::new(Exit::Usage, CommandCode::NodeUnknown, what).fix("see `latchkey node list`")
}
