//! `latchkey upgrade execute --kubernetes` and `latchkey upgrade resume`: Kubernetes, one minor version up.

use std::time::Duration;

use latchkey_kubernetes::{ComponentList, Minor};
use serde::Serialize;

use super::before;
use super::cluster::{Cluster, Role, Target};
use super::roll::{Means, Roll, UnderWay, Upgraded, next};
use crate::api_server::ApiServer;
use crate::arguments::Arguments;
use crate::backup::{self, BackupOnce, BackupReport};
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::kubernetes;
use crate::lock::{Lock, Times, UPGRADE};
use crate::output::{Output, Report, Style, Table, Tone};
use crate::stock::{Kubectl, Stock};

/// How long a node may take to come back: it pulls images, maybe, and kubeadm has a quarter of an hour.
const WAIT: Duration = Duration::from_mins(30);

pub(super) fn execute(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let target = target(arguments, arguments.required_text("kubernetes")?)?;
    run(arguments, output, Some(target))
}

/// `latchkey upgrade resume`: goes on with an upgrade of Kubernetes at the node where it stopped.
pub(crate) fn resume(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    run(arguments, output, None)
}

fn run(arguments: &Arguments, output: &Output, wanted: Option<Target>) -> Result<Exit, CommandError> {
    let kubeconfig = arguments.required_path("kubeconfig")?;
    let stock = Stock::from_arguments(arguments);
    let program = arguments.path("restart").map(|file| stock.restart_program(file)).transpose()?;
    let means = Means { program, wait: arguments.duration("wait", WAIT)? };
    let backups = backup::directory(arguments);
    let report = smol::block_on(async {
        let kubectl: Kubectl = stock.kubectl(kubeconfig).await?;
        let api_server = ApiServer::new(kubectl.clone(), kubeconfig);
        if arguments.has("dry-run") {
            let under_way: UnderWay = Lock::look(&UPGRADE, &kubectl).await?;
            let target = target_of(arguments, wanted, &under_way)?;
            let cluster = Cluster::look(&kubectl).await?;
            if under_way.to.is_none() {
                before::may_begin(&api_server, &cluster, &target, output).await?;
            }
            return Ok(RollReport::planned(&cluster, &target));
        }
        let lock: Lock<UnderWay> =
            Lock::take(&UPGRADE, Times::USUAL, arguments.has("take-over"), &kubectl, output).await?;
        let upgrading = async {
            let target = target_of(arguments, wanted, lock.left())?;
            let cluster = Cluster::look(&kubectl).await?;
            let mut backup = BackupOnce::new(&kubectl, &backups, output);
            let is_new = lock.left().to.is_none();
            let list = next_list(&api_server, arguments, &target).await?;
            if next(&cluster, &target, &[]).is_none() {
                finish(&api_server, &lock, &target, list.as_deref()).await?;
                return Ok(RollReport::done(&target, Vec::new(), None));
            }
            if is_new {
                before::may_begin(&api_server, &cluster, &target, output).await?;
                let images = if list.is_some() { ", where images have one," } else { "" };
                let what = format!(
                    "publish the image with Kubernetes {}{images} first: whether it is admitted is not seen here",
                    target.minor
                );
                output.say(Tone::Warning, "admission", &what);
            }
            backup.get().await?;
            lock.note(|under_way| under_way.to = Some(target.minor.clone())).await?;
            let list = list.as_deref();
            let roll = Roll { api_server: &api_server, lock: &lock, target: &target, list, means: &means, output };
            let nodes = roll.all().await?;
            finish(&api_server, &lock, &target, list).await?;
            Ok(RollReport::done(&target, nodes, backup.report()))
        };
        Box::pin(lock.held(upgrading)).await
    })?;
    output.report(&report)
}

/// Nodes that join from now on hear of the new version, and there is nothing to go on with.
async fn finish(
    api_server: &ApiServer,
    lock: &Lock<UnderWay>,
    target: &Target,
    list: Option<&str>,
) -> Result<(), CommandError> {
    api_server.goes_to(&target.minor, list).await?;
    lock.note(|under_way| under_way.to = None).await
}

