//! The build, from what an image is made of to the files that are handed out.

use std::borrow::Cow;
use std::fs::File;
use std::path::{Path, PathBuf};

use latchkey_attestation::Digest;
use latchkey_attestation::reference::{Image as ReferenceImage, PlatformProfile};
use latchkey_boot_formats::Guid;
use latchkey_boot_formats::partition_type::{ESP, ROOT_VERITY_X86_64, ROOT_X86_64, STATE};
use latchkey_disk::MIN_SIZE;
use latchkey_initramfs::executable;
use latchkey_initramfs::{Initramfs, InitramfsError, ModuleTree, Wanted};
use latchkey_node_config::Config;

use crate::error::{ImageError, at};
use crate::form::Form;
use crate::gpt::{Content, Disk, Partition};
use crate::identity::Identity;
use crate::image::Image;
use crate::login_audit::Warning;
use crate::manifest;
use crate::modules::{default_modules, unused_modules};
use crate::os_release::OsReleaseError;
use crate::parts::{Part, Progress, StagingDir, check_name};
use crate::preflight::RootDemands;
use crate::program::Program;
use crate::provenance::Record;
use crate::root::{Root, RootError, RootFormat};
use crate::systemd::Addition;
use crate::tree::{Reads, Tree as RootTree};
use crate::uki::Uki;
use crate::verity::{self, Tree};
use crate::{cloud, cmdline, esp, kernel, login_audit, os_release, preflight};

/// A machine's host and firmware can give systemd credentials (SMBIOS, `fw_cfg`), units, users and passwords among them, and
/// nothing measures these (systemd.system-credentials(7)).
const NO_CREDENTIALS: &str = "systemd.import_credentials=no";

/// A finished image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    /// Everything that was made, in order.
    pub parts: Vec<Part>,
    /// The root hash of the verity tree.
    pub root_hash: [u8; 32],
    /// The whole measured command line.
    pub command_line: String,
    /// The kernel's release.
    pub kernel_release: String,
    /// The disk.
    pub disk: PathBuf,
    /// What in the root opens a way in; none if it was a finished file system, which is not looked into.
    pub warnings: Option<Vec<Warning>>,
    /// The disk in the other forms that were wanted.
    pub forms: Vec<(Form, PathBuf)>,
    /// The unified kernel image.
    pub uki: PathBuf,
    /// The reference manifest, if it was for any type of machine.
    pub manifest: Option<PathBuf>,
    /// The manifest's signature.
    pub signature: Option<PathBuf>,
    /// OVMF's variables, with this image's keys enrolled.
    pub variables: Option<PathBuf>,
    /// What the manifest says of each type of machine.
    pub machines: Vec<PlatformProfile>,
}

