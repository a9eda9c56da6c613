//! The processes.

mod etcd;

use crate::authority::{Authority, Credentials, key};
use crate::client::Client;
use crate::gate::{Outage, Way};
use crate::kubeconfig;
use crate::programs::program;
use latchkey_test_support::{Port, Process, spawn, until};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

/// How much of what a program said is shown when it does not get ready.
const TAIL: u64 = 4096;
/// Those that the controller manager runs: what kubeadm turns on, and all others.
const CONTROLLERS: &str = "*,bootstrap-signer-controller,token-cleaner-controller";

/// What is started.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// kube-controller-manager as well: it issues certificates that were approved, fills service accounts' tokens,
    /// and deletes tokens that ended.
    pub controllers: bool,
    /// It reaches etcd by a way that can be cut: [`ApiServer::cut_off`]. One beside it does not.
    pub apart: bool,
    /// Arguments of the API server, `(name, value)` without dashes; they count instead of those of the same name here.
    pub arguments: Vec<(String, String)>,
}

/// A running API server with its etcd. Dropping it ends both and deletes their data; so does the end of the tests,
/// however that happens.
#[derive(Debug)]
pub struct ApiServer {
    // In this order: who asks ends before who is asked, and files go last.
    controllers: Option<Process>,
    api: Option<Process>,
    etcd: Option<Process>,
    way_to_etcd: Option<Way>,
    arguments: Vec<(String, String)>,
    pub(crate) authority: Authority,
    ports: Ports,
    directory: TempDir,
}

/// See [`ApiServer::beside`].
#[derive(Debug)]
pub struct Peer {
    // It ends before its port is somebody else's.
    _api: Process,
    port: Port,
}

impl Peer {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }
}

#[derive(Debug)]
struct Ports {
    api: Port,
    etcd: Port,
    peers: Port,
}

impl ApiServer {
    /// An API server with nothing in it, ready.
    ///
    /// # Panics
    /// If it cannot be: says what is missing, or what the program said last.
    pub fn start() -> Self {
        Self::with(Setup::default())
    }

