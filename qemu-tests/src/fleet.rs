//! A small site: an authority for TPMs, a boot image, the real services and the real command line, and nodes.
//!
//! What an operator would do by hand is done here with the same programs and files. The nodes' join service answers on a
//! port and with a key that are on their measured command line, so both exist before the image does.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::bootimage::BootImage;
use crate::error::{HarnessError, io_error};
use crate::hardware::Disk;
use crate::machine::{HOST, Machine};
use crate::ports::Port;
use crate::process::{bound, output};
use crate::rootfs::RootFs;
use crate::run::Run;
use crate::service::Service;
use crate::swtpm::{Authority, TpmState};
use crate::vm::Vm;
use crate::{build, pki};

/// A step of a boot, even on a machine that compiles at the same time.
pub const STEP: Duration = Duration::from_mins(3);
/// Where the agent listens in a node.
const AGENT_PORT: u16 = 9000;
/// The size of a state disk.
const DISK: u64 = 64 << 20;
/// The cluster step of the test nodes: a founder and a joiner write data, a member shows that it is still there.
const HOOK: &str = r#"#!/bin/sh
# Called by the agent with init, join or start; reads JSON from stdin; stderr is progress, stdout the result.
disk=/dev/mapper/state
sum() { dd if=$disk bs=1M count=2 2>/dev/null | sha256sum | head -c 64; }
cat > /dev/null
case $1 in
start) echo "data $(sum)" >&2 ;;
*)
    grep -q test.fail=1 /proc/cmdline && { echo "told to fail" >&2; exit 7; }
    dd if=/dev/urandom of=$disk bs=1M count=2 2>/dev/null && sync
    echo "data $(sum)" >&2
    [ "$1" = init ] && echo "admin of the test cluster"
    ;;
esac
exit 0
"#;

/// Everything but the nodes.
#[derive(Debug)]
pub struct Fleet {
    run: Run,
    authority: Authority,
    programs: Programs,
    image: PathBuf,
    root: PathBuf,
    join_port: Port,
    key_words: String,
    pki: pki::Pki,
    init_hash: String,
}

#[derive(Debug)]
struct Programs {
    cli: PathBuf,
    join: PathBuf,
    keys: PathBuf,
}

/// The services of a cluster. Dropping them kills them.
#[derive(Debug)]
pub struct Services {
    /// Derives keys.
    pub keys: Service,
    /// Issues tickets.
    pub join: Service,
}

/// What a command of the operator did.
#[derive(Debug)]
pub struct Outcome {
    /// Exit status; -1 if a signal ended it.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Fleet {
    /// Builds programs, keys, image and root file system.
    pub fn new(name: &str) -> Result<Self, HarnessError> {
        Self::with(name, "", "echo OS up")
    }

    /// The same with more words on the measured command line, and other commands that the OS runs after stage 2.
    pub fn with(name: &str, words: &str, then: &str) -> Result<Self, HarnessError> {
        Self::with_files(name, words, then, Vec::new())
    }

    /// The same with more programs in the OS.
    pub fn with_files(
        name: &str,
        words: &str,
        then: &str,
        programs_in_os: Vec<(&str, Vec<u8>)>,
    ) -> Result<Self, HarnessError> {
        let run = Run::new(name)?;
        let programs = Programs {
            cli: build::program("latchkey-cli", "latchkey")?,
            join: build::program("latchkey-join-service", "latchkey-join-service")?,
            keys: build::program("latchkey-key-service", "latchkey-key-service")?,
        };
        let agent_path = build::agent()?;
        let agent = std::fs::read(&agent_path).map_err(io_error("read", &agent_path))?;
        let authority = Authority::new(&run)?;
        let join_port = Port::choose()?;

        let key = run.file("join-service.key");
        let key_words = output(Command::new(&programs.join).arg("--new-key").arg(&key))?.trim().to_owned();
        let mut os = RootFs::operating_system(agent, then)?.file("/usr/bin/hook", 0o755, HOOK);
        for (path, program) in programs_in_os {
            os = os.file(path, 0o755, program);
        }
        let root = os.build(&run, "root.img")?;
        let mut fleet = Self {
            pki: pki::Pki::new(&run)?,
            authority,
            programs,
            image: PathBuf::new(),
            root,
            join_port,
            key_words,
            init_hash: String::new(),
            run,
        };
        fleet.image = fleet.build_image("uki.efi", words)?;
        fleet.make_secrets()?;
        Ok(fleet)
    }

