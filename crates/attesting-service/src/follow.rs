//! Follows files, with inotify, through symbolic links that are swapped as a whole.
//!
//! What can change the content behind a path is a rename or a write in any directory that the path leads through, links
//! resolved: Kubernetes swaps `..data` beside `policy.json -> ..data/policy.json`. So all of them are watched, for the
//! names that the path has there. Watches are set *before* the content is read: a change in between wakes us again.

use crate::snapshot::{Current, Follower, Source};
use latchkey_cluster_store::ClusterStore;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use smol::Async;
use smol::channel::Receiver;
use smol::future::FutureExt;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Documents are looked at this often even when nothing says that they have changed.
pub const LOOK_ANYWAY: Duration = Duration::from_secs(30);

/// As many as the kernel follows (`path_resolution(7)`: "a maximum of 40").
const MAX_LINKS: usize = 40;

/// Follows what decisions are made by, until dropped. `told` and `asked` are others who say that something has changed. Never ends by
/// itself: a service that cannot watch still looks now and then.
pub async fn follow<S: Source>(current: Arc<Current<S>>, told: Receiver<()>, asked: Receiver<()>) {
    let mut follower = Follower::new(Arc::clone(&current));
    loop {
        let of = Arc::clone(&current);
        let (change, looked) = smol::unblock(move || {
            // Before looking: what changes meanwhile wakes us again.
            let change = of.source().watched().map(|paths| Watch::of_files(&paths));
            follower.look();
            (change, follower)
        })
        .await;
        follower = looked;
        something_happens(change, &told).or(heard(&asked)).await;
    }
}

/// What to watch of a directory's documents.
pub fn watched(directory: &ClusterStore) -> Vec<PathBuf> {
    let mut paths = directory.watched();
    // Entries of the manifests' directory may be links themselves.
    paths.extend(fs::read_dir(directory.references_path()).into_iter().flatten().flatten().map(|entry| entry.path()));
    paths
}

/// Returns when something has changed, or nobody could say so for a while.
pub async fn something_happens(watch: Option<io::Result<Watch>>, told: &Receiver<()>) {
    let pause = async {
        smol::Timer::after(LOOK_ANYWAY).await;
    };
    match watch {
        None => heard(told).or(pause).await,
        Some(Ok(watch)) => watch.changed().or(pause).await,
        Some(Err(error)) => {
            tracing::error!(%error, every = ?LOOK_ANYWAY, "Cannot watch the directory; looking now and then");
            pause.await;
        }
    }
}