    /// The same with what `setup` asks for.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub fn with(setup: Setup) -> Self {
        let mut server = Self {
            controllers: None,
            api: None,
            etcd: None,
            way_to_etcd: None,
            arguments: setup.arguments,
            authority: Authority::make(),
            ports: Ports { api: Port::reserve(), etcd: Port::reserve(), peers: Port::reserve() },
            directory: TempDir::with_prefix("latchkey-api-server-").expect("a temporary directory"),
        };
        server.write_certificates();
        server.start_etcd();
        server.way_to_etcd = setup.apart.then(|| Way::to(server.ports.etcd.address(), Arc::new(())));
        server.start_api();
        if setup.controllers {
            server.start_controllers();
        }
        server
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.ports.api.address()
    }

    /// The same as an address of the web.
    pub fn url(&self) -> String {
        format!("https://{}", self.address())
    }

    /// The certificate of the authority that everybody here trusts (PEM).
    pub fn authority(&self) -> &str {
        self.authority.certificate()
    }

    /// The key of its authority (PEM, PKCS#8), for whoever stands for the operator that made it.
    pub fn authority_key(&self) -> String {
        self.authority.key()
    }

    /// Credentials of somebody who may do everything.
    pub fn admin(&self) -> Credentials {
        self.user("admin", Some("system:masters"))
    }

    /// Credentials of a user in a group (and in `system:authenticated`). A name makes no rights.
    pub fn user(&self, name: &str, group: Option<&str>) -> Credentials {
        self.authority.client(name, group)
    }

    /// Asks as who these credentials are.
    pub fn client(&self, credentials: &Credentials) -> Client {
        Client::new(&self.url(), self.authority(), Some(credentials), None)
    }

    /// The same, at another API server of the same cluster.
    pub fn client_at(&self, peer: &Peer, credentials: &Credentials) -> Client {
        Client::new(&format!("https://{}", peer.address()), self.authority(), Some(credentials), None)
    }

    /// Asks as who has a bearer token, for example a bootstrap token: `id.secret`.
    pub fn bearer(&self, token: &str) -> Client {
        Client::new(&self.url(), self.authority(), None, Some(token.to_owned()))
    }

    /// Asks as who has no credentials at all.
    pub fn anonymous(&self) -> Client {
        Client::new(&self.url(), self.authority(), None, None)
    }

    /// The path of a kubeconfig with these credentials, for their owner only, in the directory that goes with this.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn kubeconfig(&self, name: &str, credentials: &Credentials) -> PathBuf {
        let text = kubeconfig::with_certificate(&self.url(), self.authority(), credentials);
        self.write(&format!("{name}.kubeconfig"), &text)
    }

    /// The same for who has a bearer token.
    ///
    /// # Panics
    /// As [`Self::kubeconfig`].
    pub fn token_kubeconfig(&self, name: &str, token: &str) -> PathBuf {
        self.write(&format!("{name}.kubeconfig"), &kubeconfig::with_token(&self.url(), self.authority(), token))
    }

    /// Ends the API server as a power failure would; its port stays ours, and connections to it are refused.
    pub fn kill_api(&mut self) {
        self.api = None;
    }

    /// Starts it again, and waits until it is ready.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub fn start_api(&mut self) {
        let etcd = self.way_to_etcd.as_ref().map_or(self.ports.etcd.address(), Way::address);
        self.api = Some(self.api_server("kube-apiserver", &self.ports.api, etcd));
    }

    /// Has the API server stand still: connections stay open, new ones are taken by the kernel, and nothing is answered.
    pub fn freeze_api(&self) {
        if let Some(api) = &self.api {
            api.freeze();
        }
    }

    /// Has it go on.
    pub fn thaw_api(&self) {
        if let Some(api) = &self.api {
            api.thaw();
        }
    }

    /// The API server is cut off from etcd, while this lasts: it listens, and hears of nothing that others write.
    ///
    /// # Panics
    /// If it is not [`Setup::apart`].
    pub fn cut_off(&self) -> Outage<'_> {
        self.way_to_etcd.as_ref().expect("a way to etcd that can be cut").cut()
    }

    /// Another API server over the same etcd, with the same authority and the same arguments: that of a second control plane. It is
    /// ready, and ends before this one is dropped.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub fn beside(&self) -> Peer {
        let port = Port::reserve();
        Peer { _api: self.api_server("kube-apiserver-beside", &port, self.ports.etcd.address()), port }
    }

    /// A ready one, whose words go to the file of this name.
    fn api_server(&self, name: &str, port: &Port, etcd: SocketAddr) -> Process {
        let mut command = self.command("kube-apiserver", name);
        command.args(self.api_arguments(port, etcd));
        let process = self.run("kube-apiserver", command);
        let url = format!("https://{}", port.address());
        let admin = Client::new(&url, self.authority(), Some(&self.admin()), None);
        until("the API server to be ready", || {
            self.check(name, &process);
            admin.send("GET", "/readyz", "application/json", Vec::new()).ok().filter(|answer| answer.status() == 200)
        });
        process
    }

    /// Starts the controller manager.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start_controllers(&mut self) {
        let manager = self.user("system:kube-controller-manager", None);
        let kubeconfig = self.kubeconfig("kube-controller-manager", &manager);
        let mut command = self.command("kube-controller-manager", "kube-controller-manager");
        for (option, path) in [
            ("kubeconfig", kubeconfig),
            ("cluster-signing-cert-file", self.path("ca.pem")),
            ("cluster-signing-key-file", self.path("ca.key")),
            ("root-ca-file", self.path("ca.pem")),
            ("service-account-private-key-file", self.path("service-account.key")),
        ] {
            command.arg(format!("--{option}={}", path.display()));
        }
        command.arg(format!("--controllers={CONTROLLERS}"));
        // Its own limit is 20 requests a second, and it listens for nobody here.
        command.args(["--kube-api-qps=500", "--kube-api-burst=500", "--leader-elect=false", "--secure-port=0"]);
        command.arg("--use-service-account-credentials=true");
        self.controllers = Some(self.run("kube-controller-manager", command));
    }

    fn write_certificates(&self) {
        let server = self.authority.server(&["127.0.0.1", "localhost", "kubernetes", "kubernetes.default.svc"]);
        self.write("ca.pem", self.authority.certificate());
        self.write("ca.key", &self.authority.key());
        self.write("server.pem", &server.certificate);
        self.write("server.key", &server.key);
        let accounts = key();
        self.write("service-account.key", &accounts.serialize_pem());
        self.write("service-account.pub", &accounts.public_key_pem());
    }

    fn api_arguments(&self, port: &Port, etcd: SocketAddr) -> Vec<String> {
        let mut arguments: Vec<String> = [
            "--advertise-address=127.0.0.1",
            "--bind-address=127.0.0.1",
            // There is no Service of it for pods that are not there.
            "--endpoint-reconciler-type=none",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--enable-bootstrap-token-auth",
            "--anonymous-auth=false",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://kubernetes.default.svc",
        ]
        .map(str::to_owned)
        .into();
        for (option, name) in [
            ("client-ca-file", "ca.pem"),
            ("tls-cert-file", "server.pem"),
            ("tls-private-key-file", "server.key"),
            ("service-account-key-file", "service-account.pub"),
            ("service-account-signing-key-file", "service-account.key"),
        ] {
            arguments.push(format!("--{option}={}", self.path(name).display()));
        }
        arguments.push(format!("--secure-port={}", port.number()));
        arguments.push(format!("--etcd-servers=http://{etcd}"));
        let names = |argument: &str, name: &str| argument[2..].split('=').next() == Some(name);
        let asked = |argument: &str| {
            self.arguments.iter().any(|(name, _)| {
                // Who says in a file what is anonymous cannot say it here.
                names(argument, name) || name == "authentication-config" && names(argument, "anonymous-auth")
            })
        };
        arguments.retain(|argument| !asked(argument));
        arguments.extend(self.arguments.iter().map(|(name, value)| format!("--{name}={value}")));
        arguments
    }

    /// A program whose words go to a file of that name.
    fn command(&self, name: &str, log: &str) -> Command {
        let log = File::options().create(true).append(true).open(self.path(&format!("{log}.log"))).expect("a log");
        let mut command = Command::new(program(name));
        // A proxy of whoever runs the tests is none for loopback, and settings of etcd come as variables, too.
        command.env_clear().env("HOME", self.directory.path()).current_dir(self.directory.path());
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log);
        command
    }

    fn run(&self, name: &str, command: Command) -> Process {
        match spawn(command).and_then(Process::watch) {
            Ok(process) => process,
            Err(error) => panic!("{name} in {} cannot be started: {error}", self.directory.path().display()),
        }
    }

    /// That it has not given up.
    fn check(&self, name: &str, process: &Process) {
        for (name, process) in [(name, Some(process)), ("etcd", self.etcd.as_ref())] {
            assert!(process.is_none_or(Process::is_running), "{name} has ended:\n{}", self.said(name));
        }
    }

    /// The last words of a program.
    pub fn said(&self, name: &str) -> String {
        let mut text = Vec::new();
        let mut tail = |path: &Path| {
            let mut file = File::open(path)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
            file.read_to_end(&mut text)
        };
        let read = tail(&self.path(&format!("{name}.log")));
        let mut said = String::from_utf8_lossy(&text).into_owned();
        if let Err(error) = read {
            let _ = write!(said, "{name}.log: {error}");
        }
        said
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        let file = File::options().create(true).truncate(true).write(true).mode(0o600).open(&path);
        file.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes())).expect("a file");
        path
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        // What the programs said is worth something to somebody who looks for the cause.
        if std::thread::panicking() {
            for name in ["kube-apiserver", "kube-controller-manager"] {
                if fs::exists(self.path(&format!("{name}.log"))).unwrap_or_default() {
                    eprintln!("--- {name} said last:\n{}", self.said(name));
                }
            }
        }
    }
}