impl Image {
    /// Builds the image into the directory `out`, which is made if it is not there. Files of these names are replaced once
    /// everything is finished, or removed if this build does not make them (`reference.json` if it is of this image):
    ///
    /// | file | what |
    /// |---|---|
    /// | `NAME_VERSION.raw` | the disk |
    /// | `NAME_VERSION.efi` | the unified kernel image |
    /// | `NAME_VERSION.qcow2`, `.vhd`, `.tar.gz` | the disk for QEMU and OpenStack, Azure, Google, if wanted |
    /// | `NAME_VERSION.PK.esl`, `.KEK.esl`, `.db.esl`, `.vars.fd` | what to enroll, with Secure Boot |
    /// | `reference.json`, `reference.json.minisig` | what the image measures, if machines are named; signed, if there is a key |
    pub fn build(&self, out: &Path, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Built, ImageError> {
        check_name(&self.name)?;
        let cmdline = cmdline::check(&self.command_line)?;
        let mut root = Root::look(&self.root, self.root_format, self.compression)?;
        if self.systemd.as_ref().is_some_and(|systemd| !systemd.in_root) {
            root.takes_additions()?;
        }
        if self.forms().contains(&Form::Qcow2) {
            Program::QemuImg.demand()?;
        }
        let there = self.said_to_be_there()?;
        let tree = root.survey(&Reads::and(&there))?;
        if let Some(tree) = &tree {
            preflight::has(tree, &there).map_err(RootError::Preflight)?;
        }
        let warnings = self.examine(tree.as_ref(), &cmdline)?;
        let version = self.version.to_string();
        let staging = StagingDir::new(out, &self.name, self.version, progress)?;
        let identity = Identity { name: &self.name, version: &version };
        let record = Record::of(self, &cmdline, &root)?;
        let built = Job { image: self, identity, staging, record, tree }.run(&cmdline, &root)?;
        Ok(Built { warnings, ..built }.at(out))
    }

    /// The files that the root has, if the configuration is right.
    fn said_to_be_there(&self) -> Result<Vec<Addition>, ImageError> {
        Ok(match self.systemd.as_ref().filter(|systemd| systemd.in_root) {
            Some(systemd) => systemd.files(&self.agent()?),
            None => Vec::new(),
        })
    }

    /// Finds what else would be found at boot, before work begins that would be for nothing; and what opens a way in.
    fn examine(&self, tree: Option<&RootTree>, cmdline: &str) -> Result<Option<Vec<Warning>>, ImageError> {
        if self.state_size < MIN_SIZE {
            return Err(ImageError::StateSize(self.state_size));
        }
        kernel::check_efi_stub(&self.kernel.read()?)?;
        let agent = self.agent()?;
        let demands = if self.is_agent {
            // Any root hash: the real one is known when the root is made.
            let words = cloud::words(&self.clouds, cmdline).join(" ");
            let any = format!("{cmdline} {words} latchkey.root_verity={},salt=,blocks=2", "0".repeat(64));
            let config = cmdline::agent_config(&any)?;
            cmdline::check_ways(&config, self.recover_only)?;
            executable::check_agent(&agent)?;
            Some(RootDemands::of(&config))
        } else {
            None
        };
        let Some(tree) = tree else { return Ok(None) };
        let mut tree = Cow::Borrowed(tree);
        if let Some(systemd) = &self.systemd {
            tree.to_mut().add(&systemd.additions(&agent));
        }
        if let Some(kubernetes) = &self.kubernetes {
            let kernel = self.kernel.read()?;
            kubernetes.check(&tree, kernel::release(&kernel)?, &self.modules)?;
        }
        if let Some(demands) = demands {
            preflight::check(&tree, &demands).map_err(RootError::Preflight)?;
        }
        Ok(Some(login_audit::look(&tree)))
    }
}

/// A build on its way.
struct Job<'a> {
    image: &'a Image,
    identity: Identity<'a>,
    staging: StagingDir<'a>,
    record: Record,
    /// What lies in the root, if it was looked into.
    tree: Option<RootTree>,
}

/// The root file system, and the hash tree over it.
struct Hashed {
    file: PathBuf,
    format: RootFormat,
    salt: [u8; 32],
    tree: Tree,
}

