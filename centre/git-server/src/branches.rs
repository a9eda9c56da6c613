//! Where the branches stand, and who is told when one moves.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use latchkey_factory_plus::Uuid;
use smol::channel::{Receiver, Sender, TrySendError, bounded};
use smol::io::AsyncReadExt;

use crate::git;
use crate::repositories::Repositories;

/// The branches of one repository: the commit of each, by its name without `refs/heads/`.
pub type Branches = BTreeMap<String, String>;

/// The longest list of branches that is read, in bytes: some ten thousand.
const LONGEST_LIST: u64 = 1 << 20;
/// How many changes wait for somebody who does not read them; then the subscription ends.
const WAITING: usize = 256;

/// The branches of all repositories. Clones are the same.
#[derive(Debug, Clone)]
pub struct BranchTable(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    repositories: Repositories,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    branches: BTreeMap<Uuid, Branches>,
    /// Counts what makes `branches` old, so that a slow look does not put back what was true before.
    turns: BTreeMap<Uuid, u64>,
    watchers: Vec<Sender<Uuid>>,
}

/// Why branches cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum BranchError {
    /// git cannot be run, or reading from it fails.
    #[error("git cannot tell the branches: {0}")]
    Io(#[from] io::Error),
    /// More than anybody needs.
    #[error("the repository has too many branches to list: more than {LONGEST_LIST} bytes; delete some")]
    TooMany,
    /// Not what git writes of a good repository.
    #[error("git cannot tell the branches; the repository on disk is damaged")]
    Damaged,
}

impl BranchTable {
    /// Those of `repositories`.
    pub fn new(repositories: Repositories) -> Self {
        Self(Arc::new(Inner { repositories, known: Mutex::default() }))
    }

    /// The branches of a repository; none of one that nobody used yet.
    ///
    /// # Errors
    /// [`BranchError`].
    pub async fn of(&self, uuid: Uuid) -> Result<Branches, BranchError> {
        let turn = {
            let known = self.known();
            // While somebody pushes, git's answer may have left before we hear of its end.
            if let Some(branches) = known.branches.get(&uuid)
                && !self.0.repositories.is_pushed_to(uuid)
            {
                return Ok(branches.clone());
            }
            known.turns.get(&uuid).copied()
        };
        let branches = self.look(uuid).await?;
        let mut known = self.known();
        if known.turns.get(&uuid).copied() == turn && !self.0.repositories.is_pushed_to(uuid) {
            known.branches.insert(uuid, branches.clone());
        }
        Ok(branches)
    }

    /// The repositories whose branches may have moved, from now on. It ends for who does not read it.
    pub fn watch(&self) -> Receiver<Uuid> {
        let (sender, receiver) = bounded(WAITING);
        self.known().watchers.push(sender);
        receiver
    }

    /// Says that the branches of a repository may have moved: after a push, however it ended, and after a deletion.
    pub fn moved(&self, uuid: Uuid) {
        let mut known = self.known();
        known.branches.remove(&uuid);
        *known.turns.entry(uuid).or_default() += 1;
        known.watchers.retain(|watcher| match watcher.try_send(uuid) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Closed(_)) => false,
        });
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn look(&self, uuid: Uuid) -> Result<Branches, BranchError> {
        let Some(lease) = self.0.repositories.lease_existing(uuid) else { return Ok(Branches::new()) };
        let arguments = ["for-each-ref", "--format=%(objectname) %(refname:lstrip=2)", "refs/heads/"];
        let mut child = git::command_in(self.0.repositories.limits(), &lease.path(), &arguments)
            .stderr(smol::process::Stdio::null())
            .spawn()?;
        let mut text = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            stdout.take(LONGEST_LIST + 1).read_to_end(&mut text).await?;
        }
        if text.len() as u64 > LONGEST_LIST {
            return Err(BranchError::TooMany);
        }
        if !child.status().await?.success() {
            return Err(BranchError::Damaged);
        }
        // A branch may be called by bytes that are no text; its commit is told all the same.
        let text = String::from_utf8_lossy(&text);
        let line = |line: &str| line.split_once(' ').map(|(commit, name)| (name.to_owned(), commit.to_owned()));
        text.lines().map(line).collect::<Option<_>>().ok_or(BranchError::Damaged)
    }
}
