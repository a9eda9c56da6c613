//! A small site: an authority for TPMs, a boot image, the real services and the real command line, and nodes.
//!
//! What an operator would do by hand is done here with the same programs and files. The nodes' join service answers on a
//! port and with a key that are on their measured command line, so both exist before the image does.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use latchkey_attestation::ReferenceValues;
use serde_json::{Value, json};

use crate::debian::{DebianRoot, Step};
use crate::error::{HarnessError, io_error};
use crate::hardware::{Boot, Disk};
use crate::kubernetes::Which;
use crate::machine::{HOST, Machine};
use crate::osimage::{ImageWorks, OsImage};
use crate::ports::Port;
use crate::process::output;
use crate::publisher::Publisher;
use crate::rootfs::{Form, Root, RootFs};
use crate::run::Run;
use crate::swtpm::{Authority, TpmState};
use crate::{build, pki};

/// A step of a boot, or a whole one, takes seconds; this is for a machine five times slower that has other things to do.
pub const STEP: Duration = Duration::from_mins(10);
/// What a node says that waits for `latchkey init`.
pub const WAITS: &str = "waiting on port 9000";
/// What the OS of a node says whose stage 2 is done.
pub const MEMBER: &str = "OS stage2 0";
/// What a node says whose name begins with "paused": its cluster step waits for a line from the keyboard.
pub const PAUSED: &str = "cluster-step: paused";
/// Where the agent listens in a node.
pub(crate) const AGENT_PORT: u16 = 9000;
/// The manifest that the site's policy names, and the image in it.
pub const MANIFEST: &str = "test-image";
/// The version of the image that a site begins with.
pub const VERSION: &str = "1.0.0";
/// The archive of a Debian, in the run's directory.
const DEBIAN: &str = "debian.tar";
/// The size of a state disk.
const STATE_DISK: u64 = 64 << 20;
/// The size of a disk that holds an image and the state: larger than any image here.
pub const WHOLE_DISK: u64 = 256 << 20;
/// The cluster step of the test nodes: a founder and a joiner write data, a member shows that it is still there.
const HOOK: &str = r#"#!/bin/sh
# Called by the agent with init, join or start; reads JSON from stdin; stderr is progress, stdout the result.
# What is particular about a node is in its name, which the measured image does not know.
called() { grep -q "\"node_name\":\"$1" /sys/firmware/qemu_fw_cfg/by_name/opt/latchkey/metadata.json/raw; }
disk=/dev/mapper/state
sum() { dd if=$disk bs=1M count=2 2>/dev/null | sha256sum | head -c 64; }
cat > /dev/null
case $1 in
start) echo "data $(sum)" >&2 ;;
*)
    called failing && { echo "told to fail" >&2; exit 7; }
    called killed && kill -9 $PPID
    called paused && { echo "paused" >&2; read go < /dev/console; }
    dd if=/dev/urandom of=$disk bs=1M count=2 conv=fsync 2>/dev/null
    echo "data $(sum)" >&2
    [ "$1" = init ] && echo "admin of the test cluster"
    ;;
esac
exit 0
"#;

/// Everything but the nodes.
#[derive(Debug)]
pub struct Fleet {
    pub(crate) run: Run,
    pub(crate) programs: Programs,
    authority: Authority,
    works: ImageWorks,
    image: OsImage,
    root: Root,
    pub(crate) join_port: Port,
    site_words: String,
    state_disk: u64,
    /// PATH of the operator's command, if it is another than this program's.
    pub(crate) path: Option<OsString>,
    pub(crate) pki: pki::Pki,
    /// Of the init secret, for metadata.
    pub init_hash: String,
    /// More places where machines find the join service, as their metadata names them.
    pub(crate) peers: Vec<String>,
    /// What operator and join service verify processors' reports by.
    pub(crate) collateral: Option<PathBuf>,
}

#[derive(Debug)]
pub(crate) struct Programs {
    pub(crate) cli: PathBuf,
    pub(crate) join: PathBuf,
    pub(crate) keys: PathBuf,
}

impl Programs {
    fn build() -> Result<Self, HarnessError> {
        Self::built_by(build::program)
    }

    fn built_by(build: impl Fn(&str) -> Result<PathBuf, build::BuildError>) -> Result<Self, HarnessError> {
        let [cli, join, keys] = ["latchkey", "latchkey-join-service", "latchkey-key-service"].map(build);
        Ok(Self { cli: cli?, join: join?, keys: keys? })
    }
}

