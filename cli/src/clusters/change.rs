//! `latchkey cluster new`, `wait`, `delete`, `decommission`.

use std::time::{Duration, Instant};

use latchkey_factory_plus::cluster::Configuration;
use latchkey_factory_plus::manager::Phase;
use latchkey_factory_plus::{ClusterName, Uuid, uuids};
use latchkey_factory_plus_client::Precondition;
use latchkey_factory_plus_client::notify::Event;
use serde::{Deserialize, Serialize};
use smol::future::FutureExt as _;

use super::NAMESPACE;
use super::look::{ClusterReport, now_ms, state};
use super::reach::{Centre, failed};
use crate::arguments::Arguments;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::node::block_on;
use crate::output::{Output, Report, Style, Tone};

/// How long a set-up may take where nobody says.
const PATIENCE: Duration = Duration::from_mins(1);

/// What the cluster manager's own configuration says of charts.
#[derive(Deserialize)]
struct ManagerConfig {
    helm: Charts,
}

#[derive(Deserialize)]
struct Charts {
    cluster: Uuid,
}

/// A request that says nothing more.
#[derive(Serialize)]
struct Nothing {}

/// What people call an object.
#[derive(Serialize)]
struct Info<'a> {
    name: &'a str,
}

pub(crate) fn new(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let name = arguments.operand_text(0)?;
    let name: ClusterName = name.parse().map_err(|error| CommandError::usage(format!("{name}: {error}")))?;
    let namespace = arguments.text("namespace")?.unwrap_or(NAMESPACE);
    let chart = arguments.value::<Uuid>("chart")?;
    let centre = Centre::of(arguments)?;
    let patience = arguments.timeout(PATIENCE)?;
    block_on(async {
        output.waiting("asking the centre");
        if let Some(reason) = centre.name_refusal(&name).await? {
            let taken = CommandError::new(Exit::Usage, CommandCode::EdgeClusterExists, reason);
            return Err(taken.fix("choose another name, or see `latchkey cluster list`"));
        }
        let chart = match chart {
            Some(chart) => chart,
            None => usual_chart(&centre).await?,
        };
        let bare = arguments.has("bare");
        let configuration = Configuration {
            chart,
            name: name.clone(),
            namespace: namespace.to_owned(),
            bare,
            values: if bare { Configuration::bare_values() } else { serde_json::Map::default() },
        };
        let uuid = make(&centre, &configuration).await?;
        output.say(Tone::Good, "made", &format!("{name} {uuid}"));
        settled(&centre, uuid, patience, output).await
    })
}

/// The chart that the centre's own configuration names.
async fn usual_chart(centre: &Centre) -> Result<Uuid, CommandError> {
    let app = uuids::application::SERVICE_CONFIG;
    let config =
        centre.config_db.entry::<ManagerConfig>(app, uuids::service::MANAGER).await.map_err(|error| failed(&error))?;
    config.map(|(config, _)| config.helm.cluster).ok_or_else(|| {
        CommandError::usage("the centre names no chart for clusters").fix("name one by its UUID: --chart")
    })
}

async fn make(centre: &Centre, configuration: &Configuration) -> Result<Uuid, CommandError> {
    let (_, object) =
        centre.config_db.create_object(uuids::class::EDGE_CLUSTER, None).await.map_err(|error| failed(&error))?;
    let uuid = object.uuid;
    let info = Info { name: configuration.name.as_str() };
    let anew = Precondition::None;
    centre.config_db.put_entry(uuids::application::INFO, uuid, &info, &anew).await.map_err(|error| failed(&error))?;
    let app = uuids::application::EDGE_CLUSTER_CONFIGURATION;
    centre
        .config_db
        .put_entry(app, uuid, configuration, &Precondition::Absent)
        .await
        .map_err(|error| failed(&error))?;
    Ok(uuid)
}

pub(crate) fn wait(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let centre = Centre::of(arguments)?;
    let patience = arguments.timeout(PATIENCE)?;
    block_on(async {
        let (uuid, _) = centre.cluster(arguments).await?;
        settled(&centre, uuid, patience, output).await
    })
}

/// Follows a cluster until it is ready, and reports it; a failure that is not tried again ends the wait at once.
async fn settled(centre: &Centre, uuid: Uuid, patience: Duration, output: &Output) -> Result<Exit, CommandError> {
    let mut search = centre.manager.notify().search("v1/cluster/", None);
    let end = Instant::now() + patience;
    let mut last = "nothing was heard of it".to_owned();
    loop {
        let late = async {
            smol::Timer::at(end).await;
            None
        };
        let Some(event) = async { Some(search.next().await) }.or(late).await else {
            let what = format!("the cluster was not ready within {} s: {last}", patience.as_secs());
            return Err(CommandError::new(Exit::Unreachable, CommandCode::EdgeClusterNotReady, what));
        };
        if let Event::Stale(_, why) = &event {
            last = why.to_string();
        }
        let Some(view) = search.children().and_then(|children| children.get(&uuid).cloned()) else { continue };
        let cluster = latchkey_factory_plus::manager::Cluster::deserialize(&*view).map_err(|error| {
            CommandError::new(Exit::Failed, CommandCode::CentreRefuses, "the cluster manager says something unknown")
                .because(error.to_string())
        })?;
        if cluster.phase == Phase::Ready && cluster.ready {
            return output.report(&ClusterReport { uuid, cluster });
        }
        last = state(&cluster, now_ms());
        output.waiting(&format!("{}: {last}", cluster.name));
        if let Some(problem) = cluster.error.filter(|problem| !problem.retried) {
            return Err(
                CommandError::new(Exit::Failed, CommandCode::EdgeClusterNotReady, problem.message).fix(problem.fix)
            );
        }
    }
}

pub(crate) fn delete(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let centre = Centre::of(arguments)?;
    let app = uuids::application::EDGE_CLUSTER_CONFIGURATION;
    let (uuid, name) = block_on(async {
        let (uuid, cluster) = centre.cluster(arguments).await?;
        centre.config_db.delete_entry(app, uuid, &Precondition::None).await.map_err(|error| failed(&error))?;
        Ok::<_, CommandError>((uuid, cluster.name))
    })?;
    let note = "Its grants end and its accounts are disabled; `latchkey cluster decommission` removes what is left.";
    output.report(&EndReport { uuid, name, done: "is being deleted", note })
}

pub(crate) fn decommission(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let centre = Centre::of(arguments)?;
    let (uuid, name) = block_on(async {
        let (uuid, cluster) = centre.cluster(arguments).await?;
        if !matches!(cluster.phase, Phase::Deleting | Phase::Deleted | Phase::Decommissioning | Phase::Decommissioned) {
            let what = format!("{} is not deleted", cluster.name);
            let failure = CommandError::new(Exit::Usage, CommandCode::EdgeClusterExists, what);
            return Err(failure.fix("delete it first: `latchkey cluster delete`"));
        }
        let path = format!("v1/cluster/{uuid}/decommission");
        centre.manager.post_only(&path, &Nothing {}).await.map_err(|error| failed(&error))?;
        Ok((uuid, cluster.name))
    })?;
    output.report(&EndReport { uuid, name, done: "is being decommissioned", note: "" })
}

/// A cluster comes to its end.
#[derive(Serialize)]
struct EndReport {
    uuid: Uuid,
    name: String,
    #[serde(skip)]
    done: &'static str,
    #[serde(skip)]
    note: &'static str,
}

impl Report for EndReport {
    fn text(&self, _: Style) -> String {
        let note = if self.note.is_empty() { String::new() } else { format!("{}\n", self.note) };
        format!("{} {}.\n{note}", self.name, self.done)
    }
}