/// What nodes of images without Kubernetes get of the new version, from the mirror of before unless the user names another; nothing
/// in a cluster whose nodes got nothing by a list.
async fn next_list(
    api_server: &ApiServer,
    arguments: &Arguments,
    target: &Target,
) -> Result<Option<String>, CommandError> {
    let Some(file) = api_server.described().await? else { return Ok(None) };
    let Some(before) = file.next.map(|next| next.component_list).or(file.component_list) else { return Ok(None) };
    let minor: Minor = target.minor.parse().map_err(|refusal| kubernetes::refused(&refusal))?;
    let before = ComponentList::parse(before.as_bytes()).ok();
    let mirror = arguments.text("components")?.or_else(|| before.as_ref()?.mirror());
    let list = kubernetes::component_list(&kubernetes::table(arguments)?, minor, mirror)?;
    String::from_utf8(list).map(Some).map_err(|error| CommandError::usage(error.to_string()))
}

/// What is wanted, and nothing else than what is under way already.
fn target_of(arguments: &Arguments, wanted: Option<Target>, under_way: &UnderWay) -> Result<Target, CommandError> {
    match (wanted, &under_way.to) {
        (Some(wanted), None) => Ok(wanted),
        (Some(wanted), Some(to)) if wanted.minor == *to => Ok(wanted),
        (Some(wanted), Some(to)) => {
            let what =
                format!("the cluster is on its way to Kubernetes {to}, so it does not go to {} yet", wanted.minor);
            Err(CommandError::new(Exit::Usage, CommandCode::UpgradeUnderWay, what))
        }
        (None, Some(to)) => target(arguments, to),
        (None, None) => {
            let what = "there is no upgrade of Kubernetes to go on with";
            Err(CommandError::new(Exit::Usage, CommandCode::NoUpgradeUnderWay, what))
        }
    }
}

/// A minor version that the version table has.
fn target(arguments: &Arguments, minor: &str) -> Result<Target, CommandError> {
    let release = kubernetes::exact_version(arguments, minor)?;
    let exact = release.parse().map_err(|reason: String| CommandError::usage(reason))?;
    let minor: Minor = minor.parse().map_err(|refusal| kubernetes::refused(&refusal))?;
    Ok(Target { minor: minor.to_string(), exact })
}

/// What was upgraded, or would be.
#[derive(Serialize)]
struct RollReport {
    dry_run: bool,
    to: String,
    backup: Option<BackupReport>,
    /// In their order.
    nodes: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    name: String,
    role: Role,
    from: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uncordoned: Option<bool>,
}

impl RollReport {
    fn planned(cluster: &Cluster, target: &Target) -> Self {
        let left =
            cluster.machines.iter().filter(|machine| machine.is_marked(target) || machine.lacks(target).is_some());
        let row = |machine: &super::cluster::Machine| Row {
            name: machine.name().to_owned(),
            role: machine.role,
            from: machine.node.kubelet().to_owned(),
            to: None,
            seconds: None,
            uncordoned: None,
        };
        Self { dry_run: true, to: target.minor.clone(), backup: None, nodes: left.map(row).collect() }
    }

    fn done(target: &Target, nodes: Vec<Upgraded>, backup: Option<BackupReport>) -> Self {
        let row = |Upgraded { name, role, from, to, seconds, uncordoned }| Row {
            name,
            role,
            from,
            to: Some(to),
            seconds: Some(seconds),
            uncordoned: Some(uncordoned),
        };
        Self { dry_run: false, to: target.minor.clone(), backup, nodes: nodes.into_iter().map(row).collect() }
    }
}

impl Report for RollReport {
    fn text(&self, _: Style) -> String {
        if self.nodes.is_empty() {
            return format!("Every node has Kubernetes {}.\n", self.to);
        }
        let columns =
            if self.dry_run { &["NODE", "ROLE", "FROM"][..] } else { &["NODE", "ROLE", "FROM", "TO", "SECONDS"] };
        let mut table = Table::new(columns);
        for Row { name, role, from, to, seconds, .. } in &self.nodes {
            let mut row = vec![name.clone(), role.name().to_owned(), from.clone()];
            row.extend(to.clone());
            row.extend(seconds.map(|seconds| seconds.to_string()));
            table.row(row);
        }
        table.to_string()
    }
}
