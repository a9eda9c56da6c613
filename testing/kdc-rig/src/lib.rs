//! For tests: a real MIT KDC with its kadmind, as plain processes on loopback, in a directory of their own.
//!
//! ```no_run
//! let Some(kdc) = latchkey_kdc_rig::Kdc::start_or_skip() else { return };
//! kdc.add("alice", "opensesame");
//! let keytab = kdc.keytab(&["HTTP/localhost"]);
//! ```
//!
//! Debian's packages krb5-kdc, krb5-admin-server and krb5-user bring the programs; without libverto-libev1 krb5kdc ends at
//! once and says nothing.

mod files;

use files::Files;
use latchkey_test_support::{Port, Process, output, skip, spawn, until};
use std::fs::File;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// The realm of every KDC here.
pub const REALM: &str = "LATCHKEY.TEST";
/// Who may do everything at kadmind, and its password.
pub const ADMIN: (&str, &str) = ("op1centre/admin", "administrators secret");

const PROGRAMS: [(&str, &str); 5] = [
    ("krb5kdc", "krb5-kdc"),
    ("kdb5_util", "krb5-kdc"),
    ("kadmind", "krb5-admin-server"),
    ("kadmin.local", "krb5-admin-server"),
    ("kinit", "krb5-user"),
];

/// A KDC of the realm [`REALM`] with its kadmind. Dropping it ends both and deletes their data.
#[derive(Debug)]
pub struct Kdc {
    // The programs end before their files go.
    running: Option<Process>,
    kadmind: Option<Process>,
    files: Files,
    ports: Ports,
    directory: TempDir,
}

#[derive(Debug)]
struct Ports {
    kdc: Port,
    kadmind: Port,
    kpasswd: Port,
}

impl Kdc {
    /// One with nobody in it but [`ADMIN`], ready; nothing, where a program is missing, and the test is said to be skipped.
    ///
    /// # Panics
    /// If a program does not do what it should.
    pub fn start_or_skip() -> Option<Self> {
        let missing = |(name, package): &(&str, &str)| {
            let found = program(name);
            (!found.exists()).then(|| format!("{name} (Debian package {package}) is not installed"))
        };
        if let Some(missing) = PROGRAMS.iter().find_map(missing) {
            skip(missing);
            return None;
        }
        Some(Self::start())
    }

    /// The same, where the programs are known to be there: a second KDC of the same realm, with other keys.
    ///
    /// # Panics
    /// As [`Self::start_or_skip`].
    pub fn start() -> Self {
        let directory = TempDir::with_prefix("latchkey-kdc-").expect("a temporary directory");
        let ports = Ports { kdc: Port::reserve(), kadmind: Port::reserve(), kpasswd: Port::reserve() };
        let numbers = [&ports.kdc, &ports.kadmind, &ports.kpasswd].map(Port::number);
        let files = Files::write(directory.path(), numbers);
        let mut kdc = Self { running: None, kadmind: None, files, ports, directory };
        let mut make = kdc.command("kdb5_util");
        // A stash beside the database: the master key is asked for by nobody.
        make.args(["create", "-s", "-r", REALM, "-P", "master key of a test"]);
        must("kdb5_util", &mut make);
        kdc.add(ADMIN.0, ADMIN.1);
        kdc.acl(&format!("{}@{REALM} x\n", ADMIN.0));
        kdc.start_kdc();
        kdc.start_kadmind();
        kdc
    }

    /// MIT's configuration for clients, `KRB5_CONFIG`.
    pub fn krb5_config(&self) -> &Path {
        &self.files.krb5
    }

