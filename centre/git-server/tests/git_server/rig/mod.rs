//! The server behind a small HTTP front of the tests, and stock git in front of it.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "each test binary uses its part; a rig that fails shall fail there"
)]

pub mod front;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use front::Front;
use latchkey_factory_plus::grants::Access;
use latchkey_factory_plus::uuids::{permission, special};
use latchkey_factory_plus::{Uuid, uuids};
use latchkey_git_server::backend::Limits;
use latchkey_git_server::git::GitLimits;
use latchkey_git_server::repositories::Repositories;
use latchkey_git_server::server::GitServer;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The repository of the cluster Nord.
pub const NORD: Uuid = Uuid::constant("aaaaaaaa-0000-4000-8000-000000000001");
/// The repository of the cluster South.
pub const SOUTH: Uuid = Uuid::constant("bbbbbbbb-0000-4000-8000-000000000002");
/// May pull from and push to all repositories.
pub const MANAGER: &str = "sv1clustermanager";
/// May pull from Nord's repository, as Flux there does.
pub const FLUX: &str = "op1flux/Nord@EXAMPLE";
/// May manage storage.
pub const ADMIN: &str = "admin";
/// Everybody's.
pub const PASSWORD: &str = "secret";

pub struct Rig {
    pub directory: TempDir,
    pub server: GitServer,
    pub front: Front,
}

impl Rig {
    pub fn new() -> Self {
        Self::with(GitLimits::default(), Limits::default())
    }

    pub fn with(git: GitLimits, limits: Limits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let repositories = Repositories::open(&directory.path().join("data"), git).unwrap();
        let server = GitServer::new(repositories, limits);
        server.change_entry(NORD, Some(&json!({"path": "cluster/Nord"})));
        server.change_entry(SOUTH, Some(&json!({"path": "cluster/South"})));
        let front = Front::start(server.clone(), rights);
        Self { directory, server, front }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Where a repository is on the server's disk.
    pub fn stored(&self, uuid: Uuid) -> PathBuf {
        self.path("data").join(uuid.to_string())
    }

    /// The URL of a repository for `user`, by UUID.
    pub fn url(&self, user: &str, uuid: Uuid) -> String {
        self.named(user, &format!("uuid/{uuid}"))
    }

    pub fn named(&self, user: &str, path: &str) -> String {
        let user = user.replace('/', "%2F").replace('@', "%40");
        format!("http://{user}:{PASSWORD}@{}/{path}", self.front.address())
    }

    /// A page of the server: status and body.
    pub fn page(&self, method: &str, user: &str, path: &str) -> (u16, Value) {
        let (status, body) = front::request(self.front.address(), method, path, user);
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    /// A working copy of Nord's repository with one commit on main that is not pushed yet.
    pub fn working_copy(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        succeed(git(self.directory.path(), &["clone", &self.url(MANAGER, NORD), name]));
        commit(&path, "README.md", name.as_bytes());
        path
    }
}

/// What each user holds.
pub fn rights(user: &str) -> Vec<Access> {
    let access = |permission, target| Access { permission, target };
    match user {
        MANAGER => [permission::GIT_PULL, permission::GIT_PUSH].map(|held| access(held, special::WILDCARD)).into(),
        FLUX => vec![access(permission::GIT_PULL, NORD)],
        ADMIN => vec![access(permission::GIT_MANAGE_STORAGE, special::WILDCARD)],
        _ => vec![access(uuids::permission::READ_CONFIG, special::WILDCARD)],
    }
}

/// Stock git without settings of this machine.
pub fn git_command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", directory).env("LC_ALL", "C");
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_TERMINAL_PROMPT", "0");
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "test").env(format!("GIT_{role}_EMAIL"), "test@example.org");
    }
    command.current_dir(directory).args(arguments);
    command
}

pub fn git(directory: &Path, arguments: &[&str]) -> Output {
    latchkey_test_support::output(&mut git_command(directory, arguments)).unwrap()
}

/// What it said on stdout.
#[track_caller]
pub fn succeed(output: Output) -> String {
    assert!(output.status.success(), "{}", said(&output));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// What it said on stderr.
#[track_caller]
pub fn fail(output: Output) -> String {
    assert!(!output.status.success(), "it should have failed: {}", said(&output));
    said(&output)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn commit(copy: &Path, file: &str, content: &[u8]) -> String {
    fs::write(copy.join(file), content).unwrap();
    succeed(git(copy, &["add", "--all"]));
    succeed(git(copy, &["commit", "--quiet", "--message", file]));
    succeed(git(copy, &["rev-parse", "HEAD"]))
}

/// That all that is stored is whole.
#[track_caller]
pub fn is_sound(repository: &Path) {
    succeed(git(repository, &["-c", "safe.directory=*", "fsck", "--full", "--strict"]));
    let objects = fs::read_dir(repository.join("objects")).unwrap();
    let left: Vec<_> = objects
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name.len() > 2 && name != "pack" && name != "info")
        .collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

/// Bytes that do not compress: a xorshift generator's.
pub fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let word = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(word).flatten().take(length).collect()
}

/// The address as a host and port.
pub fn host(address: SocketAddr) -> String {
    format!("http://{address}")
}
