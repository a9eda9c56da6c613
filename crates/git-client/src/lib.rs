//! Repositories at the git server, read and written with stock git.
//!
//! For each exchange there is a bare repository of our own, in a private directory, with the token in its configuration
//! ([`workspace`]). What `main` has is fetched without history; the new commit is made of a stream, without a working tree; a
//! push that would take somebody else's commit away is refused by the server, and is this exchange's failure.

mod import;
mod process;
mod workspace;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::Method;
use latchkey_factory_plus::{Uuid, uuids};
use latchkey_factory_plus_client::{Call, CallError, Client, Precondition, Service};
use smol::lock::Semaphore;

pub use import::{Change, Commit};
pub use process::PATH;
use workspace::Workspace;

/// Exchanges with the git server at a time.
const AT_ONCE: usize = 4;
/// How long the git server may take to hear of a new repository, and of the right to it.
const HEARING: Duration = Duration::from_secs(5);
/// The first and the longest pause before it is asked again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(200));

/// The git server. Clones are one.
#[derive(Debug, Clone)]
pub struct Git(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    service: Service,
    directory: PathBuf,
    authorities: Option<PathBuf>,
    slots: Semaphore,
    /// Those that write to one repository wait for each other.
    writers: Mutex<BTreeMap<Uuid, Arc<smol::lock::Mutex<()>>>>,
}

/// Why a repository was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// The git server does not let us, or does not answer.
    #[error("{0}")]
    Call(#[from] CallError),
    /// It answers, but not as a git server.
    #[error("the git server answers {0} for this repository")]
    Status(u16),
    /// Git did not start, or its files could not be made.
    #[error("git cannot be run: {0}")]
    Start(std::io::Error),
    /// There is no place for working copies.
    #[error("the directory {path} for working copies cannot be made: {error}", path = .0.display(), error = .1)]
    Directory(PathBuf, std::io::Error),
    /// Git failed, and said so.
    #[error("git failed: {0}")]
    Failed(String),
    /// Git took too long.
    #[error("git took longer than a minute")]
    Late,
    /// Git said more than we read.
    #[error("git said more than {} bytes", process::MAX_OUTPUT)]
    Output,
    /// A file is larger than what is asked for.
    #[error("{0:?} in the repository is larger than {1} bytes")]
    TooLarge(String, usize),
}

/// What somebody wants of a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Read,
    Write,
}

/// An exchange that has begun: what `main` has is here.
#[derive(Debug)]
pub struct Exchange {
    workspace: Workspace,
    url: String,
    /// Whether the server has a branch `main`.
    has_main: bool,
}

/// The commit that was fetched.
const BASE: &str = "refs/remotes/base/main";

impl Git {
    /// Of a client's centre. Working copies are made in `directory`, which is this object's alone.
    ///
    /// # Errors
    /// [`GitError::Directory`].
    pub fn new(client: &Client, directory: &Path, authorities: Option<&Path>) -> Result<Self, GitError> {
        Workspace::prepare(directory).map_err(|error| GitError::Directory(directory.to_path_buf(), error))?;
        Ok(Self(Arc::new(Inner {
            service: client.service(uuids::service::GIT),
            directory: directory.to_path_buf(),
            authorities: authorities.map(Path::to_path_buf),
            slots: Semaphore::new(AT_ONCE),
            writers: Mutex::default(),
        })))
    }

    /// Commits to `main` what `edit` makes of what is there; nothing, where it makes nothing.
    ///
    /// # Errors
    /// [`GitError`], or what `edit` says.
    pub async fn commit<E, T>(
        &self,
        repository: Uuid,
        edit: impl AsyncFnOnce(&Exchange) -> Result<(Option<Commit>, T), E>,
    ) -> Result<T, E>
    where
        E: From<GitError>,
    {
        let writer = self.writer(repository);
        let _alone = writer.lock().await;
        let _slot = self.0.slots.acquire().await;
        let exchange = self.begin(repository, Wish::Write).await?;
        let (commit, made) = edit(&exchange).await?;
        if let Some(commit) = commit {
            exchange.push(&commit).await?;
        }
        Ok(made)
    }

    /// The file at `path` on `main`, if there is one of at most `most` bytes.
    ///
    /// # Errors
    /// [`GitError`]; 404 where there is no such repository.
    pub async fn read(&self, repository: Uuid, path: &str, most: usize) -> Result<Option<Vec<u8>>, GitError> {
        let _slot = self.0.slots.acquire().await;
        self.begin(repository, Wish::Read).await?.file(path, most).await
    }

