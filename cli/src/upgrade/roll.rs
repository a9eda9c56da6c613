//! One node after the other, to another version: cordoned and drained, restarted, waited for, uncordoned.

use std::time::{Duration, Instant};

use latchkey_cluster_store::{Outcome, Reported};
use serde::{Deserialize, Serialize};
use smol::Timer;

use super::before;
use super::cluster::{Cluster, Machine, Role, Target};
use crate::api_server::ApiServer;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::lock::{Lock, Times};
use crate::output::{Output, Tone};
use crate::stock::{RestartProgram, Scope, StockCode};

/// How long a node's pods may take to go.
const DRAIN: Duration = Duration::from_mins(5);
/// How often a node is looked at, and how many looks there are for one at what it reported.
const LOOK: Duration = Duration::from_secs(1);
const LOOKS: u32 = 10;
/// How long another node may be unwell before the next one goes: a kubelet that starts anew shows its pods as not ready for a while.
const SETTLES: Duration = Duration::from_mins(5);
/// What may be done beside waiting for a control plane.
const MARGIN: Duration = Duration::from_mins(10);

/// What is noted of an upgrade in the cluster, until it is done. How far it is, its nodes show.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct UnderWay {
    /// The minor version; none if there is no upgrade.
    pub(super) to: Option<String>,
}

/// How machines are restarted, and for how long they are waited for.
pub(super) struct Means {
    pub(super) program: Option<RestartProgram>,
    pub(super) wait: Duration,
}

pub(super) struct Roll<'a> {
    pub(super) api_server: &'a ApiServer,
    pub(super) lock: &'a Lock<UnderWay>,
    pub(super) target: &'a Target,
    /// What nodes of images without Kubernetes get of the version; nothing in a cluster that has no such list.
    pub(super) list: Option<&'a str>,
    pub(super) means: &'a Means,
    pub(super) output: &'a Output,
}

/// A node that was upgraded.
#[derive(Debug, Serialize)]
pub(super) struct Upgraded {
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) from: String,
    pub(super) to: String,
    pub(super) seconds: u64,
    /// Whether pods come to it again; somebody else may not want that.
    pub(super) uncordoned: bool,
}

#[derive(Serialize)]
struct Patch<'a> {
    metadata: PatchMetadata<'a>,
    spec: PatchSpec,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PatchMetadata<'a> {
    resource_version: &'a str,
    annotations: Mark<'a>,
}

#[derive(Serialize)]
struct Mark<'a> {
    #[serde(rename = "latchkey.dev/upgrade")]
    to: Option<&'a str>,
}

#[derive(Serialize)]
struct PatchSpec {
    /// None takes the field away, as `kubectl uncordon` does.
    unschedulable: Option<bool>,
}

/// The next one: control planes, then workers; of each the one that is in work first. Nobody goes twice.
pub(super) fn next<'a>(cluster: &'a Cluster, target: &Target, done: &[Upgraded]) -> Option<&'a Machine> {
    [Role::ControlPlane, Role::Worker].into_iter().find_map(|role| {
        let goes = |machine: &&Machine| machine.role == role && done.iter().all(|one| one.name != machine.name());
        let begun = cluster.machines.iter().filter(goes).find(|machine| machine.is_marked(target));
        begun.or_else(|| cluster.machines.iter().filter(goes).find(|machine| machine.lacks(target).is_some()))
    })
}

