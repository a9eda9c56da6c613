//! The state of a cluster that is kept in its API server: its machines beside its Nodes, and what somebody should look at.

use std::collections::BTreeMap;
use std::path::Path;

use latchkey_attestation::EkDigest;
use latchkey_attestation::reference::format_rfc3339;
use latchkey_cluster_store::certificate::{SOON, end_of_data};
use latchkey_cluster_store::{Denials, NodeName, NodeRecord, PendingRecord};
use latchkey_durable_file::Links;
use latchkey_keys::ClusterId;
use serde::{Deserialize, Serialize};

use super::{UNCOUNTED, attention_in_words, waits};
use crate::api_server::{ApiServer, ClientCertificate, DenialMaps as _, KubernetesNode};
use crate::clock::now;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files;
use crate::init::JOIN_SERVICE;
use crate::node::block_on;
use crate::nodes::{lost, state};
use crate::output::{Report, Style, Table, pairs, printable};
use crate::seen::Seen;

/// More than any kubeconfig.
const MAX_KUBECONFIG: usize = 1024 * 1024;

/// Asks the API server; `directory` is the cluster's, if it is at hand.
pub(super) fn status(api: &ApiServer, directory: Option<&Path>) -> Result<ClusterReport, CommandError> {
    block_on(async {
        let cluster = api.cluster().await?.ok_or_else(|| {
            let what = format!("there is no cluster in {}", api.place());
            CommandError::new(Exit::Missing, CommandCode::ClusterMissing, what)
        })?;
        let (records, unreadable) = api.records().await?;
        let mut certificates = vec![ClientCertificate {
            of: format!("the operator ({})", api.shown()),
            ends: end_of_data(&api.kubectl().certificate_of_kubeconfig().await?),
        }];
        certificates.extend(directory.and_then(of_join_service));
        let found = Found {
            records,
            unreadable,
            seen: api.seen_of_all().await?,
            nodes: api.kubernetes_nodes().await?,
            uncounted: cluster.denials.is_none(),
            denials: api.denied().await?,
            held: api.waiting().await?,
            joining: api.joining().await?,
            certificates,
        };
        let version = api.kubectl().server().to_string();
        Ok(found.report(cluster.name, cluster.cluster_id, version, now()))
    })
}