    /// Deletes what the server keeps of a repository; whether there was something.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn delete(&self, repository: Uuid) -> Result<bool, CallError> {
        self.0.service.delete(&format!("v1/storage/{repository}"), &Precondition::None).await
    }

    fn writer(&self, repository: Uuid) -> Arc<smol::lock::Mutex<()>> {
        let mut writers = self.0.writers.lock().unwrap_or_else(PoisonError::into_inner);
        writers.retain(|_, writer| Arc::strong_count(writer) > 1);
        Arc::clone(writers.entry(repository).or_default())
    }

    async fn begin(&self, repository: Uuid, wish: Wish) -> Result<Exchange, GitError> {
        let has_main = self.has_main(repository, wish).await?;
        let (url, authorization) = self.0.service.authorization().await?;
        let workspace = Workspace::make(&self.0.directory, &url, &authorization, self.0.authorities.as_deref());
        let url = format!("{url}/uuid/{repository}");
        let exchange = Exchange { workspace: workspace.map_err(GitError::Start)?, url, has_main };
        if has_main {
            let branch = format!("+refs/heads/main:{BASE}");
            exchange.git(&["fetch", "--quiet", "--depth=1", "--no-tags", &exchange.url, &branch], b"").await?;
        }
        Ok(exchange)
    }

    /// Whether the repository has a branch `main`. The git server hears of repositories and rights a moment after they are
    /// written, so a new one is asked for until it has.
    async fn has_main(&self, repository: Uuid, wish: Wish) -> Result<bool, GitError> {
        let service = if wish == Wish::Write { "git-receive-pack" } else { "git-upload-pack" };
        let path = format!("uuid/{repository}/info/refs?service={service}");
        let (end, mut pause) = (Instant::now() + HEARING, PAUSES.0);
        loop {
            let answer = self.0.service.call(Call::new(Method::GET, &path)).await?;
            match answer.status {
                200 => return Ok(advertises_main(&answer.body)),
                403 | 404 if wish == Wish::Write && Instant::now() < end => {
                    smol::Timer::after(pause).await;
                    pause = (pause * 2).min(PAUSES.1);
                }
                status => return Err(GitError::Status(status)),
            }
        }
    }
}

/// Whether a list of branches (gitprotocol-pack(5), "Reference Discovery") has `main`.
fn advertises_main(list: &[u8]) -> bool {
    list.split(|byte| matches!(byte, b'\n' | b'\0')).any(|line| line.ends_with(b" refs/heads/main"))
}

impl Exchange {
    /// The file at `path`, if there is one of at most `most` bytes. `path` is made of names that git does not read otherwise.
    ///
    /// # Errors
    /// [`GitError`].
    pub async fn file(&self, path: &str, most: usize) -> Result<Option<Vec<u8>>, GitError> {
        if !self.has_main {
            return Ok(None);
        }
        let listed = self.git(&["ls-tree", "-l", "-z", BASE, "--", path], b"").await?;
        let listed = String::from_utf8_lossy(&listed);
        let mut words = listed.split_ascii_whitespace();
        let (Some(_), Some("blob"), Some(id), Some(size)) = (words.next(), words.next(), words.next(), words.next())
        else {
            return Ok(None);
        };
        if !size.parse().is_ok_and(|size: usize| size <= most) {
            return Err(GitError::TooLarge(path.to_owned(), most));
        }
        self.git(&["cat-file", "blob", id], b"").await.map(Some)
    }

    /// Makes the commit and pushes it; not, where the files are those that are there.
    async fn push(&self, commit: &Commit) -> Result<(), GitError> {
        let stream = commit.stream(self.has_main.then_some(BASE));
        self.git(&["fast-import", "--quiet", "--done"], &stream).await?;
        if self.has_main {
            let trees = [format!("{BASE}^{{tree}}"), "refs/heads/main^{tree}".to_owned()];
            let trees = self.git(&["rev-parse", &trees[0], &trees[1]], b"").await?;
            let mut trees = trees.split(|byte| *byte == b'\n');
            if trees.next() == trees.next() {
                return Ok(());
            }
        }
        self.git(&["push", "--quiet", &self.url, "refs/heads/main:refs/heads/main"], b"").await.map(drop)
    }

    async fn git(&self, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, GitError> {
        process::run(self.workspace.path(), arguments, input).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_repository_has_no_main() {
        let id = "0".repeat(40);
        let list =
            format!("001f# service=git-receive-pack\n0000009b{id} capabilities^{{}}\0report-status refs/heads/x\n0000");
        assert!(!advertises_main(list.as_bytes()));
        let list = format!("001f# service=git-receive-pack\n0000009b{id} refs/heads/main\0report-status\n0000");
        assert!(advertises_main(list.as_bytes()));
        let list = format!("001f# service\n0000009b{id} refs/heads/a\0report-status\n003e{id} refs/heads/main\n0000");
        assert!(advertises_main(list.as_bytes()));
        assert!(!advertises_main(format!("003e{id} refs/heads/main2\n").as_bytes()));
    }
}
