//! The real binary with a configuration, certificates and a master secret of its own.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "each test binary uses its part; a rig that fails shall fail there"
)]

pub mod client;
pub mod pki;
pub mod python;

use latchkey_keys::MasterSecret;
use latchkey_test_support::{Lines, drained};
use pki::{Authority, Identity, Kind};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use tempfile::TempDir;

/// May have state-disk keys and the measurement secret.
pub const JOIN: &str = "join.latchkey.test";
/// May have state-disk keys only; known by a URI.
pub const DISKS: &str = "spiffe://latchkey.test/disks";

/// Files, before anything runs.
pub struct Rig {
    pub directory: TempDir,
    pub config: Value,
    pub master: MasterSecret,
    pub clients: Authority,
    pub servers: Authority,
}

impl Rig {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let clients = Authority::new(directory.path(), "clients-ca");
        let servers = Authority::new(directory.path(), "servers-ca");
        servers.issue("server", &["127.0.0.1"], Kind::Server);
        let master = MasterSecret::random().unwrap().rotated().unwrap();
        master.write_new(&directory.path().join("master.json")).unwrap();
        let config = json!({
            "schema": 1,
            "listen": "127.0.0.1:0",
            "admin_listen": "127.0.0.1:0",
            "master_secret": "master.json",
            "tls": { "certificate": "server.pem", "private_key": "server.key", "client_ca": "clients-ca.pem" },
            "callers": [
                { "name": JOIN, "key_classes": ["state-disk", "measurement-secret"] },
                { "name": DISKS, "key_classes": ["state-disk"] },
            ],
        });
        Self { directory, config, master, clients, servers }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn client(&self, file: &str, names: &[&str]) -> Identity {
        self.clients.issue(file, names, Kind::Client)
    }

    /// Writes the configuration and prepares the command.
    pub fn command(&self) -> Command {
        let file = self.path("config.json");
        fs::write(&file, self.config.to_string()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_latchkey-key-service"));
        command.arg("--config").arg(file).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs `--check`.
    pub fn check(&self) -> Output {
        latchkey_test_support::output(self.command().arg("--check")).unwrap()
    }

    /// Starts the service and waits until it serves.
    pub fn start(&self) -> Service {
        Self::start_by(self.command())
    }

    /// Starts the service by a command of the test's own and waits until it serves.
    pub fn start_by(mut command: Command) -> Service {
        let mut process = command.spawn().unwrap();
        let lines = Lines::of(process.stderr.take().unwrap());
        let mut service = Service { process, lines, log: Vec::new(), address: None, admin: None, metrics: None };
        let serving = service.next_line("Serving");
        let field = |name: &str| {
            // In either format: `address=127.0.0.1:1` or `"address":"127.0.0.1:1"`.
            let (_, value) = serving.split_once(name)?;
            Some(value.trim_start_matches(['"', ':', '=']).split([' ', '"']).next()?.parse().unwrap())
        };
        service.address = field("address");
        service.admin = field("admin");
        service.metrics = field("metrics");
        service
    }
}

/// The running binary; killed when dropped.
pub struct Service {
    pub process: Child,
    lines: Lines,
    log: Vec<String>,
    address: Option<SocketAddr>,
    admin: Option<SocketAddr>,
    metrics: Option<SocketAddr>,
}

impl Service {
    pub fn address(&self) -> SocketAddr {
        self.address.unwrap()
    }

    /// Where other machines find its metrics.
    pub fn metrics(&self) -> SocketAddr {
        self.metrics.unwrap()
    }

    /// Blocks until the log gets a line with this text, not counting lines seen by earlier calls; fails when the service
    /// ends before.
    pub fn next_line(&mut self, text: &str) -> String {
        let line = self.lines.find(text, &mut self.log, |line| line.contains(text));
        line.unwrap_or_else(|| panic!("the service ended without `{text}`:\n{}", self.log.join("\n")))
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// SIGTERM, then everything it logged and how it ended.
    pub fn stop(self) -> (ExitStatus, String) {
        self.end_by(Signal::TERM)
    }

    /// A signal, then everything it logged and how it ended.
    pub fn end_by(mut self, signal: Signal) -> (ExitStatus, String) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
        let status = latchkey_test_support::wait("the key service", &mut self.process);
        self.lines.rest("the end of the key service's log", &mut self.log);
        (status, self.log.join("\n"))
    }

    /// The body of a page on the admin port, behind its status line.
    pub fn page(&self, path: &str) -> (String, String) {
        let mut stream = TcpStream::connect(self.admin.unwrap()).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let answer = String::from_utf8(drained(&mut stream)).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.lines().next().unwrap().to_owned(), body.to_owned())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Already gone after `stop`.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
