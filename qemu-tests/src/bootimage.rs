//! What a test machine boots: the initramfs inside a unified kernel image.

use std::path::{Path, PathBuf};

use latchkey_image::{Built, Image, Source, Uki};
use latchkey_initramfs::{DEBIAN_CLOUD, Initramfs, ModuleTree, Wanted};
use latchkey_measurements::pe;
use latchkey_measurements::predict::{MachineType, StubVersion};

use crate::error::{HarnessError, io_error};
use crate::kernel::Kernel;
use crate::run::Run;

/// The boot stub, systemd-stub, which measures the sections of the image. `LATCHKEY_STUB` names another.
const STUB: &str = "/usr/lib/systemd/boot/efi/linuxx64.efi.stub";
/// What the stub measures as the identity of the operating system.
pub(crate) const OS_RELEASE: &str = "ID=latchkey-test\nNAME=\"Latchkey test image\"\nVERSION_ID=1\n";
/// Every test machine's console; and no check at boot that the timer ticks fast enough: without KVM, on a
/// busy machine, it does not, and the kernel would panic ("IO-APIC + timer doesn't work!"). Nor a watchdog over the TSC: on a
/// busy machine it takes the HPET instead, and each look at the clock, of which Go's programs take many, waits for QEMU's lock.
/// Nor timers finer than the tick: each time one is set costs a write to the APIC, under that lock, and Go's programs sleep for
/// microseconds, thousands of times a second.
pub(crate) const HARDWARE: &str = "console=ttyS0 no_timer_check tsc=reliable highres=off";

/// A boot image in the making.
#[derive(Debug, Clone)]
pub struct BootImage {
    init: Vec<u8>,
    files: Vec<(String, u32, Vec<u8>)>,
    modules: Vec<String>,
    command_line: String,
    os_release: String,
}

impl BootImage {
    /// Starts with the program that becomes process 1.
    pub fn new(init: Vec<u8>) -> Self {
        let command_line = format!("{HARDWARE} quiet panic=-1");
        let modules = DEBIAN_CLOUD.iter().map(|name| (*name).to_owned()).collect();
        Self { init, files: Vec::new(), modules, command_line, os_release: OS_RELEASE.into() }
    }

    /// The image that ships: the agent as process 1.
    pub fn agent() -> Result<Self, HarnessError> {
        let path = crate::build::agent()?;
        Ok(Self::new(std::fs::read(&path).map_err(io_error("read", &path))?))
    }

    /// Adds words to the kernel command line.
    #[must_use]
    pub fn words(mut self, words: &str) -> Self {
        self.command_line.push(' ');
        self.command_line.push_str(words);
        self
    }

    /// Adds a file to the initramfs.
    #[must_use]
    pub fn file(mut self, path: &str, permissions: u32, content: Vec<u8>) -> Self {
        self.files.push((path.into(), permissions, content));
        self
    }

    /// Adds kernel modules, each with those it depends on, that a node does not need.
    #[must_use]
    pub fn modules(mut self, names: &[&str]) -> Self {
        self.modules.extend(names.iter().map(|name| (*name).to_owned()));
        self
    }

    /// Leaves all kernel modules out.
    #[must_use]
    pub fn without_modules(mut self) -> Self {
        self.modules.clear();
        self
    }

    /// Adds a program of this machine with the libraries it loads, at their places here.
    pub fn program(mut self, path: &Path) -> Result<Self, HarnessError> {
        for file in crate::rootfs::with_libraries(path)? {
            let name = file.display().to_string().trim_start_matches('/').to_owned();
            if !self.files.iter().any(|(there, ..)| *there == name) {
                let content = std::fs::read(&file).map_err(io_error("read", &file))?;
                self = self.file(&name, 0o755, content);
            }
        }
        Ok(self)
    }

    /// Sets the operating system's identity (`os-release`).
    #[must_use]
    pub fn os_release(mut self, text: &str) -> Self {
        self.os_release = text.into();
        self
    }

    fn wanted(&self) -> Vec<Wanted> {
        self.modules.iter().map(|name| Wanted::parse(name)).collect()
    }

    /// The compressed initramfs.
    pub fn initramfs(&self, kernel: &Kernel) -> Result<Vec<u8>, HarnessError> {
        let wanted = self.wanted();
        let tree = ModuleTree::open(&kernel.modules).map_err(latchkey_initramfs::InitramfsError::from)?;
        let mut initramfs = Initramfs::new(self.init.clone())?;
        initramfs.modules(tree.closure(&wanted).map_err(latchkey_initramfs::InitramfsError::from)?)?;
        for (path, permissions, content) in &self.files {
            initramfs.file(path, *permissions, content.clone())?;
        }
        Ok(initramfs.build(0)?)
    }

    /// Builds a whole disk from it and a root (a directory or a file system) into `directory`.
    pub fn disk(&self, directory: &Path, name: &str, version: &str, root: &Path) -> Result<Built, HarnessError> {
        let kernel = Kernel::provision()?;
        let version = version.parse().map_err(|_| HarnessError::Unusable(format!("no version: {version}")))?;
        let (kernel_image, agent) = (Source::File(kernel.image), Source::Bytes(self.init.clone()));
        let mut image = Image::new(name, version, kernel_image, kernel.modules, agent, root);
        image.is_agent = false;
        image.module_names = self.wanted();
        image.initramfs_files.clone_from(&self.files);
        image.stub = Source::File(stub()?);
        image.command_line.clone_from(&self.command_line);
        image.os_release = Some(Source::Bytes(self.os_release.clone().into_bytes()));
        Ok(image.build(directory, &mut |_| {})?)
    }

    /// Writes the image to the file `name` in the run's directory.
    pub fn build(&self, run: &Run, name: &str) -> Result<PathBuf, HarnessError> {
        let kernel = Kernel::provision()?;
        let read = |path: &Path| std::fs::read(path).map_err(io_error("read", path));
        let image = Uki {
            stub: &read(&stub()?)?,
            linux: &read(&kernel.image)?,
            initrd: &self.initramfs(&kernel)?,
            command_line: &self.command_line,
            os_release: &self.os_release,
            uname: Some(&kernel.release),
        };
        run.write(name, image.build()?)
    }
}

/// What predictions call a machine that boots a disk with this firmware, Secure Boot off. `-kernel` behind it: handed over
/// by QEMU. Firmware and boot stub are taken to be of one suite.
pub fn machine_type() -> Result<String, HarnessError> {
    Ok(MachineType::of_suite(stub_version()?).to_owned())
}

/// The boot stub's version, as far as measurements depend on it.
pub fn stub_version() -> Result<StubVersion, HarnessError> {
    let path = stub()?;
    let bytes = std::fs::read(&path).map_err(io_error("read", &path))?;
    let unusable = |why: String| HarnessError::Unusable(format!("{}: {why}", path.display()));
    let image = pe::Image::parse(&bytes).map_err(|error| unusable(error.to_string()))?;
    StubVersion::of(&image).map_err(|error| unusable(error.to_string()))
}

/// Where the boot stub is.
pub fn stub() -> Result<PathBuf, HarnessError> {
    std::env::var_os("LATCHKEY_STUB").map_or_else(|| crate::doctor::need(STUB), |path| Ok(path.into()))
}
