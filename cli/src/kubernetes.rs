//! `latchkey kubernetes`: which versions there are, and getting what nodes of one carry.

use std::path::{Path, PathBuf};
use std::time::Instant;

use latchkey_kubernetes::fetch::{FetchError, Fetcher, Limits, Origin};
use latchkey_kubernetes::{
    ComponentList, Download, ListError, Minor, MinorRefusal, Release, Role, Roles, Table as VersionTable, TableError,
};
use serde::Serialize;

use crate::arguments::Arguments;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::{Output, Report, Style, Table, Tone};

const MIB: u64 = 1 << 20;

/// `latchkey kubernetes versions`: what the version table has.
pub(crate) fn versions(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let table = table(arguments)?;
    let all = Roles::default();
    let mut versions = Vec::new();
    for minor in table.minors() {
        let release = table.release(minor).map_err(|refusal| refused(&refusal))?;
        versions.push(VersionRow {
            minor: minor.to_string(),
            version: release.version().to_string(),
            components: release.components(&all).map(|one| format!("{} {}", one.name(), one.version())).collect(),
            images: release.images(&all).map(|image| image.reference().to_string()).collect(),
        });
    }
    output.report(&VersionsReport { table: table.sha256().to_string(), versions })
}

/// `latchkey kubernetes fetch`: the files of one version, in a folder.
pub(crate) fn fetch(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let minor: Minor = arguments.operand_text(0)?.parse().map_err(|refusal| refused(&refusal))?;
    let into = arguments.required_path("into")?;
    let roles = roles(arguments)?;
    let table = table(arguments)?;
    let release = table.release(minor).map_err(|refusal| refused(&refusal))?;
    let origin = match arguments.text("mirror")? {
        Some(mirror) => Origin::parse(mirror).map_err(|error| failed(&error))?,
        None => Origin::Official,
    };
    let fetcher = Fetcher::new(origin, Limits::default()).map_err(|error| failed(&error))?;
    let files = release
        .downloads(&roles)
        .iter()
        .map(|download| get(&fetcher, download, into, output))
        .collect::<Result<_, _>>()?;
    output.report(&FetchReport::of(release, &table, into, files))
}

fn get(fetcher: &Fetcher, download: &Download, into: &Path, output: &Output) -> Result<FileRow, CommandError> {
    let begun = Instant::now();
    let file = fetcher.fetch(download, into, &mut |step| {
        let got = match step.of {
            Some(of) => format!("{} of {} MiB", step.got / MIB, of.div_ceil(MIB)),
            None => format!("{} MiB", step.got / MIB),
        };
        output.waiting_with(step.file, &got);
    });
    let file = file.map_err(|error| failed(&error))?;
    let (word, took) = if file.was_there {
        ("kept", "was there".to_owned())
    } else {
        ("fetched", format!("in {:.1} s", begun.elapsed().as_secs_f64()))
    };
    output.say(Tone::Good, word, &format!("{} {took}", download.file));
    Ok(FileRow { file: download.file.clone(), sha256: download.sha256.to_string(), was_there: file.was_there })
}

/// The table that `--table` names, or else the built-in one.
pub(crate) fn table(arguments: &Arguments) -> Result<VersionTable, CommandError> {
    let unusable = |error: TableError| {
        CommandError::new(Exit::Usage, error.code(), "the version table cannot be used").because(error.to_string())
    };
    match arguments.path("table") {
        Some(path) => VersionTable::read(path),
        None => VersionTable::built_in(),
    }
    .map_err(unusable)
}

/// What nodes of images without Kubernetes get for themselves: one release of a table, from a mirror or from official addresses.
pub(crate) fn component_list(
    table: &VersionTable,
    minor: Minor,
    mirror: Option<&str>,
) -> Result<Vec<u8>, CommandError> {
    ComponentList::make(table, minor, mirror).map_err(|error| match error {
        ListError::Version(refusal) => refused(&refusal),
        ListError::Mirror(why) => CommandError::usage(format!("--components: {why}")),
        error => CommandError::new(Exit::Usage, error.code(), "no list of components for nodes can be made")
            .because(error.to_string()),
    })
}

/// The one exact version behind a minor one.
pub(crate) fn exact_version(arguments: &Arguments, minor: &str) -> Result<String, CommandError> {
    let minor: Minor = minor.parse().map_err(|refusal| refused(&refusal))?;
    let table = table(arguments)?;
    Ok(table.release(minor).map_err(|refusal| refused(&refusal))?.version().to_string())
}

fn roles(arguments: &Arguments) -> Result<Roles, CommandError> {
    let names = arguments.texts("role")?;
    if names.is_empty() {
        return Ok(Roles::default());
    }
    let role = |name: &str| [Role::ControlPlane, Role::Worker].into_iter().find(|role| role.name() == name);
    let roles: Option<Vec<Role>> = names.iter().map(|name| role(name)).collect();
    let roles = roles.ok_or_else(|| CommandError::usage("--role: control-plane or worker"))?;
    Roles::try_from(roles).map_err(|error| CommandError::usage(format!("--role: {error}")))
}

pub(crate) fn refused(refusal: &MinorRefusal) -> CommandError {
    CommandError::new(Exit::Usage, refusal.code(), "there is no such version of Kubernetes here")
        .because(refusal.to_string())
}

fn failed(error: &FetchError) -> CommandError {
    CommandError::local(error.code(), "not every component is there").because(error.to_string())
}

/// What the version table has.
#[derive(Serialize)]
struct VersionsReport {
    /// SHA-256 of the table.
    table: String,
    versions: Vec<VersionRow>,
}

#[derive(Serialize)]
struct VersionRow {
    minor: String,
    version: String,
    components: Vec<String>,
    images: Vec<String>,
}

impl Report for VersionsReport {
    fn text(&self, _: Style) -> String {
        let mut table = Table::new(&["SAY", "VERSION", "COMPONENTS"]);
        for VersionRow { minor, version, components, .. } in &self.versions {
            let others: Vec<&str> =
                components.iter().map(String::as_str).filter(|one| !one.ends_with(version)).collect();
            table.row([minor.clone(), version.clone(), others.join(", ")]);
        }
        format!("{table}")
    }
}

/// The files of one version are there.
#[derive(Serialize)]
struct FetchReport {
    version: String,
    /// SHA-256 of the version table.
    table: String,
    directory: PathBuf,
    files: Vec<FileRow>,
}

#[derive(Serialize)]
struct FileRow {
    file: String,
    sha256: String,
    was_there: bool,
}

impl FetchReport {
    fn of(release: &Release, table: &VersionTable, into: &Path, files: Vec<FileRow>) -> Self {
        let (version, table) = (release.version().to_string(), table.sha256().to_string());
        Self { version, table, directory: into.to_owned(), files }
    }
}

impl Report for FetchReport {
    fn text(&self, _: Style) -> String {
        let (count, directory) = (self.files.len(), self.directory.display());
        format!("Kubernetes {}: {count} files in {directory}, each with the hash of the version table\n", self.version)
    }
}
