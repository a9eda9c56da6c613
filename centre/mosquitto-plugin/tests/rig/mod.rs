//! A real Mosquitto with the plugin, and a server of grants behind it.

use latchkey_broker::server::{Authority, Limits, Refusal, Server};
use latchkey_broker::{Access, Filter, Grant, Grants};
use latchkey_test_support::{Lines, PATIENCE, Port, Process, skip, spawn};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use zeroize::Zeroizing;

/// An authority that tests fill: grants by principal. Passwords are judged by whatever it was made with.
pub(crate) struct Permissions<V> {
    pub(crate) verify: V,
    pub(crate) grants: Arc<Mutex<HashMap<String, Grants>>>,
}

pub(crate) trait Verify: Send + Sync + 'static {
    fn verify(&self, name: &str, password: &Zeroizing<Vec<u8>>)
    -> impl Future<Output = Result<String, Refusal>> + Send;
}

impl<V: Verify> Authority for Permissions<V> {
    async fn verify(&self, username: &str, password: &Zeroizing<Vec<u8>>) -> Result<String, Refusal> {
        self.verify.verify(username, password).await
    }

    async fn grants(&self, principal: &str) -> Result<Grants, Refusal> {
        let grants = self.grants.lock().unwrap().get(principal).cloned();
        grants.ok_or_else(|| Refusal { code: "principal-unknown".into(), outage: false })
    }
}

pub(crate) struct Broker {
    pub(crate) process: Process,
    pub(crate) lines: Lines,
    pub(crate) port: Port,
    pub(crate) directory: TempDir,
}

