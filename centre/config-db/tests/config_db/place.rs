//! Where a database is: a file, or a real `PostgreSQL` of its own.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use latchkey_config_db::engine::{Embedded, Engine, Postgres};
use latchkey_test_support::{PATIENCE, Process, output, skip, spawn, until};

/// A database's place, which is gone in the end.
pub(crate) struct Place {
    server: Option<Server>,
    directory: tempfile::TempDir,
}

struct Server {
    process: Option<Process>,
    programs: PathBuf,
}

impl Place {
    pub(crate) fn embedded() -> Self {
        Self { server: None, directory: tempfile::tempdir().unwrap() }
    }

    /// `None` where there is no `PostgreSQL`.
    pub(crate) fn postgres() -> Option<Self> {
        let Some(programs) = programs() else {
            skip("PostgreSQL is not installed: apt-get install postgresql");
            return None;
        };
        let directory = tempfile::tempdir().unwrap();
        let mut initdb = as_its_user(&programs.join("initdb"), directory.path());
        initdb.args(["--auth=trust", "--username=latchkey", "--no-sync", "--no-locale", "--encoding=UTF8", "--pgdata"]);
        let made = output(initdb.arg(directory.path().join("data"))).unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut place = Self { server: Some(Server { process: None, programs }), directory };
        place.start_server();
        Some(place)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn engine(&self) -> Box<dyn Engine> {
        match self.server {
            None => Box::new(Embedded::at(self.path("config-db"))),
            Some(_) => Box::new(Postgres::at(&self.connection_string()).unwrap()),
        }
    }

    fn connection_string(&self) -> String {
        format!("host={} user=latchkey dbname=postgres", self.directory.path().display())
    }

    /// On a Unix socket in the directory alone.
    pub(crate) fn start_server(&mut self) {
        let directory = self.directory.path().to_owned();
        let server = self.server.as_mut().unwrap();
        server.process = Some(started(&server.programs, &directory));
        let ready = server.programs.join("pg_isready");
        until("PostgreSQL to be ready", || {
            let asked = output(Command::new(&ready).arg("-h").arg(&directory)).unwrap();
            asked.status.success().then_some(())
        });
    }

    /// At once and without a checkpoint, as after a power failure, but with all its processes.
    pub(crate) fn kill_server(&mut self) {
        let process = self.server.as_mut().unwrap().process.take().unwrap();
        let id = rustix::process::Pid::from_raw(process.id().cast_signed()).unwrap();
        rustix::process::kill_process(id, rustix::process::Signal::QUIT).unwrap();
        assert!(process.wait(PATIENCE).is_some(), "the server does not end");
    }
}

fn started(programs: &Path, directory: &Path) -> Process {
    let mut postgres = as_its_user(&programs.join("postgres"), directory);
    postgres.arg("-D").arg(directory.join("data")).arg("-k").arg(directory).args(["-c", "listen_addresses="]);
    let log = std::fs::File::options().create(true).append(true).open(directory.join("log")).unwrap();
    postgres.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    Process::watch(spawn(postgres).unwrap()).unwrap()
}

/// A program of `PostgreSQL`'s, which refuses to run as root: it gets its own user, and the directory.
fn as_its_user(program: &Path, directory: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(directory);
    if rustix::process::geteuid().is_root() {
        let id = |option| {
            let printed = output(Command::new("id").args([option, "postgres"])).unwrap().stdout;
            String::from_utf8(printed).unwrap().trim().parse::<u32>().unwrap()
        };
        let (user, group) = (id("-u"), id("-g"));
        chown(directory, Some(user), Some(group)).unwrap();
        command.uid(user).gid(group);
    }
    command
}

/// Where Debian puts the newest version's programs.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten().map(|entry| entry.path().join("bin"));
    versions.filter(|programs| programs.join("postgres").exists()).max()
}
