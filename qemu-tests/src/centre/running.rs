//! The centre itself.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use latchkey_centre_site::{EnrolPlace, Layout, Parameters, Place, Places, Program, Service};
use latchkey_factory_plus::{EdgeImages, uuids};
use latchkey_factory_plus_client::{BaseUrl, Client, Identity, Insecure, Limits, Services, Settings, Trust};
use latchkey_test_support::{Lines, PATIENCE, Port, until};
use serde_json::Value;

use crate::build;
use crate::doctor::need;
use crate::error::{HarnessError, io_error};
use crate::process::{Finished, Process, TOOL, run, spawn};
use crate::run::Run;

/// What a centre is made of besides our programs.
const TOOLS: [&str; 7] =
    ["/usr/sbin/krb5kdc", "/usr/sbin/kadmind", "/usr/sbin/mosquitto", "kinit", "curl", "git", "setpriv"];

/// A centre in a directory of the test. Dropping it ends every process of it.
#[derive(Debug)]
pub struct Centre {
    /// What the operator decided.
    pub parameters: Parameters,
    /// Where everything stands.
    pub layout: Layout,
    /// The operator's password, once the centre has told it.
    pub password: String,
    /// The directory of the test.
    pub run: Run,
    programs: PathBuf,
    up: Option<Process>,
    /// Locked by nobody else: threads of a test share a centre.
    out: Option<Mutex<Lines>>,
    last: Vec<String>,
    _ports: Vec<Port>,
}

/// A process of a centre.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// Its process id.
    pub id: u32,
    /// The file name of its program.
    pub program: String,
}

impl Centre {
    /// One that runs, with TLS.
    pub fn started(name: &str) -> Result<Self, HarnessError> {
        let mut centre = Self::prepared(name, false)?;
        centre.start()?;
        Ok(centre)
    }

    /// The directory of one that was never started: nothing but its parameters.
    pub fn prepared(name: &str, insecure: bool) -> Result<Self, HarnessError> {
        for tool in TOOLS {
            need(tool)?;
        }
        let programs = build::program("latchkey")?.parent().unwrap_or_else(|| Path::new("/")).to_owned();
        let run = Run::new(name)?;
        let mut ports = Vec::new();
        let mut parameters = Parameters::on_loopback("FACTORY.TEST", "ACME", insecure, Parameters::FIRST_PORT)
            .map_err(|error| HarnessError::Unusable(error.to_string()))?;
        let mut next = || {
            ports.push(Port::reserve());
            ports.last().map(Port::address).ok_or_else(|| HarnessError::Unusable("no port".into()))
        };
        let places = &mut parameters.places;
        for place in origins(places) {
            let (listen, admin) = (next()?, next()?);
            let scheme = if insecure { "http" } else { "https" };
            *place = Place { listen, admin, url: url(&format!("{scheme}://localhost:{}", listen.port()))? };
        }
        places.enrol_service = EnrolPlace { listen: next()?, admin: next()?, collateral: None };
        for address in [&mut places.broker, &mut places.kdc, &mut places.kadmin, &mut places.kpasswd] {
            *address = next()?;
        }
        let layout = Layout::new(run.subdirectory("centre")?);
        let centre = Self {
            parameters,
            layout,
            password: String::new(),
            run,
            programs,
            up: None,
            out: None,
            last: Vec::new(),
            _ports: ports,
        };
        centre.write_parameters()?;
        Ok(centre)
    }

    fn write_parameters(&self) -> Result<(), HarnessError> {
        let text = serde_json::to_string_pretty(&self.parameters);
        let text = text.map_err(|error| HarnessError::Unusable(error.to_string()))?;
        fs::write(self.layout.parameters(), text).map_err(io_error("write", &self.layout.parameters()))
    }

