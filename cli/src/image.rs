//! `latchkey image build`, an operating system image from its parts, `latchkey image units`, some of these, and `latchkey image
//! container`, one program as a container image.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Instant;

use latchkey_attestation::reference::PlatformProfile;
use latchkey_image::{
    Built, Cloud, ContainerImage, Form, Image, ImageCode, ImageConfig, ImageError, KERBEROS, Libraries, Part, Progress,
    Warning, WarningCode, libraries,
};
use latchkey_initramfs::source_date_epoch;
use latchkey_kubernetes::Reference;
use serde::Serialize;

use crate::arguments::Arguments;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files::{self, Readers};
use crate::output::{Output, Report, Style, Table, Tone, pairs, printable};
use crate::reference::tdx_registers;
use crate::upload::Upload;

/// As large as the reader of configurations takes.
const MAX_CONFIG: usize = 1024 * 1024;
/// Several times the largest of ours.
const MAX_PROGRAM: usize = 64 << 20;

pub(crate) fn build(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let out = arguments.required_path("out")?;
    let mut image = configured(arguments)?;
    image.clouds.extend(clouds(arguments)?);
    image.epoch = source_date_epoch().map_err(CommandError::usage)?;

    let begun = Instant::now();
    let mut since = begun;
    let built = image.build(out, &mut |progress| match progress {
        Progress::Begins(what) => {
            since = Instant::now();
            output.waiting(&format!("{}: {}", what, words(what)));
        }
        Progress::Done(part) => {
            let seconds = since.elapsed().as_secs_f64();
            let line = format!("{:<12}  {:>10}  {seconds:6.1} s", part.what, size(part.size));
            output.say(Tone::Good, "built", &line);
        }
    });
    let built = built.map_err(|error| failure(&error))?;
    let took = format!("in {:.1} s, at {}", begun.elapsed().as_secs_f64(), built.disk.display());
    output.say(Tone::Good, "finished", &took);
    for Warning { path, finding, .. } in built.warnings.iter().flatten() {
        output.say(Tone::Warning, "warning", &printable(&format!("the root's {path}: {finding}")));
    }
    output.report(&BuildReport::of(&built, &image))
}

/// From `--for`.
fn clouds(arguments: &Arguments) -> Result<Vec<Cloud>, CommandError> {
    let named = |name: &str| {
        Cloud::ALL.into_iter().find(|cloud| cloud.name() == name).ok_or_else(|| {
            let known = Cloud::ALL.map(Cloud::name).join(", ");
            CommandError::usage(format!("--for {name}: no image is made for that")).fix(format!("say one of {known}"))
        })
    };
    arguments.texts("for")?.into_iter().map(named).collect()
}

/// `latchkey image units`: what an image's systemd needs, in a directory.
pub(crate) fn units(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let out = arguments.required_path("out")?;
    let written = configured(arguments)?.write_units(out).map_err(|error| {
        CommandError::new(Exit::Usage, error.code(), "the files were not written")
            .because(error.to_string())
            .fix(error.remedy())
    })?;
    let Some(count) = written else {
        return Err(CommandError::new(
            Exit::Usage,
            ImageCode::ConfigUnusable,
            "the image asks for nothing for systemd",
        )
        .fix("add \"systemd\", as in `latchkey image build --help`"));
    };
    output.report(&UnitsReport { directory: out, count })
}

/// The files for an image's systemd were written.
#[derive(Serialize)]
struct UnitsReport<'a> {
    directory: &'a Path,
    count: usize,
}

impl Report for UnitsReport<'_> {
    fn text(&self, _: Style) -> String {
        format!("{} files, links and directories in {}", self.count, self.directory.display())
    }
}

/// `latchkey image container`: one program as a container image.
pub(crate) fn container(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let (path, out) = (Path::new(arguments.operand_text(0)?), arguments.required_path("out")?);
    let name: Reference = arguments.required_text("name")?.to_owned().try_into().map_err(CommandError::usage)?;
    files::must_be_a_file(path, "the program's name is its file's")?;
    let program = files::read(path, MAX_PROGRAM)?;
    let file_name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let more = arguments.path("helper").map(helper).transpose()?.unwrap_or_default();
    let image = ContainerImage::with(&program, file_name, &name, &more).map_err(|error| {
        CommandError::new(Exit::Usage, ImageCode::ProgramUnusable, format!("no image was made of {}", path.display()))
            .because(error.to_string())
            .fix(ImageCode::ProgramUnusable.remedy())
    })?;
    files::replace(out, &image.archive, Readers::Anyone)?;
    output.report(&ContainerReport { name: name.to_string(), digest: &image.digest, archive: out })
}

