//! A real Mosquitto with TLS and the centre's plugin; a real API server for numbers. Fake: who verifies passwords behind the plugin.

mod centre;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use latchkey_broker::server::{Authority, Limits, Refusal, Server};
use latchkey_broker::{Access, Filter, Grant, Grants};
use latchkey_test_support::{Lines, PATIENCE, Port, Process, output, skip, spawn};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use zeroize::Zeroizing;

pub(crate) use centre::FakeCentre;

pub(crate) const MONITOR: (&str, &str) = ("op1monitor/Bolt@R", "of the monitor");
pub(crate) const READER: (&str, &str) = ("reader@R", "of the reader");
pub(crate) const COMMANDER: (&str, &str) = ("commander@R", "of the commander");

/// Fake: knows three passwords, and grants what the centre's permission templates give a Sparkplug node of its own address.
struct FakeAuthority(HashMap<&'static str, (&'static str, Grants)>);

impl Authority for FakeAuthority {
    async fn verify(&self, username: &str, password: &Zeroizing<Vec<u8>>) -> Result<String, Refusal> {
        let known = self.0.get(username).filter(|(right, _)| right.as_bytes() == password.as_slice());
        known.map(|_| username.to_owned()).ok_or_else(|| Refusal { code: "wrong".into(), outage: false })
    }

    async fn grants(&self, principal: &str) -> Result<Grants, Refusal> {
        let known = self.0.get(principal).map(|(_, grants)| grants.clone());
        known.ok_or_else(|| Refusal { code: "principal-unknown".into(), outage: false })
    }
}

fn authority() -> FakeAuthority {
    let grants = |list: &[(&str, &str)]| {
        let grant = |(filter, access): &(&str, &str)| Grant {
            filter: Filter::parse(filter).unwrap(),
            access: Access::parse(access).unwrap(),
        };
        Grants(list.iter().map(grant).collect())
    };
    let node = [
        ("spBv1.0/ACME-Bolt/NBIRTH/Monitor", "w"),
        ("spBv1.0/ACME-Bolt/NDATA/Monitor", "w"),
        ("spBv1.0/ACME-Bolt/NDEATH/Monitor", "w"),
        ("spBv1.0/ACME-Bolt/NCMD/Monitor", "rs"),
        ("spBv1.0/ACME-Bolt/DCMD/Monitor/+", "rs"),
    ];
    FakeAuthority(HashMap::from([
        (MONITOR.0, (MONITOR.1, grants(&node))),
        (READER.0, (READER.1, grants(&[("spBv1.0/#", "rs")]))),
        (COMMANDER.0, (COMMANDER.1, grants(&[("spBv1.0/+/NCMD/+", "w")]))),
    ]))
}

/// A broker. Its port stays its own while it is away.
pub(crate) struct Broker {
    process: Option<Process>,
    lines: Option<Lines>,
    port: Port,
    pub(crate) directory: TempDir,
    _server: smol::Task<()>,
}

impl Broker {
    /// One that runs; nothing, where Mosquitto is missing, and the test is said to be skipped.
    pub(crate) fn start_or_skip() -> Option<Self> {
        if !Path::new("/usr/sbin/mosquitto").exists() || !Path::new("/usr/bin/mosquitto_pub").exists() {
            skip("mosquitto (Debian packages mosquitto, mosquitto-clients) is not installed");
            return None;
        }
        let directory = TempDir::with_prefix("latchkey-edge-monitor-").unwrap();
        write_certificates(directory.path());
        fs::write(directory.path().join("password"), MONITOR.1).unwrap();
        fs::set_permissions(directory.path().join("password"), fs::Permissions::from_mode(0o600)).unwrap();
        let limits = Limits {
            users: vec![rustix::process::getuid().as_raw()],
            remember: Duration::from_mins(1),
            failures: 10,
            window: Duration::from_mins(10),
        };
        let server = Server::bind(&directory.path().join("auth.sock"), authority(), limits).unwrap();
        let server = smol::spawn(async move { drop(server.run().await) });
        let mut broker = Self { process: None, lines: None, port: Port::reserve(), directory, _server: server };
        broker.start();
        Some(broker)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port.number()
    }

    /// Ends it as a power failure would.
    pub(crate) fn kill(&mut self) {
        (self.process, self.lines) = (None, None);
    }