/// The join service's certificate, where its kubeconfig lies in the cluster's directory.
fn of_join_service(directory: &Path) -> Option<ClientCertificate> {
    #[derive(Deserialize)]
    struct Kubeconfig {
        users: Vec<Entry>,
    }
    #[derive(Deserialize)]
    struct Entry {
        user: User,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    struct User {
        client_certificate_data: String,
    }
    let path = directory.join(JOIN_SERVICE);
    if !path.exists() {
        return None;
    }
    let text = files::read_regular(&path, MAX_KUBECONFIG, Links::Refused).unwrap_or_default();
    let parsed: Option<Kubeconfig> = serde_json::from_slice(&text).ok();
    let user = parsed.and_then(|parsed| parsed.users.into_iter().next()).map(|entry| entry.user);
    let ends = user.and_then(|user| end_of_data(&user.client_certificate_data));
    Some(ClientCertificate { of: format!("the join service ({})", path.display()), ends })
}

/// What was found.
struct Found {
    records: Vec<NodeRecord>,
    unreadable: Vec<String>,
    seen: BTreeMap<EkDigest, Seen>,
    nodes: Vec<KubernetesNode>,
    denials: Denials,
    /// Whether the cluster's document does not count them.
    uncounted: bool,
    held: Vec<PendingRecord>,
    joining: Option<String>,
    certificates: Vec<ClientCertificate>,
}

impl Found {
    fn report(self, cluster: String, cluster_id: ClusterId, api_server: String, now: u64) -> ClusterReport {
        let attention = self.attention(now);
        let rows = self.records.iter().map(|record| {
            let seen = self.seen.get(&record.ek_sha256).cloned().unwrap_or_default();
            let node = self.nodes.iter().find(|node| node.name() == record.name.as_str());
            NodeRow {
                name: record.name.clone(),
                role: record.role.name(),
                state: if self.denials.has(&record.ek_sha256) { "denied".to_owned() } else { state(record) },
                image: seen.image,
                version: seen.version,
                agent_version: seen.agent_version,
                last_attestation: seen.last_attestation,
                kubelet: node.map(|node| node.kubelet().to_owned()),
                ready: node.map(KubernetesNode::is_ready),
                ek_sha256: record.ek_sha256,
            }
        });
        let nodes = rows.collect();
        let holder = |ek: String| {
            let record = self.records.iter().find(|record| record.ek_sha256.to_string() == ek);
            record.map_or(ek, |record| record.name.to_string())
        };
        let certificates = self
            .certificates
            .iter()
            .map(|one| CertificateRow { of: one.of.clone(), ends: one.ends.map(format_rfc3339) });
        let certificates = certificates.collect();
        let held = self.held.iter().filter(|held| !self.denials.has(&held.ek_sha256)).cloned().collect();
        ClusterReport {
            held,
            cluster,
            cluster_id,
            api_server,
            nodes,
            joining: self.joining.clone().map(holder),
            certificates,
            attention,
            damaged: !(self.unreadable.is_empty() && self.denials.unreadable().is_empty()) || self.denials.lost() > 0,
        }
    }

    /// One sentence for each thing that somebody should look at.
    fn attention(&self, now: u64) -> Vec<String> {
        let mut all = Vec::new();
        for record in &self.records {
            let (name, state) = (&record.name, state(record));
            let node = self.nodes.iter().find(|node| node.name() == name.as_str());
            let denied = self.denials.has(&record.ek_sha256);
            if denied && node.is_some() {
                all.push(format!(
                    "{name} is denied, and still a Node: switch it off, and `latchkey node remove {name}`"
                ));
            }
            if !denied && state != "member" && state != "joining" {
                all.push(format!("{name}: {state}: see `latchkey node show {name}`"));
            }
            match node {
                None if !denied && state.starts_with("member") => {
                    all.push(format!("{name} is a member on record, and no Node of the cluster: look at its console"));
                }
                Some(node) if !denied && !node.is_ready() => {
                    all.push(format!("{name} is not ready: see `kubectl describe node {name}`"));
                }
                _ => {}
            }
        }
        let unknown = |node: &&KubernetesNode| self.records.iter().all(|record| record.name.as_str() != node.name());
        for node in self.nodes.iter().filter(unknown) {
            let name = node.name();
            all.push(format!("{name} is a Node, and no machine on record: nobody proved what it runs"));
        }
        all.extend(self.held.iter().filter(|held| !self.denials.has(&held.ek_sha256)).map(waits));
        all.extend(self.unreadable.iter().cloned());
        all.extend(self.denials.unreadable().iter().cloned());
        all.extend(lost(&self.denials));
        all.extend(self.uncounted.then(|| UNCOUNTED.to_owned()));
        for ClientCertificate { of, ends } in &self.certificates {
            match ends {
                None => all.push(format!("the certificate of {of} cannot be read")),
                Some(ends) if *ends <= now => {
                    all.push(format!("the certificate of {of} ended {}", format_rfc3339(*ends)));
                }
                Some(ends) if *ends - now < SOON => {
                    all.push(format!("the certificate of {of} ends in {} days", (*ends - now) / (24 * 60 * 60)));
                }
                Some(_) => {}
            }
        }
        all
    }
}

/// A cluster in its API server.
#[derive(Debug, Serialize)]
pub(super) struct ClusterReport {
    cluster: String,
    cluster_id: ClusterId,
    /// Its version.
    api_server: String,
    nodes: Vec<NodeRow>,
    /// Machines that wait for the operator; the attention names them, too.
    held: Vec<PendingRecord>,
    /// The control plane that joins at this moment.
    joining: Option<String>,
    certificates: Vec<CertificateRow>,
    attention: Vec<String>,
    /// Whether a record or a denial cannot be read; the attention names it.
    #[serde(skip)]
    damaged: bool,
}

#[derive(Debug, Serialize)]
struct NodeRow {
    name: NodeName,
    role: &'static str,
    state: String,
    image: String,
    version: String,
    agent_version: Option<String>,
    last_attestation: Option<String>,
    /// Nothing if it is no Node.
    kubelet: Option<String>,
    ready: Option<bool>,
    ek_sha256: EkDigest,
}

#[derive(Debug, Serialize)]
struct CertificateRow {
    of: String,
    ends: Option<String>,
}

impl Report for ClusterReport {
    fn exit(&self) -> Exit {
        Exit::of_damage(self.damaged)
    }

    fn text(&self, style: Style) -> String {
        let mut head = vec![
            ("cluster", printable(&self.cluster)),
            ("cluster id", self.cluster_id.to_string()),
            ("kubernetes", self.api_server.clone()),
        ];
        head.extend(self.joining.iter().map(|joining| ("joins now", printable(joining))));
        let unreadable = || "unreadable".to_owned();
        let ends = self
            .certificates
            .iter()
            .map(|one| format!("{} ends {}", printable(&one.of), one.ends.clone().unwrap_or_else(unreadable)));
        head.push(("certificates", ends.collect::<Vec<_>>().join("\n")));
        let mut table = Table::new(&["NAME", "ROLE", "STATE", "READY", "KUBELET", "IMAGE", "ATTESTED"]);
        for row in &self.nodes {
            let ready = row.ready.map_or("no Node", |ready| if ready { "yes" } else { "no" });
            table.row([
                row.name.to_string(),
                row.role.to_owned(),
                row.state.clone(),
                ready.to_owned(),
                printable(row.kubelet.as_deref().unwrap_or_default()),
                printable(&format!("{} {}", row.image, row.version)),
                printable(row.last_attestation.as_deref().unwrap_or_default()),
            ]);
        }
        format!("{}\n{table}{}", pairs(&head), attention_in_words(self.attention.iter().cloned(), style))
    }
}