/// The program that speaks Kerberos, and all that it loads on this machine.
fn helper(path: &Path) -> Result<Libraries, CommandError> {
    let program = files::read(path, MAX_PROGRAM)?;
    let mut all = libraries(Path::new("/"), &program, &KERBEROS).map_err(|error| {
        CommandError::new(Exit::Usage, ImageCode::ProgramUnusable, format!("no image was made with {}", path.display()))
            .because(error.to_string())
            .fix("apt-get install --no-install-recommends libkrb5-3 libgssapi-krb5-2 libkadm5clnt-mit12")
    })?;
    all.insert(path.file_name().and_then(OsStr::to_str).unwrap_or_default().to_owned(), program);
    Ok(all)
}

/// A container image was made.
#[derive(Serialize)]
struct ContainerReport<'a> {
    name: String,
    digest: &'a str,
    archive: &'a Path,
}

impl Report for ContainerReport<'_> {
    fn text(&self, _: Style) -> String {
        pairs(&[
            ("image", self.name.clone()),
            ("digest", self.digest.to_owned()),
            ("archive", self.archive.display().to_string()),
        ])
    }
}

fn configured(arguments: &Arguments) -> Result<Image, CommandError> {
    let path = Path::new(arguments.operand(0).unwrap_or_default());
    let image = if files::is_standard_input(path) {
        ImageConfig::parse(&files::read(path, MAX_CONFIG)?).and_then(|config| config.image(Path::new("")))
    } else {
        ImageConfig::read(path)
    };
    image.map_err(|error| {
        let what = format!("cannot use {}", path.display());
        CommandError::new(Exit::Usage, ImageCode::ConfigUnusable, what)
            .because(error.to_string())
            .fix(error.remedy().unwrap_or(ImageCode::ConfigUnusable.remedy()))
    })
}

/// What a part is.
fn words(part: &str) -> &'static str {
    match part {
        "kubernetes" => "the components of Kubernetes, each held against the version table",
        "root" => "the root file system",
        "root-verity" => "the hash tree over it, whose root hash is measured",
        "initramfs" => "the agent and the modules it needs",
        "uki" => "boot stub, kernel, initramfs and command line in one file",
        "esp" => "the boot partition",
        "disk" => "all partitions together",
        "disk-qcow2" => "the same for QEMU and OpenStack",
        "disk-vhd" => "the same for Azure",
        "disk-tar-gz" => "the same for Google",
        "enrolment" => "the keys that firmware must have",
        "manifest" => "what machines will measure",
        _ => "",
    }
}

/// An image was built.
#[derive(Serialize)]
struct BuildReport<'a> {
    root_hash: String,
    command_line: &'a str,
    kernel: &'a str,
    disk: &'a Path,
    qcow2: Option<&'a PathBuf>,
    vhd: Option<&'a PathBuf>,
    tar_gz: Option<&'a PathBuf>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    uploads: Vec<Upload>,
    uki: &'a Path,
    manifest: Option<&'a PathBuf>,
    signature: Option<&'a PathBuf>,
    variables: Option<&'a PathBuf>,
    root_examined: bool,
    warnings: Vec<RootWarning<'a>>,
    machines: &'a [PlatformProfile],
    parts: Vec<PartRow<'a>>,
}

/// What opens a way into the root.
#[derive(Serialize)]
struct RootWarning<'a> {
    code: &'static str,
    path: &'a str,
    what: &'a str,
}

/// Something that was made.
#[derive(Serialize)]
struct PartRow<'a> {
    what: &'static str,
    file: Option<&'a str>,
    size: u64,
    sha256: String,
}

