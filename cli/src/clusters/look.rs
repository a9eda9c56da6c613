//! `latchkey cluster list`, `latchkey cluster show`.

use std::collections::BTreeMap;

use latchkey_attestation::reference::format_rfc3339;
use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::cluster::{Host, RegisteredBy, Registration};
use latchkey_factory_plus::manager::{Cluster, Link, LinkState, Phase};
use serde::Serialize;

use super::reach::{Centre, failed};
use crate::arguments::Arguments;
use crate::clock::now;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::node::block_on;
use crate::output::{Output, Report, Style, Table, pairs, printable};

/// How old a report of an edge may be before the edge counts as silent, in milliseconds: edges report each minute.
const SILENT_MS: u64 = 180_000;

pub(crate) fn list(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let centre = Centre::of(arguments)?;
    output.waiting("asking the centre");
    let clusters = block_on(centre.clusters())?;
    output.report(&ListReport { clusters, now: now_ms() })
}

/// All clusters of a centre.
#[derive(Serialize)]
struct ListReport {
    clusters: BTreeMap<Uuid, Cluster>,
    #[serde(skip)]
    now: u64,
}

impl Report for ListReport {
    fn text(&self, _: Style) -> String {
        if self.clusters.is_empty() {
            return "The centre has no clusters: `latchkey cluster new` makes one.\n".to_owned();
        }
        let mut table = Table::new(&["NAME", "GROUP", "STATE"]);
        let mut sorted: Vec<_> = self.clusters.values().collect();
        sorted.sort_by(|one, other| one.name.cmp(&other.name));
        for cluster in sorted {
            table.row([printable(&cluster.name), printable(&cluster.group), state(cluster, self.now)]);
        }
        table.to_string()
    }
}

pub(crate) fn show(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let centre = Centre::of(arguments)?;
    output.waiting("asking the centre");
    let (cluster, links) = block_on(async {
        let (uuid, cluster) = centre.cluster(arguments).await?;
        let links = centre.manager.read(&format!("v1/cluster/{uuid}/link")).await.map_err(|error| failed(&error))?;
        Ok::<_, CommandError>((ClusterReport { uuid, cluster }, links.unwrap_or_default()))
    })?;
    output.report(&ShowReport { cluster, links })
}

/// One cluster, and the links that were made for it.
#[derive(Serialize)]
struct ShowReport {
    #[serde(flatten)]
    cluster: ClusterReport,
    /// The newest first.
    links: Vec<Link>,
}

impl Report for ShowReport {
    fn text(&self, style: Style) -> String {
        let text = self.cluster.text(style);
        if self.links.is_empty() {
            return text;
        }
        let mut table = Table::new(&["LINK", "STATE", "MADE BY", "EXPIRES", "USED"]);
        for link in &self.links {
            let used = link.uses.last().map_or("never".to_owned(), |last| {
                format!("{} by {} {}", printable(&last.what), printable(&last.from), format_rfc3339(last.at / 1000))
            });
            table.row([
                link.id.to_string(),
                link_state(link.state).to_owned(),
                printable(&link.by),
                format_rfc3339(link.expires / 1000),
                used,
            ]);
        }
        format!("{text}\n{table}")
    }
}

const fn link_state(state: LinkState) -> &'static str {
    match state {
        LinkState::Valid => "valid",
        LinkState::Redeemed => "redeemed",
        LinkState::Theft => "redeemed by two",
        LinkState::Expired => "expired",
        LinkState::Revoked => "revoked",
    }
}

/// One cluster.
#[derive(Serialize)]
pub(super) struct ClusterReport {
    pub(super) uuid: Uuid,
    #[serde(flatten)]
    pub(super) cluster: Cluster,
}

impl Report for ClusterReport {
    fn text(&self, _: Style) -> String {
        let cluster = &self.cluster;
        let bare = if cluster.bare { " (bare)" } else { "" };
        let mut lines = vec![
            ("name", printable(&cluster.name)),
            ("UUID", self.uuid.to_string()),
            ("state", state(cluster, now_ms())),
            ("group", printable(&cluster.group)),
            ("namespace", printable(&cluster.namespace)),
            ("chart", format!("{}{bare}", cluster.chart)),
            ("secrets", if cluster.sealing { "can be sealed" } else { "cannot be sealed yet" }.to_owned()),
        ];
        if let Some(at) = cluster.theft {
            lines.push(("theft", theft(at, now_ms())));
            lines.push(("fix", THEFT_FIX.to_owned()));
        }
        if let Some(registration) = &cluster.registration {
            lines.extend(registered(registration));
        }
        if let Some(problem) = &cluster.error {
            lines.push(("fix", printable(&problem.fix)));
        }
        lines.extend(cluster.errors.iter().map(|sentence| ("edge says", printable(sentence))));
        let mut text = pairs(&lines);
        if !cluster.hosts.is_empty() {
            let mut table = Table::new(&["HOST", "STATE", "ROLE", "KUBERNETES", "ARCH", "TAINT"]);
            for host in &cluster.hosts {
                table.row(row(host, silent(cluster.heartbeat, now_ms())));
            }
            text.push('\n');
            text.push_str(&table.to_string());
        }
        text
    }
}