impl Roll<'_> {
    /// All that are left.
    pub(super) async fn all(&self) -> Result<Vec<Upgraded>, CommandError> {
        let mut done = Vec::new();
        let mut all_hear = false;
        loop {
            let Some(machine) = self.next_once_others_are_well(&done).await? else { return Ok(done) };
            match (machine.role, self.list) {
                (Role::ControlPlane, Some(list)) => {
                    self.api_server.begins_to_go_to(&self.target.minor, list).await?;
                }
                // No kubelet is newer than an API server: workers get theirs once all of those are done.
                (Role::Worker, list) if !all_hear => {
                    self.api_server.goes_to(&self.target.minor, list).await?;
                    all_hear = true;
                }
                _ => {}
            }
            let name = machine.name().to_owned();
            done.push(self.one(&machine).await.map_err(|error| error.about(&name))?);
        }
    }

    /// The next one; nothing if all are done.
    async fn next_once_others_are_well(&self, done: &[Upgraded]) -> Result<Option<Machine>, CommandError> {
        let (begun, patience) = (Instant::now(), SETTLES.min(self.means.wait));
        loop {
            let cluster = Cluster::look(self.api_server.kubectl()).await?;
            let Some(machine) = next(&cluster, self.target, done) else { return Ok(None) };
            let name = machine.name().to_owned();
            match before::may_go_on(&cluster, &name) {
                Ok(()) => return Ok(cluster.machines.into_iter().find(|machine| machine.name() == name)),
                Err(failure) if begun.elapsed() < patience => self.output.waiting(&failure.because.join("; ")),
                Err(failure) => return Err(failure),
            }
            Timer::after(LOOK).await;
        }
    }

    async fn one(&self, machine: &Machine) -> Result<Upgraded, CommandError> {
        let begun = Instant::now();
        let (name, role) = (machine.name().to_owned(), machine.role);
        let to = &*self.target.minor;
        let is_marked = machine.is_marked(self.target);
        let ours = is_marked || !machine.node.is_cordoned();
        if ours && !is_marked {
            self.mark(machine, Some(to)).await?;
        }
        if !machine.has(self.target) {
            self.output.waiting(&format!("{name}: its pods go elsewhere"));
            self.api_server.drain(&name, machine.node.is_ready(), DRAIN).await.map_err(resumable)?;
            self.output.say(Tone::Plain, "drained", &name);
        }
        if role == Role::ControlPlane {
            // The API server that knows of the lock may be the one that goes.
            self.lock.hold_for(self.means.wait + MARGIN).await?;
        }
        let reported = self.api_server.last_report(&name).await;
        if !machine.has(self.target) {
            self.restart(&name, role).await?;
        }
        let now = self.is_back(machine, reported.as_ref()).await?;
        if now.is_marked(self.target) {
            self.mark(&now, None).await?;
        }
        if role == Role::ControlPlane {
            self.lock.hold_for(Times::USUAL.held).await?;
        }
        let (from, seconds) = (machine.node.kubelet().to_owned(), begun.elapsed().as_secs());
        let to = now.node.kubelet().to_owned();
        self.output.say(
            Tone::Good,
            "upgraded",
            &format!("{name} ({}) from {from} to {to} in {seconds} s", role.name()),
        );
        if !ours {
            self.output.say(Tone::Plain, "cordoned", &format!("{name} stays so: somebody else did that"));
        }
        Ok(Upgraded { name, role, from, to, seconds, uncordoned: ours })
    }

    /// Cordons a node and says whose work that is, or takes both back: at once, and on the state that was looked at.
    async fn mark(&self, machine: &Machine, to: Option<&str>) -> Result<(), CommandError> {
        let unschedulable = to.map(|_| true);
        let metadata = PatchMetadata { resource_version: machine.node.revision(), annotations: Mark { to } };
        let patch = Patch { metadata, spec: PatchSpec { unschedulable } };
        match self.api_server.kubectl().change("node", Scope::Cluster, machine.name(), &patch).await {
            // The kubelet writes the object's status all the time.
            Err(error) if error.is(StockCode::Conflict) => {
                let cluster = Cluster::look(self.api_server.kubectl()).await?;
                let again = cluster.find(machine.name()).filter(|again| {
                    again.is_marked(self.target) == machine.is_marked(self.target)
                        && again.node.is_cordoned() == machine.node.is_cordoned()
                });
                let Some(again) = again else { return Err(error.into()) };
                Box::pin(self.mark(again, to)).await
            }
            done => Ok(done?),
        }
    }

    async fn restart(&self, name: &str, role: Role) -> Result<(), CommandError> {
        let Target { minor, .. } = self.target;
        let Some(program) = &self.means.program else {
            let how = match self.list {
                None => format!("boot {name} ({}) from the image with Kubernetes {minor}", role.name()),
                Some(_) => format!(
                    "boot {name} ({}) from the image with Kubernetes {minor}, or from the same if that has none",
                    role.name()
                ),
            };
            self.output.say(Tone::Strong, "restart", &how);
            return Ok(());
        };
        self.output.waiting(&format!("{name}: restarts"));
        let mut said = |line: &str| self.output.say(Tone::Plain, "restart", &crate::output::printable(line));
        program.run([name, role.name(), minor], self.means.wait, &mut said).await.map_err(|error| {
            if error.is(StockCode::Failed) {
                let failure = CommandError::local(CommandCode::RestartFailed, error.to_string());
                error.said().lines().filter(|line| !line.trim().is_empty()).fold(failure, CommandError::because)
            } else {
                error.into()
            }
        })
    }

    /// Waits until the node is one of the version, and well. One that says why it is not, or comes back with what it had, is not
    /// waited for any longer.
    async fn is_back(&self, before: &Machine, reported: Option<&Reported>) -> Result<Machine, CommandError> {
        let (begun, name) = (Instant::now(), before.name());
        let mut lacks = "it was not seen".to_owned();
        for look in 1.. {
            match Cluster::look(self.api_server.kubectl()).await {
                Ok(cluster) => {
                    let now = cluster.machines.into_iter().find(|machine| machine.name() == name);
                    let Some(now) = now else { return Err(stopped("its Node is not in the cluster any more")) };
                    match now.lacks(self.target) {
                        None => return Ok(now),
                        Some(_) if self.means.program.is_some() && came_back_old(before, &now, self.target) => {
                            let why = format!("it was restarted, and its kubelet is {} again", now.node.kubelet());
                            let reason = self.failure(name, reported).await;
                            return Err(reason.into_iter().fold(stopped(&why), CommandError::because));
                        }
                        Some(what) => lacks = what,
                    }
                }
                // Its API server may be the one that is asked.
                Err(error) if error.is_passing() => lacks = format!("the API server does not answer: {error}"),
                Err(error) => return Err(error.into()),
            }
            self.output.waiting(&format!("{name}: {lacks}"));
            if look % LOOKS == 0
                && let Some(reason) = self.failure(name, reported).await
            {
                return Err(stopped(&lacks).because(reason));
            }
            if begun.elapsed() >= self.means.wait {
                let error = stopped(&lacks);
                return Err(error.because(format!("it was waited for {} s", self.means.wait.as_secs())));
            }
            Timer::after(LOOK).await;
        }
        Err(stopped(&lacks))
    }

    /// The failure that a node reported since `before`, if any.
    async fn failure(&self, name: &str, before: Option<&Reported>) -> Option<String> {
        match self.api_server.last_report(name).await.filter(|now| Some(now) != before)?.outcome {
            Outcome::Failed { code, message } => Some(format!("it reported {code}: {message}")),
            Outcome::Succeeded => None,
        }
    }
}

/// Whether a node runs again that was restarted, and has the version that it had.
fn came_back_old(before: &Machine, now: &Machine, target: &Target) -> bool {
    now.node.boot_id() != before.node.boot_id() && now.node.is_ready() && !now.has(target)
}

/// The drain is done again by the command that goes on with the upgrade.
fn resumable(error: CommandError) -> CommandError {
    if error.code != CommandCode::NodeNotDrained.into() {
        return error;
    }
    error.fix("have the PodDisruptionBudget of the pod that kubectl names allow it, and run `latchkey upgrade resume`")
}

fn stopped(why: &str) -> CommandError {
    CommandError::local(CommandCode::NodeNotUpgraded, "the node is not upgraded, and the upgrade stops here")
        .because(why)
}