/// Compiles what a site runs and fetches its kernel, which takes long the first time: its progress is shown.
pub fn prepare() -> Result<(), HarnessError> {
    build::prepare_shown()?;
    crate::kernel::Kernel::provision().map(drop)
}

/// The operating system of most machines.
fn operating_system(then: &str, programs: &[(&str, Vec<u8>)]) -> Result<RootFs, HarnessError> {
    let agent = build::agent()?;
    let agent = std::fs::read(&agent).map_err(io_error("read", &agent))?;
    let os = RootFs::operating_system(agent, then)?.file("/usr/bin/hook", 0o755, HOOK);
    Ok(programs.iter().fold(os, |os, (path, program)| os.file(path, 0o755, program.clone())))
}

/// What is particular about a site.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "a list of what a site may have")]
pub struct Plan<'a> {
    /// More words on the measured command line.
    pub words: &'a str,
    /// Where nodes have their metadata from, if not from QEMU.
    pub metadata: Option<&'a str>,
    /// More modules in the initramfs.
    pub modules: &'static [&'static str],
    /// Commands that the OS runs after stage 2.
    pub then: &'a str,
    /// Programs in the OS: path and content.
    pub programs: Vec<(&'a str, Vec<u8>)>,
    /// What the root is made of.
    pub root: Form,
    /// A Debian that systemd runs, instead of busybox.
    pub debian: Option<DebianRoot>,
    /// Bytes of each state disk, if not the usual ones.
    pub state_disk: Option<u64>,
    /// Types of machines that the manifest is for; empty: the one that the harness makes.
    pub machines: Vec<String>,
    /// Whether images are signed for Secure Boot, and the manifest is for machines with their keys enrolled, only.
    pub secure_boot: bool,
    /// Whether control planes carry join and key service.
    pub services_inside: bool,
    /// Whether machines get Kubernetes themselves, and their image has none in it.
    pub components_fetched: bool,
    /// Archives of container images that images with Kubernetes carry beside it.
    pub container_images: Vec<PathBuf>,
    /// Whether a fake of a confidential machine's processor stands before the agent: [`crate::encrypted`].
    pub encrypted_guests: bool,
    /// Whether the commands that build the first image are shown, with their progress.
    pub show: bool,
}

impl Fleet {
    /// Builds programs, keys, image, reference values and policy.
    pub fn new(name: &str) -> Result<Self, HarnessError> {
        Self::with(name, "", "echo OS up")
    }

    /// The same with more words on the measured command line, and other commands that the OS runs after stage 2.
    pub fn with(name: &str, words: &str, then: &str) -> Result<Self, HarnessError> {
        Self::planned(name, Plan { words, then, ..Plan::default() })
    }

    /// The same with all that a site may have of its own.
    pub fn planned(name: &str, plan: Plan<'_>) -> Result<Self, HarnessError> {
        let run = Run::new(name)?;
        let programs =
            if plan.encrypted_guests { Programs::built_by(build::with_fake_vendors)? } else { Programs::build()? };
        let authority = Authority::new(&run)?;
        // The authority makes its certificates with the first one it issues.
        authority.tpm("first")?;
        let join_port = Port::choose()?;
        let key = run.file("join-service.key");
        let key_words = output(Command::new(&programs.join).arg("--new-key").arg(&key))?.trim().to_owned();
        let root = match &plan.debian {
            Some(debian) => {
                debian.build(&run, DEBIAN, plan.then, &plan.programs)?;
                Root { path: run.file(DEBIAN), format: None }
            }
            None => operating_system(plan.then, &plan.programs)?.write(&run, plan.root)?,
        };
        let mut works = ImageWorks::new(&run, &programs.cli, plan.machines, plan.secure_boot, plan.show)?;
        let step = plan.debian.as_ref().map_or(Step::Hook(HOOK), |debian| debian.step).words();
        let service = format!("latchkey.join_service={HOST}:{} {key_words}", join_port.number());
        let metadata = plan.metadata.unwrap_or("qemu");
        let site_words = format!("latchkey.metadata={metadata} latchkey.ek=ecc-p384 {step} {service}");
        let mut path = None;
        if let Some(network) = plan.debian.as_ref().and_then(|debian| debian.step.pods()) {
            works.kubernetes = crate::kubernetes::provide(Which::This)?.configuration(network);
            works.kubernetes["container_images"] = json!(plan.container_images);
            if plan.components_fetched {
                works.kubernetes = crate::kubernetes::fetched(&works.kubernetes)?;
            }
            path = Some(crate::kubernetes::path_with_programs()?);
            if plan.services_inside {
                works.kubernetes["join_service"] = json!(build::for_nodes("latchkey-join-service")?);
                works.kubernetes["key_service"] = json!(build::for_nodes("latchkey-key-service")?);
            }
        }
        works.modules.extend(plan.modules);
        if plan.encrypted_guests {
            works.agent = Some(crate::encrypted::agent_behind_a_fake_processor(&run)?);
            works.modules.extend(["fuse", "cuse"]);
        }
        works.systemd = plan.debian.map_or(Value::Null, |debian| debian.systemd);
        let image = works.build("image", VERSION, &format!("{site_words} {}", plan.words), &root)?;
        works.show = false;
        let (pki, init_hash) = (pki::Pki::new(&run)?, String::new());
        let state_disk = plan.state_disk.unwrap_or(STATE_DISK);
        let mut fleet = Self {
            run,
            programs,
            authority,
            works,
            image,
            root,
            join_port,
            site_words,
            state_disk,
            path,
            pki,
            init_hash,
            peers: Vec::new(),
            collateral: None,
        };
        fleet.release(&fleet.image.values)?;
        fleet.make_policy()?;
        fleet.make_secrets()?;
        Ok(fleet)
    }

