//! `latchkey status`: a cluster's nodes, from its directory.

use serde_json::json;

use crate::arguments::Arguments;
use crate::cluster_dir::ClusterDir;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::nodes::state;
use crate::output::{Output, Table, Tone, pairs, printable};

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let directory = ClusterDir::open(arguments.required_path("cluster")?)?;
    let cluster = directory.required_cluster()?;
    let (nodes, wrong) = directory.nodes()?;
    for sentence in &wrong {
        output.say(Tone::Warning, "warning", &printable(sentence));
    }
    let mut table = Table::new(&["NAME", "ROLE", "STATE", "EPOCH", "DISK", "TPM"]);
    for node in &nodes {
        let disk = node.disks.iter().max_by_key(|disk| disk.epoch);
        table.row([
            node.name.to_string(),
            node.role.name().to_owned(),
            state(node),
            node.epoch().to_string(),
            disk.map(|disk| disk.uuid.to_string()).unwrap_or_default(),
            node.ek_sha256.to_string(),
        ]);
    }
    let head = pairs(&[("cluster", printable(&cluster.name)), ("cluster id", cluster.cluster_id.to_string())]);
    let json = json!({
        "cluster": cluster.name, "cluster_id": cluster.cluster_id, "nodes": nodes, "unreadable_records": wrong,
    });
    output.result(&json, &format!("{head}\n{table}"))
}
