//! `latchkey status`: a cluster's nodes, from its directory; or from its API server, with what needs attention ([`in_api_server`]).

mod in_api_server;

use latchkey_cluster_store::NodeRecord;
use latchkey_keys::ClusterId;
use serde::Serialize;

use crate::arguments::Arguments;
use crate::cluster_dir::ClusterDir;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::machines;
use crate::nodes::state;
use crate::output::{Output, Report, Style, Table, Tone, pairs, printable};

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    if let Some(api) = machines::api_server(arguments)? {
        return output.report(&in_api_server::status(&api, arguments.path("cluster"))?);
    }
    let directory = ClusterDir::open(arguments.required_path("cluster")?)?;
    let cluster = directory.required_cluster()?;
    let (nodes, wrong) = directory.nodes()?;
    for sentence in &wrong {
        output.say(Tone::Warning, "warning", &printable(sentence));
    }
    output.report(&StatusReport {
        cluster: cluster.name,
        cluster_id: cluster.cluster_id,
        nodes,
        unreadable_records: wrong,
    })
}

/// A cluster and its nodes.
#[derive(Serialize)]
struct StatusReport {
    cluster: String,
    cluster_id: ClusterId,
    nodes: Vec<NodeRecord>,
    unreadable_records: Vec<String>,
}

impl Report for StatusReport {
    fn text(&self, _: Style) -> String {
        let mut table = Table::new(&["NAME", "ROLE", "STATE", "EPOCH", "DISK", "TPM"]);
        for node in &self.nodes {
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
        let head = pairs(&[("cluster", printable(&self.cluster)), ("cluster id", self.cluster_id.to_string())]);
        format!("{head}\n{table}")
    }
}
