//! `latchkey node admit`, `deny`, `allow`, `remove`: the operator's word about one machine.

use latchkey_cluster_store::{Denials, NodeName, ReleaseCode, RoleRule};
use serde_json::json;

use crate::arguments::Arguments;
use crate::cluster_dir::ClusterDir;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::{Output, Tone, pairs, printable};

/// Lets a machine in that no rule spoke of, under the role and name that the operator says.
pub(crate) fn admit(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let directory = ClusterDir::open(arguments.required_path("cluster")?)?;
    let (ek, record) = super::machine(arguments, &directory)?;
    let role = match arguments.text("role")? {
        None | Some("worker") => RoleRule::Worker,
        Some("control-plane") => RoleRule::ControlPlane,
        Some(other) => {
            return Err(CommandError::usage(format!("--role {other}: expected `worker` or `control-plane`")));
        }
    };
    let name = arguments.value::<NodeName>("name")?;
    if directory.denials()?.has(&ek) {
        let failure = CommandError::new(Exit::Usage, ReleaseCode::MachineDenied, format!("the TPM {ek} is denied"));
        return Err(failure.fix("take the denial back first, with `latchkey node allow`"));
    }
    let held = directory.pending()?.into_iter().find(|one| one.ek_sha256 == ek);
    directory.admit(ek, role, name.clone())?;
    let asks = held.as_ref().map(|one| printable(&one.asks_for_name));
    let named = name.as_ref().map(|name| name.as_str().to_owned());
    let shown = named.clone().or_else(|| record.map(|record| record.name.to_string()));
    let role_name = role.role().map_or("-", latchkey_cluster_store::Role::name);
    let text = pairs(&[
        ("admitted", output.paint(Tone::Good, &ek.to_string())),
        ("role", role_name.to_owned()),
        (
            "name",
            shown.unwrap_or_else(|| asks.clone().map_or("as it asks".to_owned(), |asks| format!("as it asks: {asks}"))),
        ),
    ]);
    let json = json!({"ek_sha256": ek, "role": role_name, "name": named, "was_waiting": held.is_some(), "asked_for_name": asks});
    output.result(&json, &text)
}

/// Shuts a machine out: a file of its own, which no mistake in another one undoes.
pub(crate) fn deny(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let directory = ClusterDir::open(arguments.required_path("cluster")?)?;
    let (ek, record) = super::machine(arguments, &directory)?;
    directory.deny(ek, arguments.text("reason")?.unwrap_or_default())?;
    let name = record.map(|record| record.name.to_string());
    let whom = name.clone().map_or_else(|| ek.to_string(), |name| format!("{name}, {ek}"));
    let text = format!(
        "{} {whom}\nIt gets no key from now on. If it is running, it keeps its open disk until it restarts. This names one\n\
         endorsement key: if the policy allows several of a TPM, deny each.\n",
        output.paint(Tone::Bad, "denied")
    );
    output.result(&json!({"ek_sha256": ek, "name": name, "denied": true}), &text)
}

/// Takes a denial back.
pub(crate) fn allow(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let directory = ClusterDir::open(arguments.required_path("cluster")?)?;
    let (ek, _) = super::machine(arguments, &directory)?;
    if !directory.allow(ek)? {
        let failure = CommandError::new(
            Exit::Usage,
            CommandCode::NotDenied,
            format!("the TPM {ek} is not denied in {}", directory.shown()),
        );
        return Err(failure.fix("see `latchkey node list`; a policy may deny it, too"));
    }
    let text = format!("{ek} is not denied any more; the other rules decide about it\n");
    output.result(&json!({"ek_sha256": ek, "denied": false}), &text)
}

/// Forgets a machine.
pub(crate) fn remove(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let directory = ClusterDir::open(arguments.required_path("cluster")?)?;
    let (ek, record) = super::machine(arguments, &directory)?;
    let denied = directory.denials().as_ref().is_ok_and(|denials: &Denials| denials.has(&ek));
    if !directory.remove(ek)? {
        let failure =
            CommandError::new(Exit::Usage, CommandCode::NodeUnknown, format!("nothing is on record of the TPM {ek}"));
        return Err(failure.fix("see `latchkey node list`"));
    }
    let name = record.as_ref().map(|record| record.name.to_string());
    let disks: Vec<String> =
        record.iter().flat_map(|record| record.disks.iter()).map(|disk| disk.uuid.to_string()).collect();
    let then = if denied {
        "It is still denied."
    } else {
        "It may join anew with an empty disk, if the rules let it in: to shut it out, use `latchkey node deny`."
    };
    let text = format!(
        "removed {}\nNobody gets the keys of its disks from the join service or from `latchkey recover` any more:\n{}\n{then}\n",
        name.clone().unwrap_or_else(|| ek.to_string()),
        disks.iter().map(|disk| format!("  {disk}")).collect::<Vec<_>>().join("\n"),
    );
    output.result(&json!({"ek_sha256": ek, "name": name, "disks": disks, "denied": denied}), &text)
}
