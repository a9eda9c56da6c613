//! Whole OS images, made with `latchkey image build`: the disk, and the signed manifest that says what machines measure
//! when they boot it.

use std::path::{Path, PathBuf};
use std::process::Command;

use latchkey_attestation::ReferenceValues;
use latchkey_initramfs::DEBIAN_CLOUD;
use latchkey_measurements::pe;
use serde_json::{Value, json};

use crate::bootimage::{HARDWARE, OS_RELEASE, machine_type, stub};
use crate::error::{HarnessError, io_error};
use crate::fleet::MANIFEST;
use crate::hardware::{Boot, Disk, Firmware, variables};
use crate::kernel::Kernel;
use crate::publisher::Publisher;
use crate::rootfs::Root;
use crate::run::Run;
use crate::secureboot;

/// A built image.
#[derive(Debug, Clone)]
pub struct OsImage {
    /// The disk.
    pub disk: PathBuf,
    /// The unified kernel image on it.
    pub uki: PathBuf,
    /// Its manifest's content (source: predicted).
    pub values: ReferenceValues,
    /// A firmware's variables with its keys enrolled, if it is signed for Secure Boot.
    variables: Option<PathBuf>,
}

impl OsImage {
    /// Booting from a disk that others may boot from, too: nobody can write to it.
    pub fn boot(&self) -> Boot {
        Boot::Disk(Disk::new(&self.disk, "os").read_only())
    }

    /// Bytes of its initramfs.
    pub fn initramfs_size(&self) -> Result<usize, HarnessError> {
        let image = std::fs::read(&self.uki).map_err(io_error("read", &self.uki))?;
        let image = pe::Image::parse(&image).map_err(|error| HarnessError::Unusable(error.to_string()))?;
        Ok(image.section(".initrd").map_or(0, <[u8]>::len))
    }

    /// Firmware for the machine `name` that starts nothing but what this image's keys have signed.
    pub fn secure_firmware(&self, run: &Run, name: &str) -> Result<Firmware, HarnessError> {
        let unsigned = || HarnessError::Unusable("the image is not signed for Secure Boot".into());
        Firmware::secure_flash(run, name, self.variables.as_deref().ok_or_else(unsigned)?)
    }
}

/// Where a site's images are made.
#[derive(Debug)]
pub(crate) struct ImageWorks {
    run: Run,
    cli: PathBuf,
    machines: Vec<String>,
    secure_boot: Option<Value>,
    /// The configuration's `systemd`.
    pub(crate) systemd: Value,
    /// The configuration's `kubernetes`.
    pub(crate) kubernetes: Value,
    /// What is process 1, if not the agent that ships.
    pub(crate) agent: Option<PathBuf>,
    /// Kernel modules that no node needs.
    pub(crate) modules: Vec<&'static str>,
    /// Whether what the commands say is shown.
    pub(crate) show: bool,
    pub(crate) publisher: Publisher,
}

impl ImageWorks {
    pub(crate) fn new(
        run: &Run,
        cli: &Path,
        machines: Vec<String>,
        secure_boot: bool,
        show: bool,
    ) -> Result<Self, HarnessError> {
        let secure_boot = secure_boot.then(|| own_keys(run)).transpose()?;
        let default = if secure_boot.is_some() { Vec::new() } else { vec![machine_type()?] };
        let machines = if machines.is_empty() { default } else { machines };
        let key = run.file("release.key");
        let (run, cli) = (run.clone(), cli.to_path_buf());
        called(&cli, &["reference", "new-key", "--out", &key.display().to_string()], show)?;
        let publisher = Publisher::read(&key)?;
        Ok(Self {
            run,
            cli,
            machines,
            secure_boot,
            systemd: Value::Null,
            kubernetes: Value::Null,
            agent: None,
            modules: Vec::new(),
            show,
            publisher,
        })
    }

    /// Builds an image of this root, with these words on its command line, into the directory `name` of the run.
    pub(crate) fn build(&self, name: &str, version: &str, words: &str, root: &Root) -> Result<OsImage, HarnessError> {
        self.build_with(&self.kubernetes, name, version, words, root)
    }

    /// The same with another `kubernetes` in its configuration.
    pub(crate) fn build_with(
        &self,
        kubernetes: &Value,
        name: &str,
        version: &str,
        words: &str,
        root: &Root,
    ) -> Result<OsImage, HarnessError> {
        let directory = self.run.subdirectory(name)?;
        let kernel = Kernel::provision()?;
        let os_release = self.run.write("os-release", OS_RELEASE)?;
        let mut config = json!({
            "schema": 1,
            "name": MANIFEST,
            "version": version,
            "kernel": kernel.image,
            "modules": kernel.modules,
            "agent": self.agent.clone().map_or_else(crate::build::agent, Ok)?,
            "stub": stub()?,
            "root": root.path,
            "root_format": root.format,
            "systemd": self.systemd,
            "kubernetes": kubernetes,
            "os_release": os_release,
            "command_line": format!("{HARDWARE} quiet panic=-1 {words}"),
            "machines": self.machines,
            "serial": 1,
            "signing_key": self.run.file("release.key"),
        });
        if !self.modules.is_empty() {
            config["module_names"] = json!([DEBIAN_CLOUD, &self.modules].concat());
        }
        if let Some(keys) = &self.secure_boot {
            config["secure_boot"] = keys.clone();
        }
        let config = self.run.write(&format!("{name}.json"), config.to_string())?;
        let (config, out) = (config.display().to_string(), directory.display().to_string());
        called(&self.cli, &["image", "build", &config, "--out", &out], self.show)?;
        let manifest = directory.join("reference.json");
        let values = std::fs::read(&manifest).map_err(io_error("read", &manifest))?;
        let values = ReferenceValues::from_json(&values)
            .map_err(|refusal| HarnessError::Unusable(format!("{}: {refusal}", manifest.display())))?;
        let file = |ending: &str| directory.join(format!("{MANIFEST}_{version}.{ending}"));
        Ok(OsImage {
            disk: file("raw"),
            uki: file("efi"),
            values,
            variables: self.secure_boot.as_ref().map(|_| file("vars.fd")),
        })
    }
}

/// Keys for Secure Boot that are nobody else's, as the image's configuration names them.
fn own_keys(run: &Run) -> Result<Value, HarnessError> {
    let (key, certificate) = secureboot::new_keys(run)?;
    Ok(json!({"key": key, "certificate": certificate, "variables": variables()?}))
}

/// Runs the operator's command; what it says is shown, or else kept for the case that it fails.
fn called(cli: &Path, arguments: &[&str], show: bool) -> Result<(), HarnessError> {
    let mut command = Command::new(cli);
    command.args(arguments);
    if !show {
        return crate::process::output(command.env("NO_COLOR", "1")).map(drop);
    }
    eprintln!("$ latchkey {}", arguments.join(" "));
    let ran = crate::process::run_shown(&mut command, crate::process::TOOL)?;
    eprintln!("{}", String::from_utf8_lossy(&ran.out).trim_end());
    let failed =
        || HarnessError::Command { command: format!("latchkey {}", arguments.join(" ")), output: String::new() };
    ran.status.success().then_some(()).ok_or_else(failed)
}
