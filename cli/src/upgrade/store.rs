//! `latchkey upgrade store`: what a cluster's directory or API server lacks of what this release needs, shown, and then made by the
//! operator's word, who has seen who is shut out.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use latchkey_attestation::EkDigest;
use latchkey_cluster_store::PlaceCode;
use latchkey_cluster_store::objects::REVISIONS_MAP;
use serde::Serialize;

use crate::api_server::{ApiServer, DenialMaps as _};
use crate::arguments::Arguments;
use crate::centre::admin;
use crate::cluster_dir::ClusterDir;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::machines;
use crate::node::block_on;
use crate::output::{Output, Report, Style, Tone, pairs, printable};

/// How long a join service may take to say how many machines are shut out there.
const SAYS: Duration = Duration::from_secs(5);
/// The line of its metrics that does.
const DENIED: &str = "latchkey_join_service_denied ";

/// What else follows where that document is begun with nothing in it.
const REVISIONS_BEGIN_ANEW: &str = "With latchkey-revisions the manifests' revisions begin anew: an older one is taken until the newest\n\
     of each is installed again. See `latchkey policy check`.\n";
/// Said first where an `allow` was cut that left its machine denied: the confirmation would count it as denied for good.
const STILL_DENIED: &str =
    "Of those being allowed, one that is denied still stays so: `latchkey node allow` ends that first.\n";
/// What says which cluster this is.
const CLUSTER: &str = "cluster.json";

/// Where the cluster is kept.
enum Place {
    Directory(ClusterDir),
    ApiServer(ApiServer),
}

pub(crate) fn store(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let place = Place::of(arguments)?;
    let service = arguments.value::<SocketAddr>("join-service")?.map(denied_at).transpose()?;
    let mut found = place.look(service)?;
    let Some(denials) = arguments.value::<u64>("denials")? else { return output.report(&found) };
    if !found.rights.is_empty() {
        let what = format!("the rights in {} are not those of this release", found.place);
        let failure = CommandError::new(Exit::Failed, PlaceCode::ChartNotUpgraded, what);
        return Err(found.rights.iter().fold(failure, CommandError::because));
    }
    if denials != found.denials() || !place.count_anew(denials)? {
        let what = format!("--denials {denials}: there are {} in {}", found.denials(), found.place);
        return Err(CommandError::new(Exit::Usage, CommandCode::DenialsNotConfirmed, what));
    }
    let begun_anew = found.missing;
    found = StoreReport { done: true, begun_anew, ..place.look(service)? };
    output.report(&found)
}

impl Place {
    /// A directory that lacks something of its own comes first, also of a cluster that was moved from there into its API server.
    fn of(arguments: &Arguments) -> Result<Self, CommandError> {
        let directory = arguments.path("cluster").map(ClusterDir::open_lacking).transpose()?;
        if let Some(directory) = directory
            && !directory.missing_places()?.is_empty()
        {
            return Ok(Self::Directory(directory));
        }
        match machines::api_server(arguments)? {
            Some(api) => Ok(Self::ApiServer(api)),
            None => Ok(Self::Directory(ClusterDir::open(arguments.required_path("cluster")?)?)),
        }
    }

    fn look(&self, service_denies: Option<u64>) -> Result<StoreReport, CommandError> {
        let (place, missing, nodes, denials, cluster, rights) = match self {
            Self::Directory(directory) => {
                let missing = directory.missing_places()?;
                let is_gone = missing.contains(&directory.store().nodes_path());
                let nodes = if is_gone { Vec::new() } else { directory.nodes()?.0 };
                let missing = missing.iter().map(|path| path.display().to_string()).collect();
                let cluster = directory.cluster()?;
                // Machines are on record of a cluster that was founded.
                if cluster.is_none() && !nodes.is_empty() {
                    let what = format!("{} is gone, and machines are on record", directory.path(CLUSTER).display());
                    let failure = CommandError::new(Exit::Missing, PlaceCode::Missing, what);
                    return Err(failure.fix("put it back from a copy: it says which cluster this is"));
                }
                (directory.shown(), missing, nodes, directory.known_denials()?, cluster, Vec::new())
            }
            Self::ApiServer(api) => block_on(async {
                let cluster = api.founded().await?;
                let missing = api.missing_documents().await?;
                let denials = api.known_denials(&missing).await?;
                let (nodes, rights) = (api.records().await?.0, api.rights_amiss().await?);
                Ok::<_, CommandError>((api.place(), missing, nodes, denials, Some(cluster), rights))
            })?,
        };
        // Before there is a cluster nothing is counted.
        let is_counted = cluster.is_none_or(|cluster| cluster.denials.is_some());
        let denied: Vec<EkDigest> = denials.iter().copied().collect();
        let leaving = denials.counted().map(|counted| counted.leaving.clone()).unwrap_or_default();
        let is_settled = denials.lost() == 0 && leaving.is_empty();
        let is_fewer = service_denies.is_some_and(|number| number > denied.len() as u64);
        Ok(StoreReport {
            lacking: !missing.is_empty() || !rights.is_empty() || !is_counted || !is_settled || is_fewer,
            place,
            missing,
            nodes: nodes.iter().map(|node| node.name.to_string()).collect(),
            denied,
            leaving,
            rights,
            counted: denials.counted().map(|counted| counted.count),
            service_denies,
            done: false,
            begun_anew: Vec::new(),
        })
    }

