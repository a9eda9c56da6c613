//! The peer: a `PostgreSQL` of its own with Debian's settings, on a socket alone, and its own benchmark.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use latchkey_test_support::{Process, output, spawn, until};
use tempfile::TempDir;

use crate::DISK;

/// Its own script: one row of 100 000.
pub(crate) const SELECT: &str =
    "\\set aid random(1, 100000)\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n";
/// The same row, durably.
pub(crate) const UPDATE: &str =
    "\\set aid random(1, 100000)\nUPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;\n";

pub(crate) struct Postgres {
    programs: PathBuf,
    _process: Process,
    directory: TempDir,
}

impl Postgres {
    /// Ready, with the rows of pgbench; or why there is none.
    pub(crate) fn start() -> Result<Self, String> {
        let programs = programs().ok_or("PostgreSQL is not installed: apt-get install postgresql")?;
        let directory = tempfile::tempdir_in(DISK).unwrap();
        let mut initdb = as_its_user(&programs.join("initdb"), directory.path())?;
        initdb.args(["--auth=trust", "--username=latchkey", "--no-locale", "--encoding=UTF8", "--pgdata=data"]);
        succeed(&mut initdb)?;
        let mut postgres = as_its_user(&programs.join("postgres"), directory.path())?;
        postgres.args(["-D", "data", "-c", "listen_addresses=", "-k"]).arg(directory.path());
        postgres.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = spawn(postgres).and_then(Process::watch).map_err(|error| error.to_string())?;
        let started = Self { programs, _process: process, directory };
        until("PostgreSQL to be ready", || succeed(&mut started.client("pg_isready")).ok());
        succeed(started.client("pgbench").args(["--initialize", "--quiet", "--username=latchkey", "postgres"]))?;
        Ok(started)
    }

    /// What a client of it is told.
    pub(crate) fn connection_string(&self) -> String {
        format!("host={} user=latchkey dbname=postgres", self.directory.path().display())
    }

    fn client(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.arg("-h").arg(self.directory.path());
        command
    }

    /// How long a thousand transactions take.
    pub(crate) fn thousand(&self, script: &str) -> Duration {
        let file = self.directory.path().join("script");
        std::fs::write(&file, script).unwrap();
        let mut pgbench = self.client("pgbench");
        pgbench.args(["--username=latchkey", "--client=16", "--jobs=2", "--time=2", "--no-vacuum"]);
        pgbench.args(["--protocol=prepared", "--file"]).arg(file).arg("postgres");
        let said = succeed(&mut pgbench).unwrap();
        let rate = said.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse::<f64>().ok());
        Duration::from_secs_f64(1000.0 / rate.unwrap_or_else(|| panic!("no rate: {said}")))
    }
}

/// A program of `PostgreSQL`'s, which refuses to run as root: it gets its own user, and the directory.
fn as_its_user(program: &Path, directory: &Path) -> Result<Command, String> {
    let mut command = Command::new(program);
    command.current_dir(directory);
    if rustix::process::geteuid().is_root() {
        let id = |option| {
            let printed = succeed(Command::new("id").args([option, "postgres"]))?;
            printed.trim().parse::<u32>().map_err(|error| error.to_string())
        };
        let (user, group) = (id("-u")?, id("-g")?);
        chown(directory, Some(user), Some(group)).map_err(|error| error.to_string())?;
        command.uid(user).gid(group);
    }
    Ok(command)
}

fn succeed(command: &mut Command) -> Result<String, String> {
    let output = output(command).map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{} failed: {}", command.get_program().display(), said.trim()))
}

/// Where Debian puts the newest version's programs.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten().map(|entry| entry.path().join("bin"));
    versions.filter(|programs| programs.join("pgbench").exists() && programs.join("postgres").exists()).max()
}
