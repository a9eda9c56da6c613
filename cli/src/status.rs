//! `latchkey status`: a cluster's nodes, from its folder.

use serde_json::json;

use crate::failure::Failure;
use crate::folder::Folder;
use crate::output::{Output, Table, pairs};
use crate::spec::Arguments;

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let folder = Folder::new(arguments.required_path("cluster")?);
    let cluster = folder.cluster()?.ok_or_else(|| {
        let what = format!("{} holds no cluster yet", folder.shown());
        Failure::usage(what).fix("begin one with `latchkey init`")
    })?;
    let nodes = folder.nodes()?;
    let mut table = Table::new(&["NAME", "ROLE", "OUTCOME", "EPOCH", "DISK", "TPM"]);
    for node in &nodes {
        table.row([
            node.node_name.clone(),
            node.role.clone(),
            node.outcome.clone(),
            node.epoch.to_string(),
            node.disk_uuid.to_string(),
            node.ek_sha256.to_string(),
        ]);
    }
    let head = pairs(&[("cluster", cluster.name.clone()), ("cluster id", cluster.cluster_id.to_string())]);
    let json = json!({"cluster": cluster.name, "cluster_id": cluster.cluster_id, "nodes": nodes});
    output.result(&json, &format!("{head}\n{table}"));
    Ok(())
}
