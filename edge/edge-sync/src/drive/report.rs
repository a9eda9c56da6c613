//! Tells the centre what there is.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;

use latchkey_factory_plus::cluster::Host;
use latchkey_factory_plus::uuids::application::EDGE_CLUSTER_STATUS;
use latchkey_factory_plus_client::{CallError, ConfigDb, Precondition};
use latchkey_kubernetes_client::kube::Api;
use latchkey_kubernetes_client::{ApiCode, Follower, Key as ObjectKey, Objects, Standing};
use serde_json::Value;
use smol::channel::Receiver;
use smol::future::FutureExt as _;

use super::{Clock, EdgeSync, Wrong, millis, wall_clock, wrong};
use crate::certificate::{self, KeySecret, Sealing};
use crate::hosts::{self, Node};
use crate::sealed::{self, SealedSecret};
use crate::status::{Reporter, Source, Step};

/// A Secret with a key: its certificate, or why it has none.
type Key = Result<Sealing, &'static str>;

impl EdgeSync {
    /// Never ends.
    pub(super) async fn report(&self, told: Receiver<Wrong>) -> Infallible {
        let clock = Clock::start();
        let db = ConfigDb::of(&self.client);
        let mut nodes = self.nodes();
        let (mut keys, mut sealed) = (self.keys(), None);
        let (mut reporter, mut listed) = (Reporter::default(), None);
        let mut said = false;
        loop {
            take_nodes(&mut reporter, &nodes, &mut listed, clock.now());
            self.take_keys(&mut reporter, &keys, clock.now());
            // A controller without a key has opened nothing, and where there is none, nobody may have defined what it opens.
            if sealed.is_none() && keys.view().objects.is_some_and(|keys| !keys.is_empty()) {
                sealed = Some(self.sealed());
            }
            if let Some(sealed) = &sealed {
                take_sealed(&mut reporter, sealed, clock.now());
            }
            while let Ok((source, sentences)) = told.try_recv() {
                reporter.problems.set(source, sentences, clock.now());
            }
            let done = match reporter.next(clock.now(), millis(wall_clock())) {
                Step::Wait(until) => {
                    let other = async {
                        if let Ok((source, sentences)) = told.recv().await {
                            reporter.problems.set(source, sentences, clock.now());
                        }
                    };
                    nodes
                        .changed()
                        .or(keys.changed())
                        .or(changed(&mut sealed))
                        .or(other)
                        .or(clock.at(Some(until)))
                        .await;
                    continue;
                }
                Step::Read => self.read(&db, &mut reporter).await,
                Step::Patch(patch) => self.patch(&db, &patch).await.map(|()| reporter.wrote(&patch, clock.now())),
            };
            match done {
                Ok(()) if said => {
                    tracing::info!("The centre is told of this cluster again");
                    said = false;
                }
                Ok(()) => {}
                Err(error) => {
                    if !said {
                        tracing::error!(%error, "The centre cannot be told of this cluster; it is tried again");
                    }
                    said = true;
                    reporter.failed(clock.now(), RandomState::new().build_hasher().finish());
                }
            }
        }
    }

    fn nodes(&self) -> Follower<Host> {
        let objects = Objects {
            about: "nodes",
            api: Api::<Node>::all(self.connection.client()),
            labels: String::new(),
            fields: String::new(),
            // A kubelet tells of up to 50 images: a Node may have some ten kilobytes.
            page: 50,
            most: hosts::MOST,
        };
        self.connection.follow(objects, |node| hosts::host_of(&node))
    }

    fn keys(&self) -> Follower<Key> {
        let objects = Objects {
            about: "secrets",
            api: Api::<KeySecret>::namespaced(self.connection.client(), &self.keys_namespace),
            labels: certificate::ACTIVE.to_owned(),
            fields: String::new(),
            page: 50,
            most: certificate::MOST,
        };
        self.connection.follow(objects, |secret| Some(certificate::read(&secret)))
    }

    /// Of those that are not opened: why.
    fn sealed(&self) -> Follower<String> {
        let objects = Objects {
            about: "sealedsecrets",
            api: Api::<SealedSecret>::all(self.connection.client()),
            labels: String::new(),
            fields: String::new(),
            page: 50,
            most: sealed::MOST,
        };
        self.connection.follow(objects, |secret| sealed::closed(&secret))
    }

    fn take_keys(&self, reporter: &mut Reporter, keys: &Follower<Key>, now: u64) {
        let view = keys.view();
        let mut sentences: Vec<String> = wrong(&view).into_iter().collect();
        if let Some(objects) = &view.objects {
            let good = objects.values().filter_map(|key| key.as_ref().as_ref().ok());
            match certificate::newest(good, wall_clock().as_secs()) {
                Some(newest) => reporter.set_certificate(&newest.pem),
                // Where there is no controller, there is no key, and nothing is wrong.
                None if objects.is_empty() => {}
                None => sentences.push(format!(
                    "no key of sealed-secrets in the namespace {} has a certificate that is valid now; see the controller's log",
                    self.keys_namespace
                )),
            }
            let bad = objects.iter().filter_map(|(name, key)| Some((name, key.as_ref().as_ref().err()?)));
            sentences.extend(bad.map(|(name, why)| format!("the Secret {}/{} {why}", name.namespace, name.name)));
        }
        reporter.problems.set(Source::Keys, sentences, now);
    }

    async fn read(&self, db: &ConfigDb, reporter: &mut Reporter) -> Result<(), CallError> {
        let entry = db.entry::<Value>(EDGE_CLUSTER_STATUS, self.site.cluster).await?;
        reporter.read(entry.as_ref().map(|(entry, _)| entry));
        Ok(())
    }

    async fn patch(&self, db: &ConfigDb, patch: &Value) -> Result<(), CallError> {
        db.patch_entry(EDGE_CLUSTER_STATUS, self.site.cluster, patch, &Precondition::None).await
    }
}

async fn changed<T>(follower: &mut Option<Follower<T>>) {
    match follower {
        Some(follower) => follower.changed().await,
        None => std::future::pending().await,
    }
}

fn take_sealed(reporter: &mut Reporter, followed: &Follower<String>, now: u64) {
    let view = followed.view();
    let sentences = match &view.standing {
        // Where their definition is gone, so are they.
        Standing::Stale(error) if error.code == ApiCode::ResourceUnknown => Vec::new(),
        _ => {
            let closed = view
                .objects
                .iter()
                .flat_map(|objects| sealed::sentences(objects.iter().map(|(key, why)| (key, &**why))));
            wrong(&view).into_iter().chain(closed).collect()
        }
    };
    reporter.problems.set(Source::Sealed, sentences, now);
}

/// The machines as they were taken last, and how many of them are not told.
type Listed = Option<(Arc<BTreeMap<ObjectKey, Arc<Host>>>, usize)>;

fn take_nodes(reporter: &mut Reporter, nodes: &Follower<Host>, listed: &mut Listed, now: u64) {
    let view = nodes.view();
    let is_new = |objects: &Arc<_>| !listed.as_ref().is_some_and(|(last, _)| Arc::ptr_eq(last, objects));
    if let Some(objects) = view.objects.as_ref().filter(|objects| is_new(objects)) {
        let (hosts, left_out) = hosts::reported(objects.values());
        reporter.set_hosts(hosts);
        *listed = Some((Arc::clone(objects), left_out));
    }
    let left_out = listed.as_ref().map_or(0, |(_, left_out)| *left_out);
    let too_large = (left_out > 0).then(|| format!("{left_out} machines are not told: the entry would be too large"));
    reporter.problems.set(Source::Nodes, wrong(&view).into_iter().chain(too_large), now);
}