    /// Before its first start: others reach it by this name.
    pub fn with_host(mut self, host: &str) -> Result<Self, HarnessError> {
        host.clone_into(&mut self.parameters.host);
        for place in origins(&mut self.parameters.places) {
            place.url = url(&place.url.to_string().replacen("localhost", host, 1))?;
        }
        self.write_parameters()?;
        Ok(self)
    }

    /// Before its first start: edges run these container images.
    pub fn with_images(mut self, images: EdgeImages) -> Result<Self, HarnessError> {
        self.parameters.images = images;
        self.write_parameters()?;
        Ok(self)
    }

    /// Takes the programs of another directory.
    #[must_use]
    pub fn with_programs(mut self, programs: PathBuf) -> Self {
        self.programs = programs;
        self
    }

    /// Where the programs are that it is made of.
    pub fn programs(&self) -> &Path {
        &self.programs
    }

    /// A directory with a link to each program of a centre, for a test that changes one of them.
    pub fn linked_programs(&self, name: &str) -> Result<PathBuf, HarnessError> {
        let directory = self.run.subdirectory(name)?;
        let ours = Service::ALL.map(Service::file_name);
        let others = ["latchkey", "latchkey-kerberos-helper", "liblatchkey_mosquitto_plugin.so"];
        for program in ours.into_iter().chain(others) {
            let (from, to) = (self.programs.join(program), directory.join(program));
            // The command looks beside its own file, so a symbolic link would not do; another file system needs a copy.
            fs::hard_link(&from, &to).or_else(|_| fs::copy(&from, &to).map(drop)).map_err(io_error("copy", &from))?;
        }
        Ok(directory)
    }

    /// Starts it, waits until it says that it is ready, and says what it said and how long it took.
    pub fn start(&mut self) -> Result<(Value, Duration), HarnessError> {
        self.start_with(&[])
    }

    /// The same with further arguments.
    pub fn start_with(&mut self, arguments: &[&str]) -> Result<(Value, Duration), HarnessError> {
        let begin = Instant::now();
        self.begin(arguments)?;
        let mut said = Vec::new();
        if let Some(lines) = &mut self.out {
            let lines = lines.get_mut().unwrap_or_else(PoisonError::into_inner);
            lines.find("the report of `latchkey centre up`", &mut said, |line| line.starts_with('{'));
        }
        let Some(report) = said.last().and_then(|line| serde_json::from_str::<Value>(line).ok()) else {
            self.ended()?;
            let (name, event) = ("latchkey centre up".into(), "its report".into());
            return Err(HarnessError::Ended { name, event, tail: self.said() });
        };
        let taken = begin.elapsed();
        if let Some(password) = report["password"].as_str() {
            password.clone_into(&mut self.password);
            self.write_secret("password", password)?;
        }
        self.lets_in();
        eprintln!("{taken:?} until the page was told, {:?} until each service let the operator in", begin.elapsed());
        Ok((report, taken))
    }

    /// Starts it and does not wait: for a test that ends it before it is ready.
    pub fn begin(&mut self, arguments: &[&str]) -> Result<(), HarnessError> {
        let log = self.run.file("up.log");
        let errors = File::options().create(true).append(true).open(&log).map_err(io_error("write", &log))?;
        let mut command = self.up(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
        let mut child = spawn(command).map_err(io_error("start", &self.programs))?;
        let out = child.stdout.take().map(Lines::of);
        let up = Process::watch(child).map_err(io_error("watch", &self.programs))?;
        (self.up, self.out) = (Some(up), out.map(Mutex::new));
        self.last.clear();
        Ok(())
    }

    /// Waits until each service knows what the operator may do: a moment after a start they say that they do not (503).
    fn lets_in(&self) {
        let info = Self::entry(uuids::application::INFO, &uuids::service::AUTH.to_string());
        let asked =
            [(Program::ConfigDb, info.as_str()), (Program::ClusterManager, "v1/cluster"), (Program::Auth, "v2/whoami")];
        for (program, path) in asked {
            until(format_args!("{program:?} to let the operator in"), || {
                self.ask(self.admin(), "GET", program, path).ok().filter(|answer| answer.status == 200)
            });
        }
    }

    /// A start that must fail: how it ended, and what it said.
    pub fn start_in_vain(&self, arguments: &[&str]) -> Result<Finished, HarnessError> {
        run(&mut self.up(arguments), TOOL)
    }

    fn up(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.programs.join("latchkey"));
        command.args(["centre", "up"]).arg(self.layout.root()).args(["--output", "json"]).args(arguments);
        command
    }