/// Returns when somebody says so; never, where nobody is left to.
pub async fn heard(word: &Receiver<()>) {
    if word.recv().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Tells of changes of files.
#[derive(Debug)]
pub struct Watch {
    descriptor: Async<OwnedFd>,
    names: BTreeMap<i32, Names>,
    /// The directory of the records.
    records: Option<i32>,
}

/// What counts in one directory.
#[derive(Debug, Default, PartialEq, Eq)]
struct Names {
    of: BTreeSet<OsString>,
    /// The directory itself is content: everything counts.
    all: bool,
}

impl Watch {
    /// Of these files, and of what is in those that are directories.
    ///
    /// # Errors
    /// The kernel's.
    pub fn of_files(paths: &[PathBuf]) -> io::Result<Self> {
        Self::of(interests(paths))
    }

    fn of(interests: BTreeMap<PathBuf, Names>) -> io::Result<Self> {
        let descriptor = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let flags = WatchFlags::CLOSE_WRITE
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::ATTRIB
            | WatchFlags::ONLYDIR;
        let mut names = BTreeMap::new();
        for (directory, interesting) in interests {
            match inotify::add_watch(&descriptor, &directory, flags) {
                Ok(watch) => {
                    names.insert(watch, interesting);
                }
                // Not there (yet), or not ours to list: a change there is noticed by the look now and then.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Self { descriptor: Async::new(descriptor)?, names, records: None })
    }

    /// Whether the directory is still the same, and an operator's hand in it. What is written as it should be is renamed into
    /// place, and counted in `.lock`: the service's own records, mostly.
    ///
    /// # Errors
    /// The kernel's.
    pub fn of_records(nodes: &Path) -> io::Result<Self> {
        let mut way = interests(&[nodes.to_owned()]);
        way.retain(|_, names| !names.all);
        let watch = Self::of(way)?;
        let by_hand = WatchFlags::CLOSE_WRITE | WatchFlags::DELETE | WatchFlags::MOVED_FROM | WatchFlags::ONLYDIR;
        let records = inotify::add_watch(&watch.descriptor, nodes, by_hand).ok();
        Ok(Self { records, ..watch })
    }

    /// Returns when something happened to one of the names. An error counts: the next look says what it is.
    pub async fn changed(&self) {
        loop {
            if self.descriptor.readable().await.is_err() || self.drained() {
                return;
            }
        }
    }

    /// Reads all events there are; whether one of them counts.
    fn drained(&self) -> bool {
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut reader = inotify::Reader::new(self.descriptor.get_ref(), &mut buffer);
        let mut counts = false;
        loop {
            match reader.next() {
                Ok(event) => {
                    let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
                    counts |= self.counts(event.wd(), name);
                }
                Err(Errno::AGAIN) => return counts,
                Err(_) => return true,
            }
        }
    }

    fn counts(&self, watch: i32, name: Option<&OsStr>) -> bool {
        if let Some(name) = name.filter(|_| self.records == Some(watch)) {
            return name.as_bytes().ends_with(b".json") && !name.as_bytes().starts_with(b".");
        }
        // No name: the directory itself, or an overflow of the queue. Unknown watch: an overflow.
        let (Some(name), Some(names)) = (name, self.names.get(&watch)) else { return true };
        names.all || names.of.contains(name)
    }
}

/// Each directory on the way of each path, links followed, with the names that matter there.
fn interests(paths: &[PathBuf]) -> BTreeMap<PathBuf, Names> {
    let mut found: BTreeMap<PathBuf, Names> = BTreeMap::new();
    for path in paths {
        let Ok(absolute) = std::path::absolute(path) else { continue };
        let reached = walk(&absolute, &mut |directory, name| {
            found.entry(directory.to_owned()).or_default().of.insert(name.to_owned());
        });
        if reached.is_dir() {
            found.entry(reached).or_default().all = true;
        }
    }
    found
}

/// Resolves `path` step by step, telling of each step; returns where it ends, whether that exists or not.
fn walk(path: &Path, step: &mut impl FnMut(&Path, &OsStr)) -> PathBuf {
    let mut links = 0;
    let mut rest: Vec<OsString> = names_of(path);
    let mut here = PathBuf::from("/");
    while let Some(name) = rest.pop() {
        if name == ".." {
            here.pop();
            continue;
        }
        step(&here, &name);
        let next = here.join(&name);
        match fs::read_link(&next) {
            Ok(target) if links < MAX_LINKS => {
                links += 1;
                if target.is_absolute() {
                    here = PathBuf::from("/");
                }
                rest.extend(names_of(&target));
            }
            _ => here = next,
        }
    }
    here
}

/// The components of a path, the first one last.
fn names_of(path: &Path) -> Vec<OsString> {
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    let mut names: Vec<_> = names.collect();
    names.reverse();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use latchkey_durable_file::{Existing, put};
    use std::os::unix::fs::symlink;

    #[test]
    fn every_directory_that_a_swapped_link_leads_through_is_watched() {
        let directory = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(directory.path()).unwrap();
        fs::create_dir(root.join("..v1")).unwrap();
        fs::write(root.join("..v1/policy.json"), "").unwrap();
        symlink("..v1", root.join("..data")).unwrap();
        symlink("..data/policy.json", root.join("policy.json")).unwrap();
        let found = interests(&[root.join("policy.json"), root.join("absent.json")]);
        let of =
            |path: &Path| found.get(path).unwrap().of.iter().map(|name| name.to_str().unwrap()).collect::<Vec<_>>();
        assert_eq!(of(&root), ["..data", "..v1", "absent.json", "policy.json"]);
        assert_eq!(of(&root.join("..v1")), ["policy.json"]);
        assert!(of(root.parent().unwrap()).contains(&root.file_name().unwrap().to_str().unwrap()));
    }

    /// Else each record that the service writes would have all of them read anew.
    #[test]
    fn a_record_that_is_written_as_it_should_be_is_no_hand_in_the_directory() {
        let directory = tempfile::tempdir().unwrap();
        let record = directory.path().join("0a.json");
        let watch = Watch::of_records(directory.path()).unwrap();
        for existing in [Existing::Keep, Existing::Replace] {
            put(&record, 0o644, b"{}", existing).unwrap();
            assert!(!watch.drained());
        }
        fs::write(&record, "by hand").unwrap();
        assert!(watch.drained());
    }

    #[test]
    fn links_in_a_circle_end() {
        let directory = tempfile::tempdir().unwrap();
        symlink("b", directory.path().join("a")).unwrap();
        symlink("a", directory.path().join("b")).unwrap();
        assert!(!interests(&[directory.path().join("a")]).is_empty());
    }
}
