//! Follows the cluster: what its API server tells, or its directory.

use crate::back_end::BackEnd;
use crate::documents::Cluster;
use crate::store::Store;
use latchkey_attesting_service::Current;
use latchkey_attesting_service::follow::{self, Watch, heard, something_happens};
use latchkey_kubernetes_store::{KubernetesStore, OnChange};
use smol::channel::{Receiver, Sender, bounded};
use smol::future::FutureExt;
use std::sync::Arc;

/// Asks both followers to look now.
#[derive(Clone, Debug)]
pub(crate) struct Look([Sender<()>; 2]);

/// Where the followers hear of it.
#[derive(Clone, Debug)]
pub(crate) struct Looks([Receiver<()>; 2]);

pub(crate) fn looks() -> (Look, Looks) {
    let ((configuration, asked_configuration), (records, asked_records)) = (bounded(1), bounded(1));
    (Look([configuration, records]), Looks([asked_configuration, asked_records]))
}

impl Look {
    pub(crate) fn now(&self) {
        for follower in &self.0 {
            // Full: it is asked to look already.
            let _ = follower.try_send(());
        }
    }
}

/// Follows policy, rules and cluster until dropped.
pub(crate) async fn follow_configuration(current: Arc<Current<Cluster>>, back_end: BackEnd, looks: Looks) {
    let told = told(&back_end, KubernetesStore::on_documents);
    let Looks([configuration, _]) = looks;
    follow::follow(current, told, configuration).await;
}

/// Follows the nodes' records until dropped.
pub(crate) async fn follow_records(store: Arc<Store>, back_end: BackEnd, looks: Looks) {
    let told = told(&back_end, KubernetesStore::on_records);
    loop {
        let change = match &back_end {
            BackEnd::Folder(directory) => {
                let nodes = directory.nodes_path();
                let watch = smol::unblock(move || Watch::of_records(&nodes)).await;
                store.refresh().await;
                Some(watch)
            }
            BackEnd::Kubernetes(_) => {
                store.follow().await;
                None
            }
        };
        let Looks([_, asked]) = &looks;
        something_happens(change, &told).or(heard(asked)).await;
    }
}

/// Hears of changes that the API server tells of; of a directory nothing is told here.
fn told(back_end: &BackEnd, ask: impl FnOnce(&KubernetesStore, OnChange)) -> Receiver<()> {
    let (tell, told) = bounded(1);
    if let BackEnd::Kubernetes(store) = back_end {
        let tell = move || {
            // Full: it is told already.
            let _ = tell.try_send(());
        };
        ask(store, Box::new(tell));
    }
    told
}
