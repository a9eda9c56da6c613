//! The repositories on disk: `DIRECTORY/UUID`, each bare, made when it is first needed.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use latchkey_durable_file::Directory;
use latchkey_factory_plus::Uuid;
use rustix::fs::{FlockOperation, flock};
use smol::lock::Mutex as AsyncMutex;

use crate::git::{self, GitLimits};
use crate::rights::{Authorised, StorageManager};

/// What is being made, or deleted, begins so. A crash leaves it, the next start clears it away.
const UNFINISHED: &str = ".unfinished-";
/// What git keeps of a push, below `objects`, until it is whole; a push that is killed leaves it.
const HALF_A_PUSH: &str = "tmp_objdir-";
/// Held by the one server of a directory.
const LOCK: &str = ".lock";
/// The branch of an empty repository.
const FIRST_BRANCH: &str = "main";

/// The directory of all repositories. Clones are the same.
#[derive(Debug, Clone)]
pub struct Repositories(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    directory: PathBuf,
    limits: GitLimits,
    /// How many requests use each, and how many of these push.
    in_use: Mutex<BTreeMap<Uuid, Users>>,
    /// One repository is made at a time: it takes milliseconds, and happens once.
    making: AsyncMutex<()>,
    _lock: File,
}

#[derive(Debug, Clone, Copy, Default)]
struct Users {
    all: u32,
    pushing: u32,
    deleting: bool,
}

/// A repository that is there, and stays while this lives.
#[derive(Debug)]
pub struct Lease {
    repositories: Repositories,
    uuid: Uuid,
    pushing: bool,
}

/// Why a repository cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// Another server has the directory.
    #[error("{} is used by another git server; each needs a directory of its own", .0.display())]
    Locked(PathBuf),
    /// Files cannot be read or written.
    #[error("{}: {source}", path.display())]
    Files {
        /// The file or directory.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// git could not make one.
    #[error("git made no repository: {0}")]
    Git(String),
    /// It is being deleted, or was to be while somebody uses it.
    #[error("the repository is in use at the moment; try again")]
    InUse,
    /// Nothing is stored under this UUID.
    #[error("nothing is stored under this UUID; GET /v1/storage lists what is")]
    None,
}

impl Repositories {
    /// Opens `directory`, or makes it, for this process alone, and clears away what a crash left.
    ///
    /// # Errors
    /// [`StorageError::Locked`], [`StorageError::Files`].
    pub fn open(directory: &Path, limits: GitLimits) -> Result<Self, StorageError> {
        fs::create_dir_all(directory).map_err(|source| files(directory, source))?;
        // Absolute: git runs elsewhere.
        let directory = fs::canonicalize(directory).map_err(|source| files(directory, source))?;
        let lock_file = directory.join(LOCK);
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&lock_file);
        let lock = lock.map_err(|source| files(&lock_file, source))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
            rustix::io::Errno::WOULDBLOCK => StorageError::Locked(directory.clone()),
            other => files(&lock_file, other.into()),
        })?;
        clear_unfinished(&directory)?;
        let inner = Inner { directory, limits, in_use: Mutex::default(), making: AsyncMutex::new(()), _lock: lock };
        Ok(Self(Arc::new(inner)))
    }

    /// The repository of an authorised step; makes an empty one where there is none.
    ///
    /// # Errors
    /// [`StorageError`].
    pub async fn lease(&self, authorised: &Authorised) -> Result<Lease, StorageError> {
        let pushing = authorised.service() == crate::paths::Service::ReceivePack;
        let lease = self.users(authorised.repository(), pushing)?;
        let _turn = self.0.making.lock().await;
        if !self.path(lease.uuid).join("HEAD").is_file() {
            self.make(lease.uuid).await?;
        }
        Ok(lease)
    }

    /// One that is there already, to look at its branches; `None` where there is none.
    pub(crate) fn lease_existing(&self, uuid: Uuid) -> Option<Lease> {
        let lease = self.users(uuid, false).ok()?;
        self.path(uuid).join("HEAD").is_file().then_some(lease)
    }

    /// Whether somebody pushes to it now, so that what was read of it may be old already.
    pub(crate) fn is_pushed_to(&self, uuid: Uuid) -> bool {
        self.in_use().get(&uuid).is_some_and(|users| users.pushing > 0)
    }

    /// Every repository on disk, of an entry or of none.
    ///
    /// # Errors
    /// [`StorageError::Files`].
    pub fn list(&self, _right: StorageManager) -> Result<Vec<Uuid>, StorageError> {
        let failed = |source| files(&self.0.directory, source);
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.0.directory).map_err(failed)? {
            all.extend(entry.map_err(failed)?.file_name().to_str().and_then(|name| name.parse::<Uuid>().ok()));
        }
        all.sort_unstable();
        Ok(all)
    }

    /// Deletes a repository for good. An entry of it makes an empty one, at the next access.
    ///
    /// # Errors
    /// [`StorageError::InUse`], [`StorageError::None`], [`StorageError::Files`].
    pub async fn delete(&self, _right: StorageManager, uuid: Uuid) -> Result<(), StorageError> {
        let deletion = self.begin_deletion(uuid)?;
        let (path, gone) = (self.path(uuid), self.unfinished());
        fs::rename(&path, &gone).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => StorageError::None,
            _ => files(&path, source),
        })?;
        sync(&self.0.directory)?;
        drop(deletion);
        smol::unblock(move || fs::remove_dir_all(&gone).map_err(|source| files(&gone, source))).await
    }

    /// How much a repository takes on the disk, in bytes.
    pub(crate) async fn size(&self, lease: &Lease) -> u64 {
        let path = self.path(lease.uuid);
        smol::unblock(move || size_below(&path)).await
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.0.directory
    }

    pub(crate) fn limits(&self) -> GitLimits {
        self.0.limits
    }

    pub(crate) fn path(&self, uuid: Uuid) -> PathBuf {
        self.0.directory.join(uuid.to_string())
    }

    fn unfinished(&self) -> PathBuf {
        self.0.directory.join(format!("{UNFINISHED}{}", Uuid::random()))
    }

    /// Made beside its place and moved there whole, so that a crash leaves none or a good one.
    async fn make(&self, uuid: Uuid) -> Result<(), StorageError> {
        let (path, new) = (self.path(uuid), self.unfinished());
        let branch = format!("--initial-branch={FIRST_BRANCH}");
        let arguments = ["init", "--quiet", "--bare", "--template=", &branch, "--object-format=sha1"];
        let mut command = git::command(self.0.limits, arguments);
        let output = command.arg(&new).output().await.map_err(|source| files(Path::new("git"), source))?;
        if !output.status.success() {
            let said = latchkey_reason::printable(&String::from_utf8_lossy(&output.stderr)).take(500).collect();
            return Err(StorageError::Git(said));
        }
        sync(&new)?;
        fs::rename(&new, &path).map_err(|source| files(&path, source))?;
        sync(&self.0.directory)?;
        tracing::info!(repository = %uuid, "Made an empty repository");
        Ok(())
    }

    fn in_use(&self) -> MutexGuard<'_, BTreeMap<Uuid, Users>> {
        self.0.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn users(&self, uuid: Uuid, pushing: bool) -> Result<Lease, StorageError> {
        let mut in_use = self.in_use();
        let users = in_use.entry(uuid).or_default();
        if users.deleting {
            return Err(StorageError::InUse);
        }
        users.all += 1;
        users.pushing += u32::from(pushing);
        Ok(Lease { repositories: self.clone(), uuid, pushing })
    }

    fn begin_deletion(&self, uuid: Uuid) -> Result<Deletion, StorageError> {
        let mut in_use = self.in_use();
        let users = in_use.entry(uuid).or_default();
        if users.deleting || users.all > 0 {
            return Err(StorageError::InUse);
        }
        users.deleting = true;
        Ok(Deletion { repositories: self.clone(), uuid })
    }
}