    /// Builds another image of this site: agent, OS and services are the same; `words` are more of its command line.
    /// Everything goes into the directory `name`.
    pub fn build_image(&self, name: &str, version: &str, words: &str) -> Result<OsImage, HarnessError> {
        self.works.build(name, version, &format!("{} {words}", self.site_words), &self.root)
    }

    /// The same with a root of another form, whose OS runs the commands `then` after stage 2.
    pub fn build_image_of(
        &self,
        (form, then): (Form, &str),
        name: &str,
        version: &str,
        words: &str,
    ) -> Result<OsImage, HarnessError> {
        let root = operating_system(then, &[])?.write(&self.run, form)?;
        self.works.build(name, version, &format!("{} {words}", self.site_words), &root)
    }

    /// The same as the first image with another Kubernetes in it, as an image's configuration names it.
    pub(crate) fn build_image_with(
        &self,
        kubernetes: &Value,
        name: &str,
        version: &str,
        words: &str,
    ) -> Result<OsImage, HarnessError> {
        self.works.build_with(kubernetes, name, version, &format!("{} {words}", self.site_words), &self.root)
    }

    /// Signs a manifest as the one that the operator, and with `latchkey init` the cluster, goes by.
    pub fn release(&self, values: &ReferenceValues) -> Result<(), HarnessError> {
        self.publisher().sign(values, &self.run.file("reference.json"))
    }

    /// Who signs.
    pub fn publisher(&self) -> &Publisher {
        &self.works.publisher
    }

    /// The manifest that the cluster's join service follows.
    pub fn deployed_manifest(&self) -> PathBuf {
        self.run.file("cluster/references").join(format!("{MANIFEST}.json"))
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

    /// The image of honest nodes.
    pub fn image(&self) -> &OsImage {
        &self.image
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

    /// A machine with a TPM of its own and an empty state disk, off. It boots the site's image from a disk that it shares
    /// with others and cannot write to: quick to make, and nothing to break when its power is cut.
    pub fn machine(&self, name: &str) -> Result<Machine, HarnessError> {
        self.machine_of(name, self.image.boot(), &self.tpm(name)?)
    }

    /// The same, with a given TPM, and booting something else.
    pub fn machine_of(&self, name: &str, boot: Boot, tpm: &TpmState) -> Result<Machine, HarnessError> {
        let state = self.run.disk(&format!("{name}-state.img"), self.state_disk)?;
        self.bare_machine(name, boot, tpm).map(|machine| machine.disk(Disk::new(&state, "state")))
    }

    /// A machine whose only disk holds an image, and is larger than it: the state partition has to grow.
    pub fn machine_with_one_disk(&self, name: &str, image: &OsImage) -> Result<Machine, HarnessError> {
        let disk = Disk::overlay(&self.run, name, &image.disk, WHOLE_DISK)?;
        self.bare_machine(name, Boot::Disk(disk), &self.tpm(name)?)
    }

    fn bare_machine(&self, name: &str, boot: Boot, tpm: &TpmState) -> Result<Machine, HarnessError> {
        Machine::booting(&self.run, name, boot).tpm(tpm).forward(Port::choose()?, AGENT_PORT).metadata(
            &json!({"version": 1, "node_name": name, "init_secret_hash": self.init_hash, "peers": self.peers}),
        )
    }

    /// A new TPM with a certificate.
    pub fn tpm(&self, name: &str) -> Result<TpmState, HarnessError> {
        self.authority.tpm(name)
    }
}