impl Job<'_> {
    fn run(mut self, cmdline: &str, root: &Root<'_>) -> Result<Built, ImageError> {
        let kernel = self.image.kernel.read()?;
        let kernel_release = kernel::release(&kernel)?.to_owned();
        self.record.source("kernel", &kernel);
        self.record.fact("kernelRelease", &kernel_release);
        let os_release = self.os_release()?;
        let root = self.root(root)?;
        let command_line = self.command_line(cmdline, &root);
        let config = self.image.is_agent.then(|| cmdline::agent_config(&command_line)).transpose()?;
        let initrd = self.initramfs(&kernel_release, config.as_ref())?;
        let stub = self.image.stub.read()?;
        self.record.source("boot-stub", &stub);
        let uki = Uki {
            stub: &stub,
            linux: &kernel,
            initrd: &initrd,
            command_line: &command_line,
            os_release: &os_release,
            uname: Some(&kernel_release),
        };
        let uki = self.uki(&uki)?;
        self.disk(&uki, &root)?;
        self.enrolment()?;
        let machines = self.manifest(&uki)?;
        let root_hash = root.tree.root_hash;
        let parts = self.staging.publish()?;
        Ok(Built { machines, ..Built::new(parts, root_hash, command_line, kernel_release) })
    }

    fn os_release(&self) -> Result<String, ImageError> {
        let text = match &self.image.os_release {
            Some(source) => os_release::text(&source.read()?[..])?,
            None => os_release::of_tree(self.tree.as_ref().ok_or(OsReleaseError::None)?)?,
        };
        Ok(os_release::with_image(&text, self.identity.name, self.identity.version)?)
    }

    fn root(&mut self, root: &Root<'_>) -> Result<Hashed, ImageError> {
        self.staging.begins("root");
        let file = self.staging.place("root");
        let mut additions = match &self.image.systemd {
            Some(systemd) => systemd.additions(&self.image.agent()?),
            None => Vec::new(),
        };
        if let (Some(kubernetes), Some(tree)) = (&self.image.kubernetes, &self.tree) {
            self.staging.begins("kubernetes");
            additions.extend(kubernetes.additions(tree, &self.staging.place("kubernetes"), self.image.epoch)?);
        }
        let about = (self.image.epoch, self.identity.uuid("root file system"));
        let blocks =
            root.make(&file, &self.staging.place("root-additions"), (&additions, self.tree.as_ref()), about)?;
        self.staging.inner_file("root", &file)?;
        if self.image.has_manifest() {
            self.record.root(root)?;
        }

        self.staging.begins("root-verity");
        let salt = self.identity.bytes("verity salt");
        let data = File::open(&file).map_err(at(&file))?;
        let tree = verity::hash(&data, blocks, &salt, self.identity.uuid("verity")).map_err(at(&file))?;
        self.staging.inner("root-verity", &tree.bytes);
        Ok(Hashed { file, format: root.format, salt, tree })
    }

    fn initramfs(&mut self, release: &str, config: Option<&Config>) -> Result<Vec<u8>, ImageError> {
        self.staging.begins("initramfs");
        let tree = ModuleTree::open(&self.image.modules).map_err(InitramfsError::from)?;
        let modules = tree.closure(&self.module_names(config)).map_err(InitramfsError::from)?;
        for module in &modules {
            kernel::check_module(&module.name, &module.bytes, release)?;
            self.record.source(&format!("module {}", module.name), &module.bytes);
        }
        let agent = self.image.agent()?.into_owned();
        self.record.source("agent", &agent);
        let mut initramfs = Initramfs::new(agent)?;
        initramfs.modules(modules)?;
        for (path, permissions, content) in &self.image.initramfs_files {
            initramfs.file(path, *permissions, content.clone())?;
        }
        let bytes = initramfs.build(self.image.epoch)?;
        self.staging.inner("initramfs", &bytes);
        Ok(bytes)
    }

    /// The operator's list, or of the default one what a node of this configuration needs; and the state disk's file system, which
    /// the root need not have.
    fn module_names(&self, config: Option<&Config>) -> Vec<Wanted> {
        let state = self.image.systemd.as_ref().and_then(|systemd| systemd.state.as_ref());
        let file_system = state.map(|state| Wanted::parse(&format!("?{}", state.file_system.name())));
        let all = self.image.module_names.clone();
        let unused = config.filter(|_| all == default_modules()).map(unused_modules).unwrap_or_default();
        let mut names: Vec<Wanted> =
            all.into_iter().filter(|wanted| !unused.contains(&wanted.name.as_str())).chain(file_system).collect();
        let metadata = config.map(|config| config.metadata);
        let drivers = self.image.clouds.iter().flat_map(|cloud| cloud.modules(metadata));
        for driver in drivers.map(Wanted::parse) {
            if names.iter().all(|wanted| wanted.name != driver.name) {
                names.push(driver);
            }
        }
        names
    }

    fn command_line(&self, cmdline: &str, root: &Hashed) -> String {
        let (hash, salt, blocks) = (hex::encode(root.tree.root_hash), hex::encode(root.salt), root.tree.data_blocks);
        let format = root.format.name();
        let mut own = cloud::words(&self.image.clouds, cmdline);
        own.extend(cmdline::protections(cmdline));
        // What the agent takes without the word, written down: the key that a machine shows is its identity, and measured.
        if !cmdline.split_ascii_whitespace().any(|word| word.starts_with("latchkey.ek=")) {
            own.insert(0, "latchkey.ek=ecc-p256".to_owned());
        }
        if self.image.systemd.is_some() {
            own.push(NO_CREDENTIALS.to_owned());
        }
        own.push(format!("latchkey.root_verity={hash},salt={salt},blocks={blocks} latchkey.root_fs={format}"));
        let own = own.join(" ");
        if cmdline.is_empty() { own } else { format!("{cmdline} {own}") }
    }

    fn uki(&mut self, uki: &Uki<'_>) -> Result<Vec<u8>, ImageError> {
        self.staging.begins("uki");
        let mut bytes = uki.build()?;
        if let Some(secure_boot) = &self.image.secure_boot {
            bytes = secure_boot.signer.sign(&bytes)?;
        }
        self.staging.outer("uki", self.staging.named("efi"), &bytes)?;
        Ok(bytes)
    }

    fn disk(&mut self, uki: &[u8], root: &Hashed) -> Result<(), ImageError> {
        self.staging.begins("esp");
        let volume = self.identity.bytes("boot volume").first_chunk().copied().map_or(0, u32::from_le_bytes);
        let boot = esp::build(uki, self.image.esp_size, volume).map_err(ImageError::Esp)?;
        self.staging.inner("esp", &boot);

        self.staging.begins("disk");
        let name = self.staging.named("raw");
        let file = self.staging.place(&name);
        let mut out = File::create_new(&file).map_err(at(&file))?;
        self.layout(&boot, root).write(&mut out)?;
        self.staging.outer_file("disk", name)?;

        let wanted = self.image.forms();
        for (form, part, ending) in Form::MADE {
            if !wanted.contains(&form) {
                continue;
            }
            self.staging.begins(part);
            let name = self.staging.named(ending);
            form.make(&file, &self.staging.place(&name), self.identity.uuid("virtual hard disk"))?;
            self.staging.outer_file(part, name)?;
        }
        Ok(())
    }

    fn layout<'b>(&self, boot: &'b [u8], root: &'b Hashed) -> Disk<'b> {
        let (first, last) = halves(root.tree.root_hash);
        let id = |purpose| Guid::from_text_order(self.identity.uuid(purpose));
        let partition = |label, kind, id, content| Partition { label, kind, id, content };
        Disk {
            id: id("disk"),
            partitions: vec![
                partition("esp", ESP, id("boot partition"), Content::Bytes(boot)),
                partition("root", ROOT_X86_64, first, Content::File(&root.file)),
                partition("root-verity", ROOT_VERITY_X86_64, last, Content::Bytes(&root.tree.bytes)),
                partition("state", STATE, id("state partition"), Content::Empty(self.image.state_size)),
            ],
        }
    }

    /// What to give to firmware, so that it starts this image and nothing else.
    fn enrolment(&mut self) -> Result<(), ImageError> {
        let Some(secure_boot) = &self.image.secure_boot else { return Ok(()) };
        self.staging.begins("enrolment");
        for (variable, list) in secure_boot.keys().lists() {
            self.staging.outer(variable, self.staging.named(&format!("{variable}.esl")), &list)?;
        }
        if let Some(template) = &secure_boot.variables {
            let store = secure_boot.keys().enroll(template)?;
            self.staging.outer("variables", self.staging.named("vars.fd"), &store)?;
        }
        Ok(())
    }

    fn manifest(&mut self, uki: &[u8]) -> Result<Vec<PlatformProfile>, ImageError> {
        let machines = manifest::machines(self.image)?;
        if machines.is_empty() {
            return Ok(Vec::new());
        }
        self.staging.begins("manifest");
        let products = self.staging.products().map(|(name, hash)| (name.to_owned(), Digest(hash))).collect();
        let origin = std::mem::take(&mut self.record).finish(products);
        let values = manifest::values(self.image, uki, &machines, origin)?;
        let (text, signature) = manifest::files(&values, self.image.manifest_key.as_ref())?;
        self.staging.outer("manifest", manifest::FILE.to_owned(), text.as_bytes())?;
        if let Some(signature) = signature {
            self.staging.outer("signature", manifest::SIGNATURE.to_owned(), signature.as_bytes())?;
        }
        Ok(values.images().iter().flat_map(ReferenceImage::machines).cloned().collect())
    }
}

