//! `latchkey status`: a cluster's nodes, from its directory.

use latchkey_cluster_store::{DiskState, NodeRecord, Outcome};
use serde_json::json;

use crate::cluster_dir::ClusterDir;
use crate::failure::{Exit, Failure};
use crate::output::{Output, Table, Tone, pairs, printable};
use crate::spec::Arguments;

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Exit, Failure> {
    let place = ClusterDir::open(arguments.required_path("cluster")?)?;
    let cluster = place.required_cluster()?;
    let (nodes, wrong) = place.nodes()?;
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

/// What was last heard of a node, about its newest disk.
fn state(node: &NodeRecord) -> String {
    let newest = node.disks.iter().max_by_key(|disk| disk.epoch);
    let reported = node.reported.as_ref().filter(|reported| newest.is_some_and(|disk| disk.uuid == reported.disk));
    match (reported.map(|reported| &reported.outcome), newest.map(|disk| disk.state)) {
        (Some(Outcome::Failed { code, .. }), _) => format!("failed: {code}"),
        (Some(Outcome::Succeeded), _) | (None, Some(DiskState::Confirmed)) => "member".to_owned(),
        (None, _) => "joining".to_owned(),
    }
}