/// Which machine registered a cluster, what it ran, and by whose word.
fn registered(record: &Registration) -> [(&'static str, String); 5] {
    let Registration { ek_sha256, image, policy_sha256, by, at } = record;
    let word = match by {
        RegisteredBy::Invitation(hash) => format!("the invitation {hash}"),
        RegisteredBy::Rule(name) => format!("the rule {name}"),
        RegisteredBy::Operator(word) => format!("the operator's word {word}"),
    };
    let manifest = format!("revision {} of {}", image.serial, image.manifest);
    [
        ("machine", printable(&format!("TPM with the endorsement key {ek_sha256}"))),
        ("image", printable(&format!("{} {} for {}, {manifest}", image.name, image.version, image.machine))),
        ("policy", printable(policy_sha256)),
        ("registered", printable(&format!("by {word}"))),
        ("at", format_rfc3339(*at)),
    ]
}

fn row(host: &Host, silent: bool) -> [String; 6] {
    let state = match (silent, host.ready) {
        (true, _) => "stale",
        (false, Some(false)) => "offline",
        (false, _) => "online",
    };
    let role = if host.control_plane { "control-plane" } else { "worker" };
    let taint = host.specialised.as_deref().unwrap_or("-");
    [
        printable(&host.hostname),
        state.to_owned(),
        role.to_owned(),
        printable(&host.k8s_version),
        printable(&host.arch),
        printable(taint),
    ]
}

/// Whether an edge was heard of, too long ago. A time to come is one of now: clocks differ.
fn silent(heartbeat: Option<u64>, now: u64) -> bool {
    heartbeat.is_some_and(|heartbeat| now.saturating_sub(heartbeat) > SILENT_MS)
}

/// What is left of a cluster that was decommissioned.
fn ended(cluster: &Cluster) -> String {
    let free = cluster
        .name_free
        .map_or_else(String::new, |at| format!("; its name is free from {}", format_rfc3339(at / 1000)));
    format!("decommissioned{free}")
}

/// The state of a cluster in a few words.
pub(super) fn state(cluster: &Cluster, now: u64) -> String {
    if let Some(problem) = &cluster.error {
        return format!("stuck: {}", printable(&problem.message));
    }
    if cluster.theft.is_some() && cluster.phase == Phase::Ready {
        return "its bootstrap link was in two hands: `latchkey cluster show` says more".to_owned();
    }
    match cluster.phase {
        Phase::Refused => "refused".to_owned(),
        Phase::Accounts => "making its address and accounts".to_owned(),
        Phase::Repository => "making its repository".to_owned(),
        Phase::Deleting => "being deleted".to_owned(),
        Phase::Deleted => "deleted; its accounts are disabled".to_owned(),
        Phase::Decommissioning => "being decommissioned".to_owned(),
        Phase::Decommissioned => ended(cluster),
        Phase::Ready if !cluster.bootstrapped => "ready to be bootstrapped".to_owned(),
        Phase::Ready if silent(cluster.heartbeat, now) => "silent".to_owned(),
        Phase::Ready => {
            let ready = cluster.hosts.iter().filter(|host| host.ready != Some(false)).count();
            format!("{ready} of {} hosts ready", cluster.hosts.len())
        }
    }
}

/// What helps when a link was in two hands.
const THEFT_FIX: &str = "if the edge that joined is yours, `latchkey cluster revoke`; otherwise also delete and decommission the cluster, and make it anew";

fn theft(at: u64, now: u64) -> String {
    let minutes = now.saturating_sub(at) / 60_000;
    format!("another edge tried to redeem the bootstrap link after one had, {minutes} min ago")
}

pub(super) fn now_ms() -> u64 {
    now() * 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_edge_is_silent() {
        for (heartbeat, now, expected) in
            [(None, 5, false), (Some(9), 5, false), (Some(1), SILENT_MS + 1, false), (Some(1), SILENT_MS + 2, true)]
        {
            assert_eq!(silent(heartbeat, now), expected, "{heartbeat:?} {now}");
        }
    }
}
