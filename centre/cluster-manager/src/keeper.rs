//! Links and their scripts, kept: every use is on the disk before it is answered.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use latchkey_factory_plus::Uuid;
use latchkey_group_commit::{Change, OpenError, Store, WriteError};

use crate::links::{Claim, Claimed, Link, LinkError, Links, NewLink, Outcome, Permit, Token};
use crate::machine::SetupStatus;
use crate::script::Script;

const LINKS: &str = "links";
const SCRIPTS: &str = "scripts";

/// All links, and the scripts that they lead to.
#[derive(Debug)]
pub struct Keeper {
    kept: Mutex<Kept>,
    store: Store,
}

#[derive(Debug, Default)]
struct Kept {
    links: Links,
    /// By SHA-256.
    scripts: BTreeMap<String, Arc<Script>>,
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl Keeper {
    /// Opens the file, which is made when it is not there.
    ///
    /// # Errors
    /// [`OpenError`]; also where a record cannot be read.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let (mut links, mut scripts) = (vec![], BTreeMap::new());
        let store = Store::open(path, &[LINKS, SCRIPTS], |table, _, value| {
            if table == LINKS {
                links.push(serde_json::from_slice::<Link>(value).map_err(|error| error.to_string())?);
            } else {
                let text = String::from_utf8(value.to_vec()).map_err(|error| error.to_string())?;
                let script = Script::new(text);
                scripts.insert(script.sha256().to_owned(), Arc::new(script));
            }
            Ok(())
        })?;
        links.sort_by_key(|link| link.made);
        Ok(Self { kept: Mutex::new(Kept { links: Links::new(links), scripts }), store })
    }

    /// Makes a link; its record when it is durable.
    ///
    /// # Errors
    /// [`WriteError`]: it is void then.
    pub async fn make(
        &self,
        permit: Permit,
        status: Option<&SetupStatus>,
        token: &Token,
        new: NewLink<'_>,
    ) -> Result<Result<Link, LinkError>, WriteError> {
        let writing = {
            let mut kept = self.kept();
            let now = now_ms();
            let replaced = if new.replaces_own { kept.links.revoke_own(permit, new.by, now) } else { vec![] };
            for link in &replaced {
                tracing::info!(%link, cluster = %permit.cluster(), by = new.by, "A link is replaced");
            }
            let outcome = kept.links.make(permit, status, token, new, now);
            if outcome.result.is_ok() {
                kept.scripts.insert(new.script.sha256().to_owned(), Arc::new(new.script.clone()));
            }
            let text = new.script;
            let mut changes = kept.changes(&outcome);
            changes.extend(replaced.into_iter().filter_map(|id| kept.put(id)));
            if outcome.result.is_ok() {
                changes.insert(0, Change::put(SCRIPTS, text.sha256(), text.text()));
            }
            (outcome.result.map(|id| kept.links.record(id).cloned()), self.store.write(changes))
        };
        if let Err(error) = writing.1.await {
            let _void = self.kept().links.revoke(permit, new.id, "", now_ms());
            return Err(error);
        }
        Ok(writing.0.and_then(|link| link.ok_or(LinkError::Unknown)))
    }

    /// Reads the script of a link.
    ///
    /// # Errors
    /// [`WriteError`]: the use could not be recorded, so there is no answer.
    pub async fn read(
        &self,
        token: &Token,
        ready: impl Fn(Uuid) -> bool,
        from: &str,
    ) -> Result<Result<Arc<Script>, LinkError>, WriteError> {
        let (read, writing) = {
            let mut kept = self.kept();
            let outcome = kept.links.read(token, ready, now_ms(), from);
            let (result, of) = (&outcome.result, outcome.changed.and_then(|id| kept.links.record(id)));
            match (result, of) {
                (Ok(_), Some(link)) => {
                    tracing::info!(link = %link.id, cluster = %link.cluster, from, "A script was read");
                }
                (Err(error), Some(link)) => {
                    tracing::warn!(link = %link.id, cluster = %link.cluster, from, %error, "A link was refused");
                }
                (_, None) => tracing::warn!(from, "There is no such link"),
            }
            let changes = kept.changes(&outcome);
            let read = outcome.result.and_then(|script| kept.scripts.get(&script).cloned().ok_or(LinkError::Unknown));
            (read, self.write(changes))
        };
        writing.await?;
        Ok(read)
    }

