//! A request from its target to its reply, for any HTTP server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use latchkey_factory_plus::Uuid;
use serde_json::Value;
use smol::channel::Receiver;
use smol::io::AsyncRead;

use crate::backend::{Answer, Backend, BackendError, RequestHead};
use crate::branches::{BranchError, BranchTable, Branches};
use crate::entries::Entries;
use crate::paths::Target;
use crate::repositories::{Repositories, StorageError};
use crate::rights::{self, Caller, Refused};

/// Everything behind HTTP. Clones are the same.
#[derive(Debug, Clone)]
pub struct GitServer {
    entries: Arc<RwLock<Entries>>,
    repositories: Repositories,
    branches: BranchTable,
    backend: Backend,
}

/// What is answered.
#[derive(Debug)]
pub enum Reply {
    /// Git's own answer, to be passed on as it comes.
    Git(Answer),
    /// 200, with JSON.
    Json(Value),
    /// 204.
    Done,
}

/// Why nothing is answered.
#[derive(Debug, thiserror::Error)]
pub enum ReplyError {
    /// The caller has no right to it, or it is not there.
    #[error("{0}")]
    Refused(#[from] Refused),
    /// Git or its limits.
    #[error("{0}")]
    Backend(#[from] BackendError),
    /// The repositories on disk.
    #[error("{0}")]
    Storage(#[from] StorageError),
    /// The branches.
    #[error("{0}")]
    Branches(#[from] BranchError),
}

impl ReplyError {
    /// The status of HTTP.
    pub const fn status(&self) -> u16 {
        match self {
            Self::Refused(Refused::Forbidden(_)) => 403,
            Self::Refused(Refused::NotFound) | Self::Storage(StorageError::None) => 404,
            Self::Storage(StorageError::InUse) => 409,
            Self::Backend(BackendError::Client(_)) => 400,
            Self::Backend(BackendError::TooLarge { .. }) => 413,
            Self::Backend(BackendError::Unsupported(_)) => 415,
            Self::Backend(BackendError::Busy | BackendError::Late | BackendError::Storage(StorageError::InUse)) => 503,
            Self::Backend(BackendError::Storage(_) | BackendError::Git(_)) | Self::Storage(_) | Self::Branches(_) => {
                500
            }
        }
    }
}

impl GitServer {
    /// Over `repositories`; it has no entry yet.
    pub fn new(repositories: Repositories, limits: crate::backend::Limits) -> Self {
        let branches = BranchTable::new(repositories.clone());
        let backend = Backend::new(repositories.clone(), branches.clone(), limits);
        Self { entries: Arc::default(), repositories, branches, backend }
    }

    /// Takes all entries up, and forgets others.
    pub fn replace_entries<'a>(&self, all: impl IntoIterator<Item = (Uuid, &'a Value)>) {
        let new = Entries::new(all);
        let old = std::mem::replace(&mut *self.entries_mut(), new);
        let now: BTreeSet<Uuid> = self.entries().iter().collect();
        old.iter().chain(now).collect::<BTreeSet<_>>().into_iter().for_each(|uuid| self.branches.moved(uuid));
    }

    /// Takes an entry up, or forgets it.
    pub fn change_entry(&self, uuid: Uuid, entry: Option<&Value>) {
        match entry {
            Some(entry) => self.entries_mut().set(uuid, entry),
            None => self.entries_mut().remove(uuid),
        }
        self.branches.moved(uuid);
    }

    fn entries_mut(&self) -> RwLockWriteGuard<'_, Entries> {
        self.entries.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn entries(&self) -> RwLockReadGuard<'_, Entries> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a request.
    ///
    /// # Errors
    /// [`ReplyError`].
    pub async fn reply(
        &self,
        caller: Caller<'_>,
        target: Target,
        head: &RequestHead,
        body: impl AsyncRead + Send + Unpin + 'static,
    ) -> Result<Reply, ReplyError> {
        match target {
            Target::Git { repository, service, step } => {
                let authorised = rights::authorise(caller, &self.entries(), &repository, service, step)?;
                Ok(Reply::Git(self.backend.answer(&authorised, head, body).await?))
            }
            Target::AllBranches => Ok(json(&self.all_branches(caller).await)),
            Target::Branches(uuid) => Ok(json(&self.branches(caller, uuid).await?)),
            Target::Storage => Ok(json(&self.repositories.list(rights::manage_storage(caller)?)?)),
            Target::DeleteStorage(uuid) => {
                self.repositories.delete(rights::manage_storage(caller)?, uuid).await?;
                self.branches.moved(uuid);
                tracing::warn!(repository = %uuid, caller = caller.name.escape_debug().to_string(), "Deleted a repository");
                Ok(Reply::Done)
            }
        }
    }

    /// Where the branches of one repository stand.
    ///
    /// # Errors
    /// [`ReplyError::Refused`], [`ReplyError::Branches`].
    pub async fn branches(&self, caller: Caller<'_>, uuid: Uuid) -> Result<Branches, ReplyError> {
        rights::see(caller, &self.entries(), uuid)?;
        Ok(self.branches.of(uuid).await?)
    }

    /// The same of every repository that the caller may see. One whose branches cannot be told is left out: it is no reason to
    /// tell nothing of the others.
    pub async fn all_branches(&self, caller: Caller<'_>) -> BTreeMap<Uuid, Branches> {
        let seen: Vec<Uuid> = self.entries().iter().filter(|uuid| caller.sees(*uuid)).collect();
        let mut all = BTreeMap::new();
        for uuid in seen {
            match self.branches.of(uuid).await {
                Ok(branches) => drop(all.insert(uuid, branches)),
                Err(error) => tracing::warn!(repository = %uuid, %error, "Cannot tell the branches"),
            }
        }
        all
    }

    /// The repositories whose branches may have moved, from now on.
    pub fn watch(&self) -> Receiver<Uuid> {
        self.branches.watch()
    }
}

fn json(value: &impl serde::Serialize) -> Reply {
    // Maps whose keys are texts, and lists, always make JSON.
    Reply::Json(serde_json::to_value(value).unwrap_or_default())
}