    /// Another boot image of the same agent, with more words on its command line.
    pub fn build_image(&self, name: &str, words: &str) -> Result<PathBuf, HarnessError> {
        let service = format!("{HOST}:{}", self.join_port.number());
        BootImage::agent()?
            .words("latchkey.root=device:/dev/vdb latchkey.state_disk=device:/dev/vda latchkey.metadata=qemu")
            .words("latchkey.cluster_step=command latchkey.command=/usr/bin/hook latchkey.ek=auto")
            .words(&format!("latchkey.join_service={service} {}", self.key_words))
            .words(words)
            .build(&self.run, name)
    }

    fn make_secrets(&mut self) -> Result<(), HarnessError> {
        self.cli(&["secret", "new", &self.path("master.json")])?.success("secret new")?;
        let made = self
            .cli(&["init-secret", "--out", &self.path("init.secret"), "--output", "json"])?
            .success("init-secret")?;
        let made: Value =
            serde_json::from_str(&made.out).map_err(|e| HarnessError::Unusable(format!("init-secret: {e}")))?;
        let hash = made["hash"].as_str().ok_or_else(|| HarnessError::Unusable(format!("init-secret prints {made}")))?;
        hash.clone_into(&mut self.init_hash);
        Ok(())
    }

    /// The run's directory.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// The boot image of honest nodes.
    pub fn image(&self) -> &Path {
        &self.image
    }

    /// The size of its initramfs in bytes.
    pub fn initramfs_size(&self) -> Result<usize, HarnessError> {
        Ok(BootImage::agent()?.initramfs(&crate::kernel::Kernel::provision()?)?.len())
    }

    /// A path in the run's directory, as text for a command line.
    pub fn path(&self, name: &str) -> String {
        self.run.file(name).display().to_string()
    }

    /// The endorsement authority's root certificate, as text for a command line.
    pub fn ek_root(&self) -> String {
        self.authority.root_certificate().display().to_string()
    }

    /// The endorsement authority's intermediate, as text for a command line.
    pub fn ek_intermediate(&self) -> String {
        self.authority.issuer_certificate().display().to_string()
    }

    /// A machine with a TPM of its own and an empty state disk, off.
    pub fn machine(&self, name: &str) -> Result<Machine, HarnessError> {
        let tpm = self.authority.tpm(name)?;
        let disk = self.run.disk(&format!("{name}-state.img"), DISK)?;
        self.machine_of(name, &self.image, &tpm, &disk)
    }

    /// A machine made of given parts.
    pub fn machine_of(&self, name: &str, image: &Path, tpm: &TpmState, disk: &Path) -> Result<Machine, HarnessError> {
        Machine::new(&self.run, name, image)
            .tpm(tpm)
            .disk(Disk::new(disk, "state"))
            .disk(Disk::new(&self.root, "root").read_only())
            .forward(Port::choose()?, AGENT_PORT)
            .metadata(&json!({"version": 1, "node_name": name, "init_secret_hash": self.init_hash}))
    }

    /// A new TPM with a certificate.
    pub fn tpm(&self, name: &str) -> Result<TpmState, HarnessError> {
        self.authority.tpm(name)
    }