impl Built {
    fn new(parts: Vec<Part>, root_hash: [u8; 32], command_line: String, kernel_release: String) -> Self {
        let file = |what: &str| {
            let part = parts.iter().find(|part| part.what == what)?;
            part.file.as_ref().map(PathBuf::from)
        };
        Self {
            root_hash,
            command_line,
            kernel_release,
            disk: file("disk").unwrap_or_default(),
            forms: Form::MADE.into_iter().filter_map(|(form, part, _)| Some((form, file(part)?))).collect(),
            uki: file("uki").unwrap_or_default(),
            manifest: file("manifest"),
            signature: file("signature"),
            variables: file("variables"),
            machines: Vec::new(),
            warnings: None,
            parts,
        }
    }

    /// Its files lie in this directory.
    fn at(self, out: &Path) -> Self {
        let optional = |path: Option<PathBuf>| path.map(|path| out.join(path));
        Self {
            disk: out.join(self.disk),
            forms: self.forms.into_iter().map(|(form, path)| (form, out.join(path))).collect(),
            uki: out.join(self.uki),
            manifest: optional(self.manifest),
            signature: optional(self.signature),
            variables: optional(self.variables),
            ..self
        }
    }
}

/// The identifiers of the root and the verity partition: the first and the last 128 bits of the root hash, as the
/// Discoverable Partitions Specification has it.
fn halves(root_hash: [u8; 32]) -> (Guid, Guid) {
    let (mut first, mut last) = ([0; 16], [0; 16]);
    first.copy_from_slice(root_hash.split_at(16).0);
    last.copy_from_slice(root_hash.split_at(16).1);
    (Guid::from_text_order(first), Guid::from_text_order(last))
}
