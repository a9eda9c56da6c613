//! Deploys what is wanted.

use std::collections::BTreeMap;
use std::convert::Infallible;

use futures_util::StreamExt as _;
use futures_util::stream;
use latchkey_factory_plus_client::BaseUrl;
use latchkey_kubernetes_client::{ApiError, Follower};
use smol::channel::{Receiver, Sender, bounded};
use smol::future::FutureExt as _;

use super::centre::{Wanted, follow_git};
use super::{Clock, EdgeSync, Wrong, cluster, wrong};
use crate::deployments::{Applies, Have, Kind, Name, Plan, Step, Templates, plan};
use crate::status::Source;

/// Steps that are under way at once.
const AT_ONCE: usize = 8;

/// What is deployed, of both kinds.
struct Deployed([(Kind, Follower<Have>); 2]);

impl Deployed {
    async fn changed(&mut self) {
        let [(_, one), (_, other)] = &mut self.0;
        one.changed().or(other.changed()).await;
    }

    /// All of it; `None` until all was listed.
    fn have(&self) -> Option<BTreeMap<Name, Have>> {
        let mut all = BTreeMap::new();
        for (kind, follower) in &self.0 {
            for (key, have) in follower.view().objects?.iter() {
                all.insert(Name { kind: *kind, name: key.name.clone() }, (**have).clone());
            }
        }
        Some(all)
    }

    fn wrong(&self) -> impl Iterator<Item = String> {
        self.0.iter().filter_map(|(_, follower)| wrong(&follower.view()))
    }
}

/// What was said of each source last.
struct Said {
    tell: Sender<Wrong>,
    last: BTreeMap<Source, Vec<String>>,
}

impl Said {
    async fn say(&mut self, source: Source, sentences: Vec<String>) {
        if self.last.get(&source).map_or(!sentences.is_empty(), |last| *last != sentences) {
            self.last.insert(source, sentences.clone());
            // The other loop ends with this one.
            drop(self.tell.send((source, sentences)).await);
        }
    }
}

impl EdgeSync {
    /// Never ends.
    pub(super) async fn deploy(&self, tell: Sender<Wrong>) -> Infallible {
        let clock = Clock::start();
        let follow = |kind| (kind, cluster::follow(&self.connection, kind, &self.site.namespace));
        let mut deployed = Deployed(Kind::ALL.map(follow));
        let mut wanted = Wanted::of(&self.client, self.site.cluster);
        let (tell_git, git_told) = bounded(1);
        let _following = smol::spawn(follow_git(self.client.clone(), tell_git));
        let (mut git, mut applies) = (None, Applies::default());
        let mut said = Said { tell, last: BTreeMap::new() };
        loop {
            let mut later = None;
            let mut sentences: Vec<String> = wanted.wrong().collect();
            if let Some(plan) = self.plan(&wanted, git.as_ref()) {
                sentences.extend(plan.sentences());
                if let Some(have) = deployed.have() {
                    later = self.carry_out(&mut applies, &plan, &have, clock).await;
                }
            }
            said.say(Source::Wanted, sentences).await;
            said.say(Source::Deployed, deployed.wrong().collect()).await;
            said.say(Source::Applies, applies.sentences().collect()).await;
            deployed.changed().or(wanted.changed()).or(next_git(&git_told, &mut git)).or(clock.at(later)).await;
        }
    }

    fn plan(&self, wanted: &Wanted, git: Option<&BaseUrl>) -> Option<Plan> {
        let heard = wanted.heard()?;
        let git = git.map(ToString::to_string);
        let templates = Templates { charts: &heard.charts, kinds: &heard.kinds, git: git.as_deref() };
        Some(plan(&self.site, &heard.deployments, templates))
    }

    /// Does what is due; when there may be more without anything happening.
    async fn carry_out(
        &self,
        applies: &mut Applies,
        plan: &Plan,
        have: &BTreeMap<Name, Have>,
        clock: Clock,
    ) -> Option<u64> {
        let (steps, later) = applies.steps(plan, have, clock.now());
        let did_something = !steps.is_empty();
        let mut done = stream::iter(steps).map(|step| self.step(step)).buffered(AT_ONCE);
        while let Some((step, outcome)) = done.next().await {
            let now = clock.now();
            match (&step, outcome) {
                (Step::Apply(name, manifest), Ok(Some(have))) => {
                    tracing::info!(%name, "Applied");
                    applies.applied(name, manifest, &have, now);
                }
                (Step::Apply(name, _) | Step::Delete(name, _), Ok(_)) => {
                    tracing::info!(%name, "Deleted");
                    applies.deleted(name, now);
                }
                (step, Err(error)) => {
                    tracing::error!(%error, "A deployment cannot be carried out; it is tried again");
                    applies.failed(step.name(), error.to_string(), now);
                }
            }
        }
        // What failed has a time of its own now.
        if did_something { applies.steps(plan, have, clock.now()).1.or(later) } else { later }
    }

    async fn step(&self, step: Step) -> (Step, Result<Option<Have>, ApiError>) {
        let namespace = &self.site.namespace;
        let outcome = match &step {
            Step::Apply(name, manifest) => {
                cluster::apply(&self.connection, namespace, name, manifest.clone()).await.map(Some)
            }
            Step::Delete(name, uid) => cluster::delete(&self.connection, namespace, name, uid).await.map(|()| None),
        };
        (step, outcome)
    }
}

/// Waits until the git server is elsewhere.
async fn next_git(told: &Receiver<BaseUrl>, git: &mut Option<BaseUrl>) {
    match told.recv().await {
        Ok(url) => *git = Some(url),
        Err(_) => std::future::pending().await,
    }
}
