//! What must hold before a cluster goes to another version.

use super::check::CheckReport;
use super::cluster::{Cluster, Target};
use super::deprecated::deprecated_apis;
use crate::api_server::ApiServer;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::output::{Output, Tone};
use crate::stock::Version;

/// Whether an upgrade may begin: one minor version up, every node well, and no API in use that goes.
pub(super) async fn may_begin(
    api_server: &ApiServer,
    cluster: &Cluster,
    target: &Target,
    output: &Output,
) -> Result<(), CommandError> {
    let versions = cluster.control_planes().map(|machine| (machine.name(), machine.api_server()));
    let mut first = Vec::new();
    let mut lowest: Option<Version> = None;
    for (name, version) in versions {
        match version {
            Some(version) => lowest = Some(lowest.map_or(version, |lowest| lowest.min(version))),
            None => first.push(format!("node {name}: its API server cannot be seen, or is none that kubeadm runs")),
        }
    }
    let Some(lowest) = lowest else {
        first.push("the cluster shows no control plane whose API server is a pod of kubeadm's".to_owned());
        return Err(not_ready(first));
    };
    let Version { major, minor, .. } = lowest;
    let expected = format!("{major}.{}", minor.saturating_add(1));
    if expected != target.minor {
        first.push(format!("the API servers are {lowest}, which can go to {expected}, and not to {}", target.minor));
        return Err(not_ready(first));
    }
    let nodes: Vec<_> = cluster.machines.iter().map(|machine| machine.node.clone()).collect();
    let deprecated = deprecated_apis(&api_server.kubectl().raw_text("/metrics").await?);
    for api in &deprecated {
        output.say(Tone::Warning, "deprecated", &api.to_string());
    }
    let checked = CheckReport::of(lowest, expected, Some(target.exact.to_string()), &nodes, deprecated);
    first.extend(checked.first);
    first.extend(ailing(cluster, None));
    if first.is_empty() { Ok(()) } else { Err(not_ready(first)) }
}

/// Whether one more node may go: the others are well.
pub(super) fn may_go_on(cluster: &Cluster, node: &str) -> Result<(), CommandError> {
    let first: Vec<_> = ailing(cluster, Some(node)).collect();
    if first.is_empty() { Ok(()) } else { Err(not_ready(first)) }
}

fn ailing(cluster: &Cluster, but: Option<&str>) -> impl Iterator<Item = String> {
    let others = cluster.machines.iter().filter(move |machine| Some(machine.name()) != but);
    others.filter_map(|machine| Some(format!("node {}: {}", machine.name(), machine.ails()?)))
}

fn not_ready(first: Vec<String>) -> CommandError {
    let error = CommandError::local(CommandCode::UpgradeNotReady, "the cluster cannot be upgraded yet");
    first.into_iter().fold(error, CommandError::because)
}