    /// Redeems a link for the edge that holds `claim`. That it is redeemed, and by whom, is on the disk when this returns.
    ///
    /// # Errors
    /// [`WriteError`]: it could not be recorded, so nothing may be given for it.
    pub async fn redeem(
        &self,
        token: &Token,
        claim: &Claim,
        ready: impl Fn(Uuid) -> bool,
        from: &str,
    ) -> Result<Result<Claimed, LinkError>, WriteError> {
        let (claimed, writing) = {
            let mut kept = self.kept();
            let outcome = kept.links.redeem(token, claim, ready, now_ms(), from);
            match (&outcome.result, outcome.changed.and_then(|id| kept.links.record(id))) {
                (Ok(claimed), Some(link)) => {
                    tracing::info!(link = %link.id, cluster = %link.cluster, from, first = claimed.first, "A link was redeemed");
                }
                (Err(error), Some(link)) => {
                    tracing::warn!(link = %link.id, cluster = %link.cluster, from, %error, "A link was not redeemed");
                }
                (_, None) => tracing::warn!(from, "There is no such link"),
            }
            let changes = kept.changes(&outcome);
            (outcome.result, self.write(changes))
        };
        writing.await?;
        Ok(claimed)
    }

    /// When a link of a cluster was last seen in two hands; see [`Links::theft`].
    pub(crate) fn theft(&self, cluster: Uuid) -> Option<u64> {
        self.kept().links.theft(cluster)
    }

    /// Ends a link.
    ///
    /// # Errors
    /// [`WriteError`]: it has ended, but would be good again after a restart.
    pub async fn revoke(&self, permit: Permit, id: Uuid, by: &str) -> Result<Result<(), LinkError>, WriteError> {
        let (revoked, writing) = {
            let mut kept = self.kept();
            let outcome = kept.links.revoke(permit, id, by, now_ms());
            let changes = kept.changes(&outcome);
            (outcome.result, self.write(changes))
        };
        writing.await?;
        Ok(revoked)
    }

    /// The links of the permit's cluster, the newest first.
    pub fn of(&self, permit: Permit) -> Vec<Link> {
        let mut links: Vec<Link> = self.kept().links.of(permit).cloned().collect();
        links.reverse();
        links
    }

    /// Ends all links of a cluster.
    pub(crate) async fn revoke_all(&self, cluster: Uuid) -> Result<(), WriteError> {
        let writing = {
            let mut kept = self.kept();
            kept.links.revoke_all(cluster, "the deletion of the cluster", now_ms());
            // Also those that were revoked before, and may not have been written.
            let all = kept.links.all_of(cluster).filter_map(|link| kept.put(link.id)).collect();
            self.write(all)
        };
        writing.await
    }

    /// Drops what is kept of a cluster.
    pub(crate) async fn forget(&self, cluster: Uuid) -> Result<(), WriteError> {
        let writing = {
            let mut kept = self.kept();
            let gone: Vec<Uuid> = kept.links.all_of(cluster).map(|link| link.id).collect();
            let mut changes: Vec<Change> = gone.iter().map(|id| Change::remove(LINKS, *id.as_bytes())).collect();
            kept.links.forget(cluster);
            changes.extend(kept.sweep());
            self.write(changes)
        };
        writing.await
    }

    /// Nothing is written where nothing changed.
    fn write(&self, changes: Vec<Change>) -> impl Future<Output = Result<(), WriteError>> + use<> {
        let writing = (!changes.is_empty()).then(|| self.store.write(changes));
        async move {
            match writing {
                Some(writing) => writing.await,
                None => Ok(()),
            }
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn put(&self, id: Uuid) -> Option<Change> {
        let link = self.links.record(id)?;
        // A link always makes JSON.
        Some(Change::put(LINKS, *id.as_bytes(), serde_json::to_vec(link).unwrap_or_default()))
    }

    /// What is to be written after an attempt.
    fn changes<T>(&mut self, outcome: &Outcome<T>) -> Vec<Change> {
        let mut changes: Vec<Change> = outcome.changed.and_then(|id| self.put(id)).into_iter().collect();
        changes.extend(outcome.dropped.iter().map(|id| Change::remove(LINKS, *id.as_bytes())));
        if !outcome.dropped.is_empty() {
            changes.extend(self.sweep());
        }
        changes
    }

    /// Drops the scripts that no link leads to.
    fn sweep(&mut self) -> Vec<Change> {
        let (kept, gone) =
            std::mem::take(&mut self.scripts).into_iter().partition(|(sha256, _)| self.links.leads_to(sha256));
        self.scripts = kept;
        let gone: BTreeMap<String, Arc<Script>> = gone;
        gone.into_keys().map(|sha256| Change::remove(SCRIPTS, sha256)).collect()
    }
}