    /// A file or directory of this name in the KDC's own directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Makes a principal with a password; the KDC wants pre-authentication of it.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn add(&self, name: &str, password: &str) {
        self.kadmin_local(&format!("addprinc +requires_preauth -pw \"{password}\" {name}"));
    }

    /// Makes principals with random keys, where they do not exist, and a keytab with new keys of theirs.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn keytab(&self, names: &[&str]) -> PathBuf {
        let path = self.path(&format!("{}.keytab", names[0].replace('/', "_")));
        for name in names {
            self.kadmin_local_unjudged(&format!("addprinc -randkey {name}"));
            self.kadmin_local(&format!("ktadd -k {} {name}", path.display()));
        }
        path
    }

    /// Runs a query of kadmin in the KDC's own database; what it prints.
    ///
    /// # Panics
    /// If it fails.
    pub fn kadmin_local(&self, query: &str) -> String {
        must("kadmin.local", self.command("kadmin.local").args(["-r", REALM, "-q", query]))
    }

    fn kadmin_local_unjudged(&self, query: &str) {
        let mut command = self.command("kadmin.local");
        output(command.args(["-r", REALM, "-q", query])).expect("kadmin.local starts");
    }

    /// A command with the KDC's configuration in its environment, and caches of tickets in the KDC's directory.
    pub fn command(&self, name: &str) -> Command {
        let mut command = Command::new(program(name));
        command.envs(self.environment());
        command
    }

    /// The same environment, for other programs.
    pub fn environment(&self) -> [(&'static str, PathBuf); 3] {
        let mut cache = std::ffi::OsString::from("FILE:");
        cache.push(self.path("tickets"));
        [
            ("KRB5_CONFIG", self.files.krb5.clone()),
            ("KRB5_KDC_PROFILE", self.files.kdc.clone()),
            ("KRB5CCNAME", cache.into()),
        ]
    }

    /// Gets a ticket for a principal with its password, as a user does, into the cache of [`Self::environment`].
    ///
    /// # Panics
    /// If it gets none.
    pub fn kinit(&self, name: &str, password: &str) {
        let mut command = self.command("kinit");
        command.arg(name).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("kinit starts");
        writeln!(child.stdin.take().expect("a pipe"), "{password}").expect("kinit reads");
        let said = latchkey_test_support::finish("kinit", child);
        assert!(said.status.success(), "kinit: {}", String::from_utf8_lossy(&said.stderr));
    }

    /// Replaces `kadm5.acl`; kadmind reads it when it starts.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn acl(&self, text: &str) {
        std::fs::write(&self.files.acl, text).expect("a file");
    }

    /// Ends the KDC as a power failure would; connections to it are refused.
    pub fn stop_kdc(&mut self) {
        self.running = None;
    }

    /// Ends kadmind in the same way.
    pub fn stop_kadmind(&mut self) {
        self.kadmind = None;
    }

    /// Starts the KDC, and waits until it listens.
    ///
    /// # Panics
    /// If it does not.
    pub fn start_kdc(&mut self) {
        self.running = None;
        self.running = Some(self.run("krb5kdc", &["-n"], &self.ports.kdc));
    }

    /// Starts kadmind, and waits until it listens.
    ///
    /// # Panics
    /// If it does not.
    pub fn start_kadmind(&mut self) {
        self.kadmind = None;
        self.kadmind = Some(self.run("kadmind", &["-nofork"], &self.ports.kadmind));
    }

    /// What the KDC answers with from now on stops, although connections to it are taken: it is stopped as `SIGSTOP` does.
    ///
    /// # Panics
    /// If it does not run.
    pub fn freeze_kdc(&self) {
        self.signal_kdc("STOP");
    }

    /// Ends that.
    ///
    /// # Panics
    /// If it does not run.
    pub fn thaw_kdc(&self) {
        self.signal_kdc("CONT");
    }

    fn signal_kdc(&self, signal: &str) {
        let id = self.running.as_ref().expect("it runs").id();
        must("kill", Command::new("kill").args([&format!("-{signal}"), &id.to_string()]));
    }

    fn run(&self, name: &str, arguments: &[&str], port: &Port) -> Process {
        let log = self.path(&format!("{name}.out"));
        let file = File::create(&log).expect("a file");
        let mut command = self.command(name);
        command.args(["-r", REALM]).args(arguments).stdin(Stdio::null());
        command.stdout(file.try_clone().expect("the same")).stderr(file);
        let process = Process::watch(spawn(command).expect("it starts")).expect("it has an id");
        until(format_args!("{name} to listen"), || {
            if !process.is_running() {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                panic!("{name} has ended (is the package libverto-libev1 installed?): {said}");
            }
            TcpStream::connect(port.address()).ok()
        });
        process
    }
}

fn must(name: &str, command: &mut Command) -> String {
    let said = output(command).unwrap_or_else(|error| panic!("{name} does not start: {error}"));
    let text = format!("{}{}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    assert!(said.status.success(), "{name}: {text}");
    text
}

/// Debian's servers are in a directory that users have not in their path.
fn program(name: &str) -> PathBuf {
    ["/usr/sbin", "/usr/bin"]
        .map(|directory| Path::new(directory).join(name))
        .into_iter()
        .find(|path| path.exists())
        .unwrap_or_default()
}
