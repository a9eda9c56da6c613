//! One operator at a time changes a cluster's charts. The lock names the releases in work, so that the next run knows what was left
//! half done by a run like itself, and what by somebody's helm.

use std::collections::BTreeMap;

use super::file::Chart;
use super::situation::Standing;
use crate::error::CommandError;
use crate::lock::{self, CHARTS, Times};
use crate::output::Output;
use crate::stock::{Helm, Kubectl};

/// Beside the revision that a run begins helm writes at most this: that of its rollback.
const REVISIONS: u64 = 2;

/// Releases in work: `namespace/name` to the newest revision before the work was begun.
type InWork = BTreeMap<String, u64>;

/// The lock, held.
#[derive(Debug)]
pub(crate) struct Lock(lock::Lock<InWork>);

impl Lock {
    /// Takes the lock. Somebody else who goes on holding it is named; one who went away is waited out.
    pub(crate) async fn take(kubectl: &Kubectl, output: &Output) -> Result<Self, CommandError> {
        Self::take_for(kubectl, output, Times::USUAL).await
    }

    pub(super) async fn take_for(kubectl: &Kubectl, output: &Output, times: Times) -> Result<Self, CommandError> {
        lock::Lock::take(&CHARTS, times, false, kubectl, output).await.map(Self)
    }

    /// Does the work while the lock is held, and gives it back. What the work left half done stays named in the lease.
    pub(crate) async fn held<T>(&self, work: impl Future<Output = Result<T, CommandError>>) -> Result<T, CommandError> {
        self.0.held(work).await
    }

    /// Writes what is in work.
    pub(super) async fn note(&self, change: impl FnOnce(&mut InWork)) -> Result<(), CommandError> {
        self.0.note(change).await
    }

    /// Whether a run of this command left the release as it stands: nobody works on it.
    pub(super) fn left(&self, chart: &Chart, standing: Standing) -> bool {
        let before = self.0.left().get(&key(chart));
        before.is_some_and(|before| (*before..=before.saturating_add(REVISIONS)).contains(&standing.last))
    }

    /// Takes back what an earlier run said of a release that is not half done any more.
    pub(super) async fn settled(&self, chart: &Chart) -> Result<(), CommandError> {
        if !self.0.left().contains_key(&key(chart)) {
            return Ok(());
        }
        self.note(|in_work| {
            in_work.remove(&key(chart));
        })
        .await
    }

    /// Changes a release, whose name stands in the lease meanwhile. It stays there if the change is cut.
    pub(crate) async fn changing<T>(
        &self,
        helm: &Helm,
        chart: &Chart,
        change: impl Future<Output = Result<T, CommandError>>,
    ) -> Result<T, CommandError> {
        // What follows a signal has to be known, too.
        let helm = helm.uninterrupted();
        let standing = async || helm.history(&chart.namespace, &chart.name).await.map(|history| Standing::of(&history));
        let before = standing().await?;
        self.note(|in_work| {
            in_work.insert(key(chart), before.last);
        })
        .await?;
        let done = change.await;
        if standing().await.is_ok_and(|standing| !standing.situation.begun()) {
            let noted = self
                .note(|in_work| {
                    in_work.remove(&key(chart));
                })
                .await;
            return done.and_then(|done| noted.map(|()| done));
        }
        done
    }
}

fn key(chart: &Chart) -> String {
    format!("{}/{}", chart.namespace, chart.name)
}