    fn count_anew(&self, denials: u64) -> Result<bool, CommandError> {
        match self {
            Self::Directory(directory) => directory.count_anew(denials),
            Self::ApiServer(api) => block_on(api.count_anew(denials)),
        }
    }
}

/// How many machines are shut out at the join service that serves its metrics there.
fn denied_at(address: SocketAddr) -> Result<u64, CommandError> {
    let failed = |why: String| {
        let what = format!("the join service at {address} does not say how many machines it shuts out");
        let failure = CommandError::new(Exit::Unreachable, CommandCode::Unreachable, what).because(why);
        failure
            .fix("name its `admin_listen`; it is on loopback, so run this where it runs, or leave --join-service out")
    };
    let said = admin::ask(address, "GET /metrics", SAYS).map_err(|error| failed(error.to_string()))?;
    let number = said.body.lines().find_map(|line| line.strip_prefix(DENIED)?.trim().parse().ok());
    number.ok_or_else(|| failed(format!("there is no {DENIED}in its answer")))
}

/// What is there, and what is missing.
#[derive(Debug, Serialize)]
struct StoreReport {
    place: String,
    /// What `latchkey init` made and is gone.
    missing: Vec<String>,
    /// The nodes on record, by name.
    nodes: Vec<String>,
    denied: Vec<EkDigest>,
    /// Those that a command began to allow and did not come to its end; such a machine is denied still if it is among those above.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    leaving: BTreeSet<EkDigest>,
    /// The join service's rights in an API server that are missing, or are too many.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rights: Vec<String>,
    /// How many machines were shut out, by the cluster's document; nothing where it does not count them.
    counted: Option<u64>,
    /// How many are at the running join service, if it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    service_denies: Option<u64>,
    /// Whether there is something to be made.
    lacking: bool,
    /// Whether that was done.
    done: bool,
    /// What was missing before, and is there with nothing in it now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    begun_anew: Vec<String>,
}

impl StoreReport {
    /// How many are shut out by what is there.
    fn denials(&self) -> u64 {
        self.denied.len() as u64
    }
}

impl Report for StoreReport {
    fn exit(&self) -> Exit {
        if self.lacking && !self.done { Exit::Failed } else { Exit::Done }
    }

    fn text(&self, style: Style) -> String {
        let list = |all: Vec<String>| if all.is_empty() { "none".to_owned() } else { all.join("\n") };
        let number = |known: Option<u64>, none: &str| known.map_or_else(|| none.to_owned(), |known| known.to_string());
        let mut lines = vec![
            ("cluster", printable(&self.place)),
            ("missing", list(self.missing.iter().map(|name| printable(name)).collect())),
            ("nodes", list(self.nodes.clone())),
            ("denied", list(self.denied.iter().map(ToString::to_string).collect())),
            ("counted", number(self.counted, "not yet, as in releases before")),
        ];
        if !self.leaving.is_empty() {
            lines.push(("being allowed", list(self.leaving.iter().map(ToString::to_string).collect())));
        }
        if !self.rights.is_empty() {
            lines.push(("rights", list(self.rights.iter().map(|right| printable(right)).collect())));
        }
        if !self.begun_anew.is_empty() {
            lines.push(("begun anew", list(self.begun_anew.iter().map(|name| printable(name)).collect())));
        }
        if self.service_denies.is_some() {
            lines.push(("at the service", number(self.service_denies, "")));
        }
        let (denials, service) = (self.denials(), self.service_denies.unwrap_or_default());
        let fewer = self.counted.unwrap_or_default().max(service) > denials;
        let then = match (self.done, self.lacking) {
            (true, _) => "All is there now, and denials are counted from here on.".to_owned(),
            (false, false) => "Nothing is missing.".to_owned(),
            (false, true) if !self.rights.is_empty() => {
                let chart = PlaceCode::ChartNotUpgraded;
                format!("{}: {}.", style.paint(Tone::Bad, chart.as_str()), chart.remedy())
            }
            (false, true) if fewer => format!(
                "{}: more machines were shut out than these. The join service's log has their digests (\"Machines are shut out\"):\n\
                 deny them again first, with `latchkey node deny`. If these are all that are meant, say --denials {denials}.",
                style.paint(Tone::Bad, "denials are lost")
            ),
            (false, true) => {
                let allow = if self.leaving.iter().any(|ek| self.denied.contains(ek)) { STILL_DENIED } else { "" };
                format!("{allow}If these are all that are shut out, run the same command with --denials {denials}.")
            }
        };
        let mut all = self.missing.iter().chain(&self.begun_anew);
        let revisions = if all.any(|name| name == REVISIONS_MAP) { REVISIONS_BEGIN_ANEW } else { "" };
        format!("{}\n{then}\n{revisions}", pairs(&lines))
    }
}