impl<'a> BuildReport<'a> {
    fn of(built: &'a Built, image: &Image) -> Self {
        let form = |wanted| built.forms.iter().find(|(form, _)| *form == wanted).map(|(_, path)| path);
        let warning =
            |Warning { code, path, finding }: &'a Warning| RootWarning { code: code.as_str(), path, what: finding };
        let part = |Part { what, file, size, sha256 }: &'a Part| PartRow {
            what,
            file: file.as_deref(),
            size: *size,
            sha256: hex::encode(sha256),
        };
        Self {
            root_hash: hex::encode(built.root_hash),
            command_line: &built.command_line,
            kernel: &built.kernel_release,
            disk: &built.disk,
            qcow2: form(Form::Qcow2),
            vhd: form(Form::Vhd),
            tar_gz: form(Form::TarGz),
            uploads: image.clouds.iter().map(|cloud| Upload::of(*cloud, built, image)).collect(),
            uki: &built.uki,
            manifest: built.manifest.as_ref(),
            signature: built.signature.as_ref(),
            variables: built.variables.as_ref(),
            root_examined: built.warnings.is_some(),
            warnings: built.warnings.iter().flatten().map(warning).collect(),
            machines: &built.machines,
            parts: built.parts.iter().map(part).collect(),
        }
    }

    /// What was found in the root, in one line.
    fn login_audit(&self) -> String {
        if !self.root_examined {
            return "not looked into: it is a finished file system".to_owned();
        }
        if self.warnings.is_empty() {
            return "no log-in or shell on a console, no account without a password was found".to_owned();
        }
        let ways_in = self.warnings.iter().filter(|warning| warning.code != WarningCode::NotLookedInto.as_str());
        match ways_in.count() {
            0 => "not wholly looked into: see the warnings".to_owned(),
            1 => "1 way in was found: see the warnings".to_owned(),
            many => format!("{many} ways in were found: see the warnings"),
        }
    }
}

impl Report for BuildReport<'_> {
    fn text(&self, style: Style) -> String {
        let mut table = Table::new(&["PART", "SIZE", "SHA-256", "FILE"]);
        for part in &self.parts {
            let file = part.file.unwrap_or_default().to_owned();
            table.row([part.what.to_owned(), size(part.size), part.sha256.clone(), file]);
        }
        let mut facts = vec![
            ("root hash", style.paint(Tone::Strong, &self.root_hash)),
            ("command line", self.command_line.to_owned()),
            ("kernel", self.kernel.to_owned()),
            ("root", self.login_audit()),
        ];
        let manifest = match (self.manifest, self.signature) {
            (None, _) => Some("none, since \"machines\" is empty: no verifier can admit this image by it"),
            (Some(_), None) => Some("not signed: `latchkey reference sign` does it, on a machine that has the key"),
            (Some(_), Some(_)) => None,
        };
        facts.extend(manifest.map(|sentence| ("manifest", sentence.to_owned())));
        let uploads: String = self.uploads.iter().map(|upload| upload.text(style)).collect();
        format!("{table}\n{}{}{uploads}", launches(self.machines), pairs(&facts))
    }
}

/// What SEV-SNP and TDX guests will report, where the manifest says it.
fn launches(machines: &[PlatformProfile]) -> String {
    let mut table = Table::new(&["MACHINE", "SEV-SNP GUEST", "LAUNCH DIGEST, SHA-384"]);
    let mut any = false;
    for machine in machines {
        for launch in machine.snp_launch() {
            table.row([machine.name().to_owned(), launch.to_string(), launch.digest.to_string()]);
            any = true;
        }
    }
    let launches = if any { format!("{table}\n") } else { String::new() };
    launches + &tdx_registers(machines.iter().map(|machine| (machine.name().to_owned(), machine)))
}

/// Bytes for people: three digits that mean something.
fn size(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "shown with one digit behind the point")]
    let in_units = |shift: u32| bytes as f64 / f64::from(1_u32 << shift);
    match bytes {
        0..0x400 => format!("{bytes} B"),
        0x400..0x10_0000 => format!("{:.1} KiB", in_units(10)),
        0x10_0000..0x4000_0000 => format!("{:.1} MiB", in_units(20)),
        _ => format!("{:.1} GiB", in_units(30)),
    }
}

fn failure(error: &ImageError) -> CommandError {
    let exit = if error.is_local() { Exit::Failed } else { Exit::Usage };
    CommandError::new(exit, error.code(), "the image was not built").because(error.to_string()).fix(error.remedy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_for_people() {
        for (bytes, text) in [(7, "7 B"), (4096, "4.0 KiB"), (36 << 20, "36.0 MiB"), (3 << 30, "3.0 GiB")] {
            assert_eq!(size(bytes), text);
        }
    }
}