    /// Asks it to end, and waits until it has.
    pub fn stop(&mut self) -> Result<ExitStatus, HarnessError> {
        if let Some(up) = &self.up {
            up.terminate();
        }
        self.ended()
    }

    /// Waits until it ends by itself.
    pub fn ended(&mut self) -> Result<ExitStatus, HarnessError> {
        let status = self.up.take().and_then(|up| up.wait(PATIENCE));
        if let Some(lines) = self.out.take().filter(|_| status.is_some()) {
            let lines = lines.into_inner().unwrap_or_else(PoisonError::into_inner);
            lines.rest("the last words of `latchkey centre up`", &mut self.last);
        }
        status.ok_or_else(|| HarnessError::Deadline {
            name: "latchkey centre up".into(),
            event: "end".into(),
            after: PATIENCE,
            tail: self.said(),
        })
    }

    /// What `latchkey centre up` said besides its report.
    pub fn said(&self) -> String {
        fs::read_to_string(self.run.file("up.log")).unwrap_or_default() + &self.last.join("\n")
    }

    /// What it wrote to standard output after its report: each line is one object.
    pub fn ending(&self) -> Vec<Value> {
        self.last.iter().map(|line| serde_json::from_str(line).unwrap_or(Value::Null)).collect()
    }

    /// Whether `latchkey centre up` has not ended.
    pub fn is_running(&self) -> bool {
        self.up.as_ref().is_some_and(Process::is_running)
    }

    /// Ends `latchkey centre up` as nobody can hear it coming, and waits until it is gone.
    pub fn kill(&mut self) -> Result<ExitStatus, HarnessError> {
        if let Some(up) = &self.up {
            up.kill();
        }
        self.ended()
    }

    /// Its processes.
    pub fn children(&self) -> Vec<Child> {
        self.up.as_ref().map(|up| children(up.id())).unwrap_or_default()
    }

    /// One of its processes.
    pub fn child(&self, program: &str) -> Result<u32, HarnessError> {
        let child = self.children().into_iter().find(|child| child.program == program);
        child.map(|child| child.id).ok_or_else(|| HarnessError::Unusable(format!("{program} does not run")))
    }

    /// Every process that was told of this centre's directory, whoever started it.
    pub fn processes(&self) -> Vec<Child> {
        let root = self.layout.root().as_os_str().as_encoded_bytes();
        let names = |child: &Child, file: &str| {
            // Gone meanwhile, it names nothing.
            let text = fs::read(format!("/proc/{}/{file}", child.id)).unwrap_or_default();
            text.windows(root.len()).any(|part| part == root)
        };
        let own = std::process::id();
        let all = processes().into_iter().map(|(child, _)| child).filter(|child| child.id != own);
        all.filter(|child| names(child, "cmdline") || names(child, "environ")).collect()
    }

    /// `latchkey cluster …` as its operator runs it.
    pub fn cluster(&self, arguments: &[&str]) -> Result<Finished, HarnessError> {
        run(&mut self.cluster_command(arguments), TOOL)
    }