    /// Runs the operator's command to its end.
    pub fn cli(&self, arguments: &[&str]) -> Result<Outcome, HarnessError> {
        let mut command = Command::new(&self.programs.cli);
        let ran = command.args(arguments).env("NO_COLOR", "1").stdin(std::process::Stdio::null()).output();
        let ran = ran.map_err(io_error("run", &self.programs.cli))?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Outcome { code: ran.status.code().unwrap_or(-1), out: text(ran.stdout), err: text(ran.stderr) })
    }

    /// Starts the operator's command and leaves it running.
    pub fn cli_in_background(&self, name: &str, arguments: &[&str]) -> Result<Service, HarnessError> {
        let mut command = bound(&self.programs.cli);
        command.args(arguments).env("NO_COLOR", "1");
        Service::spawn(&self.run, name, command)
    }

    /// Trusts the boot of this node: records its measurements and writes the policy that goes with them.
    pub fn record(&self, node: &Vm) -> Result<(), HarnessError> {
        let address = address(node);
        let (root, reference, policy) = (self.ek_root(), self.path("reference.json"), self.path("policy.json"));
        let intermediate = self.ek_intermediate();
        let arguments = [
            "record",
            &address,
            "--ek-root",
            &root,
            "--ek-intermediate",
            &intermediate,
            "--name",
            "test-image",
            "--version",
            "0.1.0",
            "--out",
            &reference,
            "--policy-out",
            &policy,
        ];
        self.cli(&arguments)?.success("record")?;
        Ok(())
    }

    /// The arguments of `latchkey init` for a node.
    pub fn init_arguments(&self, node: &Vm) -> Vec<String> {
        let mut arguments: Vec<String> =
            ["init", &address(node), "--name", "test", "--output", "json"].map(Into::into).into();
        for (flag, file) in [
            ("--cluster", "cluster"),
            ("--master-secret", "master.json"),
            ("--init-secret", "init.secret"),
            ("--policy", "policy.json"),
            ("--reference", "reference.json"),
            ("--admin-config", "admin.conf"),
        ] {
            arguments.extend([flag.to_owned(), self.path(file)]);
        }
        arguments
    }

    /// Initialises the cluster with this node as its first.
    pub fn init(&self, node: &Vm) -> Result<Outcome, HarnessError> {
        let arguments = self.init_arguments(node);
        self.cli(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Pushes the key of a node's disk.
    pub fn recover(&self, node: &Vm, master: &str) -> Result<Outcome, HarnessError> {
        let (address, cluster, policy) = (address(node), self.path("cluster"), self.path("policy.json"));
        let reference = self.path("reference.json");
        let arguments = [
            "recover",
            &address,
            "--cluster",
            &cluster,
            "--master-secret",
            master,
            "--policy",
            &policy,
            "--reference",
            &reference,
            "--output",
            "json",
        ];
        self.cli(&arguments)
    }

    /// Starts key service and join service for the cluster folder.
    pub fn services(&self) -> Result<Services, HarnessError> {
        let keys = self.key_service()?;
        let join = self.join_service(&keys)?;
        Ok(Services { keys, join })
    }

    /// Starts the key service.
    pub fn key_service(&self) -> Result<Service, HarnessError> {
        let config = json!({
            "schema": 1,
            "listen": "127.0.0.1:0",
            "admin_listen": "127.0.0.1:0",
            "master_secret": self.path("master.json"),
            "tls": {
                "certificate": self.pki.key_service.certificate,
                "private_key": self.pki.key_service.key,
                "client_ca": self.pki.authority,
            },
            "callers": [{"name": pki::JOIN_SERVICE, "key_classes": ["state-disk", "measurement-secret"]}],
        });
        let path = self.run.write("key-service.json", config.to_string())?;
        let arguments = ["--config", &path.display().to_string()];
        Service::start(&self.run, "key-service", &self.programs.keys, &arguments, "READY")
    }

    /// Starts the join service, which asks this key service.
    pub fn join_service(&self, keys: &Service) -> Result<Service, HarnessError> {
        let config = json!({
            "schema": 1,
            "listen": format!("127.0.0.1:{}", self.join_port.number()),
            "admin_listen": "127.0.0.1:0",
            "identity_key": self.path("join-service.key"),
            "cluster_folder": self.path("cluster"),
            "key_service": {
                "address": listen_address(keys)?,
                "server_name": pki::KEY_SERVICE,
                "certificate": self.pki.join_service.certificate,
                "private_key": self.pki.join_service.key,
                "ca": self.pki.authority,
            },
        });
        let path = self.run.write("join-service.json", config.to_string())?;
        let arguments = ["--config", &path.display().to_string()];
        Service::start(&self.run, "join-service", &self.programs.join, &arguments, "READY")
    }
}

impl Outcome {
    /// Itself, if the command succeeded.
    pub fn success(self, what: &str) -> Result<Self, HarnessError> {
        if self.code == 0 {
            return Ok(self);
        }
        let output = format!("status {}\n{}{}", self.code, self.out, self.err);
        Err(HarnessError::Command { command: format!("latchkey {what}"), output })
    }

    /// Standard output as JSON; `null` if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or(Value::Null)
    }
}

/// Where the node's agent is reached, as text for a command line.
pub fn address(node: &Vm) -> String {
    node.address(AGENT_PORT).map(|address| address.to_string()).unwrap_or_default()
}

/// What a service says it listens on: `READY listen=ADDRESS admin=ADDRESS`.
pub fn listen_address(service: &Service) -> Result<String, HarnessError> {
    let line = service.console().value("READY listen=");
    let address = line.as_deref().and_then(|line| line.split(' ').next()).map(str::to_owned);
    address.ok_or_else(|| HarnessError::Unusable("a service does not say where it listens".into()))
}