impl Lease {
    /// Which repository.
    pub const fn uuid(&self) -> Uuid {
        self.uuid
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.repositories.path(self.uuid)
    }

    pub(crate) const fn is_push(&self) -> bool {
        self.pushing
    }

    /// Clears away what a killed push left; the last of several does it.
    pub(crate) fn clear_half_pushes(&self) {
        let in_use = self.repositories.in_use();
        if in_use.get(&self.uuid).is_some_and(|users| users.pushing == 1)
            && let Err(error) = clear_half_pushes(&self.path())
        {
            tracing::warn!(repository = %self.uuid, %error, "Cannot clear away what a broken push left");
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut in_use = self.repositories.in_use();
        if let Some(users) = in_use.get_mut(&self.uuid) {
            users.all -= 1;
            users.pushing -= u32::from(self.pushing);
            if users.all == 0 {
                in_use.remove(&self.uuid);
            }
        }
    }
}

/// Nobody gets the repository while this lives.
struct Deletion {
    repositories: Repositories,
    uuid: Uuid,
}

impl Drop for Deletion {
    fn drop(&mut self) {
        self.repositories.in_use().remove(&self.uuid);
    }
}

/// Clears away what a crash left: of repositories, and in them of pushes.
fn clear_unfinished(directory: &Path) -> Result<(), StorageError> {
    let failed = |source| files(directory, source);
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let name = name.to_str().unwrap_or_default();
        if name.starts_with(UNFINISHED) {
            fs::remove_dir_all(entry.path()).map_err(|source| files(&entry.path(), source))?;
        } else if name.parse::<Uuid>().is_ok() {
            clear_half_pushes(&entry.path()).map_err(|source| files(&entry.path(), source))?;
        }
    }
    Ok(())
}

/// Nobody may push meanwhile.
fn clear_half_pushes(repository: &Path) -> io::Result<()> {
    let objects = match fs::read_dir(repository.join("objects")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    for entry in objects {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(HALF_A_PUSH)) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// What cannot be read does not count: git puts files in and takes them away meanwhile.
fn size_below(directory: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size_below(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

fn sync(directory: &Path) -> Result<(), StorageError> {
    Directory::open(directory).and_then(|open| open.sync()).map_err(|source| files(directory, source))
}

fn files(path: &Path, source: io::Error) -> StorageError {
    StorageError::Files { path: path.to_owned(), source }
}
