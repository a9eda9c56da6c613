//! `latchkey status`: a cluster's nodes, from its directory; or from its API server, with what needs attention ([`in_api_server`]).

mod in_api_server;

use latchkey_attestation::EkDigest;
use latchkey_cluster_store::{NodeRecord, PendingRecord};
use latchkey_keys::ClusterId;
use serde::Serialize;

use crate::arguments::Arguments;
use crate::cluster_dir::ClusterDir;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::machines;
use crate::nodes::{lost, state};
use crate::output::{Output, Report, Style, Table, Tone, pairs, printable};

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    if let Some(api) = machines::api_server(arguments)? {
        return output.report(&in_api_server::status(&api, arguments.path("cluster"))?);
    }
    let directory = ClusterDir::open(arguments.required_path("cluster")?)?;
    let cluster = directory.required_cluster()?;
    let (nodes, wrong) = directory.nodes()?;
    let (held, denied) = (directory.pending()?, directory.denials()?);
    let uncounted = cluster.denials.is_none().then(|| UNCOUNTED.to_owned());
    for sentence in wrong.iter().chain(denied.unreadable()).chain(&lost(&denied)).chain(&uncounted) {
        output.say(Tone::Warning, "warning", &printable(sentence));
    }
    output.report(&StatusReport {
        cluster: cluster.name,
        cluster_id: cluster.cluster_id,
        nodes,
        held: held.into_iter().filter(|one| !denied.has(&one.ek_sha256)).collect(),
        denied: denied.iter().copied().collect(),
        unreadable_records: wrong,
        unreadable_denials: denied.unreadable().to_vec(),
        denials_lost: denied.lost(),
    })
}

/// Of a cluster that a release before this one made.
const UNCOUNTED: &str = "denials are not counted, so that none is missed that gets lost: see `latchkey upgrade store`";

/// A machine that nobody let in yet.
fn waits(held: &PendingRecord) -> String {
    let (name, ek, firmware) = (&held.asks_for_name, held.ek_sha256, held.firmware.word());
    format!("a machine that asks for the name {name}, firmware {firmware}, waits: `latchkey node admit {ek}`")
}

/// A line for each thing that somebody should look at.
fn attention_in_words(all: impl Iterator<Item = String>, style: Style) -> String {
    let line = |sentence: String| format!("{}  {}\n", style.paint(Tone::Warning, "look at"), printable(&sentence));
    let lines: String = all.map(line).collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

/// A cluster and its nodes.
#[derive(Serialize)]
struct StatusReport {
    cluster: String,
    cluster_id: ClusterId,
    nodes: Vec<NodeRecord>,
    /// Machines that wait for the operator.
    held: Vec<PendingRecord>,
    denied: Vec<EkDigest>,
    unreadable_records: Vec<String>,
    unreadable_denials: Vec<String>,
    /// How many are counted and not there.
    denials_lost: u64,
}

impl Report for StatusReport {
    fn exit(&self) -> Exit {
        let is_whole =
            self.unreadable_records.is_empty() && self.unreadable_denials.is_empty() && self.denials_lost == 0;
        Exit::of_damage(!is_whole)
    }

    fn text(&self, style: Style) -> String {
        let mut table = Table::new(&["NAME", "ROLE", "STATE", "EPOCH", "DISK", "TPM"]);
        for node in &self.nodes {
            let disk = node.disks.iter().max_by_key(|disk| disk.epoch);
            table.row([
                node.name.to_string(),
                node.role.name().to_owned(),
                if self.denied.contains(&node.ek_sha256) { "denied".to_owned() } else { state(node) },
                node.epoch().to_string(),
                disk.map(|disk| disk.uuid.to_string()).unwrap_or_default(),
                node.ek_sha256.to_string(),
            ]);
        }
        let head = pairs(&[("cluster", printable(&self.cluster)), ("cluster id", self.cluster_id.to_string())]);
        format!("{head}\n{table}{}", attention_in_words(self.held.iter().map(waits), style))
    }
}
