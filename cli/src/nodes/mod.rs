//! `latchkey node …`: the machines of a cluster, in its directory or its API server. No machine is asked.

mod change;
mod look;
mod service;

pub(crate) use change::{admit, allow, deny, remove};
pub(crate) use look::{list, show, state};

use std::collections::BTreeSet;

use latchkey_attestation::EkDigest;
use latchkey_cluster_store::NodeRecord;

use crate::arguments::Arguments;
use crate::codes::CommandCode;
use crate::ek_file;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::machines::Machines;
use crate::which_machine;

/// Fewer digits name no machine: too many others could have them.
const SHORTEST_PREFIX: usize = 8;
/// Those of a whole digest.
const WHOLE_DIGEST: usize = 64;

/// The machine that the operand names: by its name on record, by its EK digest, on record or not, or by the first digits of one that is
/// known here. A name that a machine merely asks for names nobody.
pub(crate) fn machine(
    arguments: &Arguments,
    machines: &dyn Machines,
) -> Result<(EkDigest, Option<NodeRecord>), CommandError> {
    let named = arguments.operand_text(0)?;
    let (nodes, _) = machines.nodes()?;
    if let Some(record) = nodes.iter().find(|node| node.name.as_str() == named) {
        return Ok((record.ek_sha256, Some(record.clone())));
    }
    let ek = match by_prefix(named, &nodes, machines)? {
        Some(ek) => ek,
        None => which_machine::read(named.as_ref(), ek_file::is_usual).map_err(|_| {
            let what = format!(
                "no node on record is called {named}, and it is no EK digest, nor the beginning of one that is known"
            );
            CommandError::usage(what).fix("see `latchkey node list`")
        })?,
    };
    Ok((ek, nodes.into_iter().find(|node| node.ek_sha256 == ek)))
}

/// The one known machine whose digest begins so; `None` where these are no digits, or all of them.
fn by_prefix(named: &str, nodes: &[NodeRecord], machines: &dyn Machines) -> Result<Option<EkDigest>, CommandError> {
    let named = named.trim().to_ascii_lowercase();
    let digits = named.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !digits || !(SHORTEST_PREFIX..WHOLE_DIGEST).contains(&named.len()) {
        return Ok(None);
    }
    let mut known: BTreeSet<EkDigest> = nodes.iter().map(|node| node.ek_sha256).collect();
    known.extend(machines.pending()?.iter().map(|held| held.ek_sha256));
    known.extend(machines.denials()?.iter());
    let meant: Vec<EkDigest> = known.into_iter().filter(|ek| ek.to_string().starts_with(&named)).collect();
    match meant.as_slice() {
        [] => Ok(None),
        [ek] => Ok(Some(*ek)),
        several => {
            let failure =
                CommandError::usage(format!("{} machines have a digest that begins with {named}", several.len()));
            let failure = several.iter().fold(failure, |failure, ek| failure.because(ek.to_string()));
            Err(failure.fix("say more digits of the one that is meant"))
        }
    }
}

/// No node on record has this name.
pub(crate) fn unknown(name: &str) -> CommandError {
    let what = format!("no node on record is called {name}");
    CommandError::new(Exit::Usage, CommandCode::NodeUnknown, what).fix("see `latchkey node list`")
}