    /// Starts it; it listens when this returns.
    pub(crate) fn start(&mut self) {
        let user = if rustix::process::getuid().is_root() { "user root\n" } else { "" };
        let mut text = format!("{user}listener {} 127.0.0.1\nplugin {}\n", self.port.number(), plugin().display());
        writeln!(text, "plugin_opt_latchkey_socket {}", self.path("auth.sock").display()).unwrap();
        writeln!(text, "certfile {}", self.path("broker.pem").display()).unwrap();
        writeln!(text, "keyfile {}\ntls_version tlsv1.3", self.path("broker.key").display()).unwrap();
        fs::write(self.path("mosquitto.conf"), text).unwrap();
        let mut command = Command::new("/usr/sbin/mosquitto");
        command.arg("-v").arg("-c").arg(self.path("mosquitto.conf"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = spawn(command).unwrap();
        self.lines = Some(Lines::of(child.stderr.take().unwrap()));
        self.process = Some(Process::watch(child).unwrap());
        self.says("running");
    }

    /// Waits for a line of its log.
    pub(crate) fn says(&self, text: &str) -> String {
        let mut seen = Vec::new();
        let found = self.lines.as_ref().unwrap().find(text, &mut seen, |line| line.contains(text));
        found.unwrap_or_else(|| panic!("it ended and said: {}", seen.join("\n")))
    }

    fn client(&self, program: &str, user: (&str, &str)) -> Command {
        // Line by line, although nobody reads at a terminal.
        let mut command = Command::new("stdbuf");
        command.args([
            "-oL",
            program,
            "-h",
            "localhost",
            "-p",
            &self.port.number().to_string(),
            "-V",
            "mqttv5",
            "-q",
            "1",
        ]);
        command.args(["-u", user.0, "-P", user.1]).arg("--cafile").arg(self.path("ca.pem"));
        command
    }

    /// Publishes bytes, and waits for the broker's word.
    pub(crate) fn publish(&self, user: (&str, &str), topic: &str, bytes: &[u8]) -> Output {
        fs::write(self.path("message"), bytes).unwrap();
        let mut command = self.client("mosquitto_pub", user);
        output(command.args(["-d", "-t", topic, "-f"]).arg(self.path("message"))).unwrap()
    }

    /// Hears everything of Sparkplug from when this returns.
    pub(crate) fn listen(&self) -> Listener {
        let mut command = self.client("mosquitto_sub", READER);
        command.args(["-t", "spBv1.0/#", "-d", "-F", "got %t %x", "-W", &PATIENCE.as_secs().to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = spawn(command).unwrap();
        let lines = Lines::of(child.stdout.take().unwrap());
        let mut seen = Vec::new();
        let granted = lines.find("the broker's word", &mut seen, |line| line.starts_with("Subscribed"));
        granted.unwrap_or_else(|| panic!("it ended and said: {}", seen.join("\n")));
        Listener { child, lines }
    }
}

/// A stock client that hears everything.
pub(crate) struct Listener {
    child: Child,
    lines: Lines,
}

impl Listener {
    /// The next message: topic and payload. Commands are left out.
    pub(crate) fn message(&self) -> (String, Vec<u8>) {
        let mut seen = Vec::new();
        let wanted = |line: &str| line.starts_with("got ") && !line.contains("/NCMD/");
        let found = self.lines.find("a message", &mut seen, wanted);
        let found = found.unwrap_or_else(|| panic!("it ended and said: {}", seen.join("\n")));
        let (topic, payload) = found["got ".len()..].split_once(' ').unwrap();
        (topic.to_owned(), hex::decode(payload).unwrap())
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An authority, and a certificate of it for the broker.
fn write_certificates(directory: &Path) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // Another name than the broker's: OpenSSL takes a certificate that is its own issuer for self-signed.
    params.distinguished_name.push(DnType::CommonName, "Authority of a test");
    let key = KeyPair::generate().unwrap();
    let authority = params.self_signed(&key).unwrap();
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let broker = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    fs::write(directory.join("ca.pem"), authority.pem()).unwrap();
    fs::write(directory.join("broker.pem"), broker.pem()).unwrap();
    fs::write(directory.join("broker.key"), key.serialize_pem()).unwrap();
}

/// Cargo builds it for its own package's tests only.
fn plugin() -> PathBuf {
    latchkey_test_programs::of_package("latchkey-mosquitto-plugin", "latchkey_mosquitto_plugin").unwrap()
}