impl Broker {
    /// Nothing, where Mosquitto is missing, and the test is said to be skipped.
    pub(crate) fn start_or_skip(options: &[(&str, &str)]) -> Option<Self> {
        if !Path::new("/usr/sbin/mosquitto").exists() || !Path::new("/usr/bin/mosquitto_pub").exists() {
            skip("mosquitto (Debian packages mosquitto, mosquitto-clients) is not installed");
            return None;
        }
        let directory = TempDir::with_prefix("latchkey-mosquitto-").unwrap();
        let (port, plugin) = (Port::reserve(), plugin());
        let user = if rustix::process::getuid().is_root() { "user root\n" } else { "" };
        let mut text = format!("{user}listener {} 127.0.0.1\nplugin {}\n", port.number(), plugin.display());
        for (name, value) in options {
            let value = value.replace("DIR", directory.path().to_str().unwrap());
            writeln!(text, "plugin_opt_{name} {value}").unwrap();
        }
        let config = directory.path().join("mosquitto.conf");
        std::fs::write(&config, text).unwrap();
        let mut command = Command::new("/usr/sbin/mosquitto");
        command.arg("-v").arg("-c").arg(config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = spawn(command).unwrap();
        let lines = Lines::of(child.stderr.take().unwrap());
        Some(Self { process: Process::watch(child).unwrap(), lines, port, directory })
    }

    /// With a socket in its directory; it listens when this returns.
    pub(crate) fn ready(options: &[(&str, &str)]) -> Option<Self> {
        let socket = ("latchkey_socket", "DIR/auth.sock");
        let broker = Self::start_or_skip(&[&[socket], options].concat())?;
        broker.says("running");
        Some(broker)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("auth.sock")
    }

    /// Waits for a line of its log.
    pub(crate) fn says(&self, text: &str) -> String {
        let mut seen = Vec::new();
        let found = self.lines.find(text, &mut seen, |line| line.contains(text));
        found.unwrap_or_else(|| panic!("it ended and said: {}", seen.join("\n")))
    }

    fn client(&self, program: &str, user: Option<(&str, &str)>) -> Command {
        // Line by line, although nobody reads at a terminal.
        let mut command = Command::new("stdbuf");
        command.args([
            "-oL",
            program,
            "-h",
            "127.0.0.1",
            "-p",
            &self.port.number().to_string(),
            "-V",
            "mqttv5",
            "-q",
            "1",
        ]);
        if let Some((name, password)) = user {
            command.args(["-u", name, "-P", password]);
        }
        command
    }

    /// Publishes a message, and waits for the broker's word.
    pub(crate) fn publish(&self, user: Option<(&str, &str)>, topic: &str, message: &str) -> Output {
        let mut command = self.client("mosquitto_pub", user);
        command.args(["-t", topic, "-m", message, "-d"]);
        latchkey_test_support::output(&mut command).unwrap()
    }

    /// A client that stays, and publishes line by line.
    pub(crate) fn publisher(&self, user: (&str, &str), topic: &str) -> Publisher {
        let mut command = self.client("mosquitto_pub", Some(user));
        command.args(["-t", topic, "-l"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = spawn(command).unwrap();
        let input = child.stdin.take().unwrap();
        Publisher { input, _process: Process::watch(child).unwrap() }
    }

    /// Subscribes, and waits until the broker has said something about it.
    pub(crate) fn subscribe(&self, user: (&str, &str), id: &str, filter: &str) -> Subscriber {
        subscribe_as(self.client("mosquitto_sub", Some(user)), id, filter)
    }

    /// The same with a will, which the broker publishes when the client is gone without a word.
    pub(crate) fn subscribe_with_will(&self, user: (&str, &str), filter: &str, will: (&str, &str)) -> Subscriber {
        let mut command = self.client("mosquitto_sub", Some(user));
        command.args(["--will-topic", will.0, "--will-payload", will.1]);
        subscribe_as(command, "mortal", filter)
    }
}

fn subscribe_as(mut command: Command, id: &str, filter: &str) -> Subscriber {
    // The messages go to standard output, line by line; what was granted to where `-d` writes.
    command.args(["-i", id, "-t", filter, "-d", "-F", "got %t %p", "-W", &PATIENCE.as_secs().to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = spawn(command).unwrap();
    let lines = Lines::of(child.stdout.take().unwrap());
    let mut seen = Vec::new();
    let said = lines.find("the broker's word", &mut seen, |line| {
        line.contains("Subscribed")
            || line.contains("denied")
            || line.contains("refused")
            || line.contains("CONNACK (1")
    });
    let granted =
        said.is_some_and(|line| line.starts_with("Subscribed") && !line.ends_with("128") && !line.ends_with("135"));
    Subscriber { child: Some(child), lines, granted, seen }
}

pub(crate) struct Publisher {
    input: std::process::ChildStdin,
    _process: Process,
}

impl Publisher {
    pub(crate) fn send(&mut self, message: &str) {
        use std::io::Write as _;
        writeln!(self.input, "{message}").unwrap();
    }
}

pub(crate) struct Subscriber {
    child: Option<Child>,
    pub(crate) lines: Lines,
    pub(crate) granted: bool,
    pub(crate) seen: Vec<String>,
}

impl Subscriber {
    /// The next message.
    pub(crate) fn message(&mut self) -> String {
        let found = self.lines.find("a message", &mut self.seen, |line| line.starts_with("got "));
        found.unwrap_or_else(|| panic!("it ended and said: {}", self.seen.join("\n")))
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs a server at this socket until the end of the test.
pub(crate) fn serve<V: Verify>(socket: &Path, permissions: Permissions<V>) -> smol::Task<()> {
    let limits = Limits {
        users: vec![rustix::process::getuid().as_raw()],
        remember: Duration::from_mins(1),
        failures: 3,
        window: Duration::from_mins(10),
    };
    let server = Server::bind(socket, permissions, limits).unwrap();
    smol::spawn(async move { drop(server.run().await) })
}

pub(crate) fn grants(list: &[(&str, &str)]) -> Grants {
    let grant = |(filter, access): &(&str, &str)| Grant {
        filter: Filter::parse(filter).unwrap(),
        access: Access::parse(access).unwrap(),
    };
    Grants(list.iter().map(grant).collect())
}

/// Cargo puts it beside the tests.
fn plugin() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let deps = tests.parent().unwrap();
    [deps, deps.parent().unwrap()]
        .map(|directory| directory.join("liblatchkey_mosquitto_plugin.so"))
        .into_iter()
        .find(|path| path.exists())
        .expect("the plugin, built with its tests")
}
