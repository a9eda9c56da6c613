//! Repositories of the centre's git server, as others see them.

use std::collections::BTreeMap;
use std::process::Command;

use latchkey_factory_plus::{Uuid, uuids};
use latchkey_factory_plus_client::notify::Event;
use latchkey_factory_plus_client::{Client, ConfigDb};
use latchkey_test_support::output;

use super::{PASSWORD, REALM, Rig};

impl Rig {
    /// A repository, cloned by somebody who may read all: path and contents.
    pub(crate) fn cloned(&self, repository: Uuid) -> Option<BTreeMap<String, String>> {
        let directory = tempfile::tempdir_in(self.folder.path()).unwrap();
        let url = format!("http://root%40{REALM}:{PASSWORD}@{}/uuid/{repository}", self.git);
        let mut git = Command::new("git");
        git.args(["clone", "--quiet", &url, "there"])
            .current_dir(directory.path())
            .env("GIT_CONFIG_GLOBAL", "/dev/null");
        if !output(&mut git).unwrap().status.success() {
            return None;
        }
        let mut git = Command::new("git");
        git.args(["ls-files"]).current_dir(directory.path().join("there"));
        let files = String::from_utf8(output(&mut git).unwrap().stdout).unwrap();
        let read = |path: &str| std::fs::read_to_string(directory.path().join("there").join(path)).unwrap();
        Some(files.lines().map(|path| (path.to_owned(), read(path))).collect())
    }

    /// How many commits a repository has.
    pub(crate) fn commits(&self, repository: Uuid) -> usize {
        let path = self.folder.path().join("repositories").join(repository.to_string());
        let mut git = Command::new("git");
        git.args(["rev-list", "--count", "main"]).current_dir(path);
        String::from_utf8(output(&mut git).unwrap().stdout).unwrap().trim().parse().unwrap()
    }

    /// Pushes files into a repository, as whoever keeps the charts does.
    pub(crate) fn push(&self, repository: Uuid, path: &str, contents: &str) {
        let directory = tempfile::tempdir_in(self.folder.path()).unwrap();
        let file = directory.path().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, contents).unwrap();
        let url = format!("http://root%40{REALM}:{PASSWORD}@{}/uuid/{repository}", self.git);
        let author = ["-c", "user.name=x", "-c", "user.email=x@localhost"];
        let commit = [&author[..], &["commit", "-qm", "x"]].concat();
        for arguments in [&["init", "-qb", "main"][..], &["add", "."], &commit, &["push", "-q", &url, "main"]] {
            let mut git = Command::new("git");
            let done = output(git.args(arguments).current_dir(directory.path())).unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        }
    }
}

/// Tells the git server what the configuration database says, as its program does.
pub(super) async fn follow_repositories(client: Client, web: latchkey_git_server::web::Web) {
    let mut search = ConfigDb::of(&client).search_entries(uuids::application::GIT_REPOSITORY_CONFIGURATION, None);
    loop {
        match search.next().await {
            Event::Complete(all) => web.all_entries(all.iter().map(|(uuid, entry)| (*uuid, &**entry))),
            Event::Set(uuid, entry) => web.entry(uuid, Some(&entry)),
            Event::Gone(uuid) => web.entry(uuid, None),
            Event::Stale(..) | Event::Fresh => {}
        }
    }
}