    /// The same, for who wants to start it himself.
    pub fn cluster_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.programs.join("latchkey"));
        command.arg("cluster").args(arguments).args(["--output", "json", "--centre"]).arg(self.layout.operator());
        command.arg("--password-file").arg(self.run.file("password"));
        command
    }

    /// What a command reports that must succeed.
    pub fn reported(&self, arguments: &[&str]) -> Result<Value, HarnessError> {
        let done = self.cluster(arguments)?;
        let text = String::from_utf8_lossy(&done.out).into_owned();
        match serde_json::from_str(&text) {
            Ok(report) if done.status.success() => Ok(report),
            _ => Err(HarnessError::Command {
                command: format!("latchkey cluster {}", arguments.join(" ")),
                output: format!("{}\n{text}{}", done.status, String::from_utf8_lossy(&done.err)),
            }),
        }
    }

    /// The operator's client.
    pub fn client(&self) -> Result<Client, HarnessError> {
        self.client_of("admin", &self.password)
    }

    /// What Kerberos calls a principal of the centre: a test names one that can be.
    pub(crate) fn upn(&self, name: &str) -> String {
        format!("{name}@{}", self.parameters.realm)
    }

    /// The client of a principal.
    pub fn client_of(&self, name: &str, password: &str) -> Result<Client, HarnessError> {
        let unusable = |error: &dyn std::fmt::Display| HarnessError::Unusable(error.to_string());
        let upn = self.parameters.upn(name).map_err(|error| unusable(&error))?;
        let identity = Identity::basic(&upn, &password.to_owned().into()).map_err(|error| unusable(&error))?;
        let trust = if self.parameters.insecure {
            Trust::none().allowing(Insecure)
        } else {
            Trust::roots(&self.layout.authority()).map_err(|error| unusable(&error))?
        };
        let place = |program| self.parameters.place(program).url.clone();
        let services = Services::directory(place(Program::Directory))
            .with(uuids::service::CLUSTER_MANAGER, place(Program::ClusterManager));
        Ok(Client::new(Settings { identity, trust, services, limits: Limits::default() }))
    }

    /// Writes a file that only its owner may read, and says where.
    pub fn write_secret(&self, name: &str, content: impl AsRef<[u8]>) -> Result<PathBuf, HarnessError> {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.run.write(name, content)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(io_error("protect", &path))?;
        Ok(path)
    }
}

impl Drop for Centre {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Beside the other logs of the run, which stay when a test fails.
            for entry in fs::read_dir(self.layout.logs()).into_iter().flatten().flatten() {
                let _ = fs::copy(entry.path(), self.run.path().join(entry.file_name()));
            }
        }
        // In order, as its operator would end it: killed, it would leave what its children started.
        let _ = self.up.is_some().then(|| self.stop());
    }
}

/// Where each service is that has an origin.
fn origins(places: &mut Places) -> [&mut Place; 5] {
    let Places { auth, config_db, directory, git_server, cluster_manager, .. } = places;
    [auth, config_db, directory, git_server, cluster_manager]
}

/// The children of a process, as the kernel tells them.
pub fn children(parent: u32) -> Vec<Child> {
    processes().into_iter().filter(|(_, of)| *of == parent).map(|(child, _)| child).collect()
}

/// All processes but those that have ended, each with its parent.
fn processes() -> Vec<(Child, u32)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| process(entry.file_name().to_str()?.parse().ok()?)).collect()
}

fn process(id: u32) -> Option<(Child, u32)> {
    // "PID (NAME) STATE PPID …", and the name may have anything in it.
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let mut words = stat.rsplit_once(')')?.1.split_whitespace();
    let (state, parent) = (words.next()?, words.next()?.parse().ok()?);
    let line = fs::read(format!("/proc/{id}/cmdline")).ok()?;
    let first = String::from_utf8_lossy(line.split(|byte| *byte == 0).next()?).into_owned();
    let program = Path::new(&first).file_name()?.to_string_lossy().into_owned();
    (state != "Z").then_some((Child { id, program }, parent))
}

fn url(text: &str) -> Result<BaseUrl, HarnessError> {
    text.parse().map_err(|_| HarnessError::Unusable(format!("{text} is no URL")))
}
