//! `latchkey backup`: all custom resource definitions of a cluster and all their objects, on this machine's disk.
//!
//! An upgrade of a chart may remove a definition, and with it every object of its kind. So before each one all of them are
//! written ([`create`]), read again and counted ([`manifest`]), and can be brought back ([`restore`]).

mod create;
mod digest;
mod manifest;
mod object;
mod once;
mod restore;

use std::path::PathBuf;

use serde::Serialize;

use crate::arguments::Arguments;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::{Output, Report, Style, Table, Tone};
use crate::stock::Stock;

pub(crate) use create::create as write;
pub(crate) use manifest::Backup;
pub(crate) use once::BackupOnce;

/// Where backups go unless the user says otherwise.
const DIRECTORY: &str = "latchkey-backups";
/// Directories that are looked at for a list.
const MAX_LISTED: usize = 10_000;

/// The directory that `--backups` names.
pub(crate) fn directory(arguments: &Arguments) -> PathBuf {
    arguments.path("backups").map_or_else(|| DIRECTORY.into(), Into::into)
}

/// `latchkey backup create`.
pub(crate) fn create_one(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let (stock, kubeconfig) = (Stock::from_arguments(arguments), arguments.required_path("kubeconfig")?);
    let backups = directory(arguments);
    let backup = smol::block_on(async {
        let kubectl = stock.kubectl(kubeconfig).await?;
        write(&kubectl, &backups, output).await
    })?;
    output.report(&BackupReport::of(&backup))
}

/// `latchkey backup check`.
pub(crate) fn check(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let directory = arguments.operand_text(0)?;
    output.report(&BackupReport::of(&Backup::check(directory.as_ref())?))
}

/// `latchkey backup restore`.
pub(crate) fn restore(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let (stock, kubeconfig) = (Stock::from_arguments(arguments), arguments.required_path("kubeconfig")?);
    let backup = Backup::check(arguments.operand_text(0)?.as_ref())?;
    output.say(Tone::Good, "checked", &format!("{} is complete", backup.directory().display()));
    let report = smol::block_on(async {
        let kubectl = stock.kubectl(kubeconfig).await?;
        let wanted = restore::Wanted { any_cluster: arguments.has("any-cluster"), machines: arguments.has("machines") };
        restore::restore(&kubectl, &backup, wanted, output).await
    })?;
    output.report(&report)
}

/// `latchkey backup list`.
pub(crate) fn list(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let backups = directory(arguments);
    let cannot = |error: std::io::Error| {
        let what = format!("cannot read {}", backups.display());
        CommandError::new(Exit::Missing, CommandCode::DirectoryMissing, what).because(error.to_string())
    };
    let entries = std::fs::read_dir(&backups).map_err(cannot)?.take(MAX_LISTED);
    let mut paths =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>().map_err(cannot)?;
    paths.retain(|path| path.is_dir());
    paths.sort();
    let backups = paths.into_iter().map(|directory| {
        let list = manifest::read_list(&directory).ok();
        BackupRow {
            directory,
            made: list.as_ref().map(|list| list.made.clone()),
            kubernetes: list.as_ref().map(|list| list.kubernetes.clone()),
            definitions: list.as_ref().map(manifest::Manifest::definitions),
            objects: list.as_ref().map(manifest::Manifest::objects),
        }
    });
    output.report(&ListReport { backups: backups.collect() })
}

/// A backup that is complete.
#[derive(Debug, Serialize)]
pub(crate) struct BackupReport {
    directory: PathBuf,
    made: String,
    kubernetes: String,
    definitions: usize,
    objects: u64,
}

impl BackupReport {
    pub(crate) fn of(backup: &Backup) -> Self {
        let list = &backup.manifest;
        Self {
            directory: backup.directory().to_owned(),
            made: list.made.clone(),
            kubernetes: list.kubernetes.clone(),
            definitions: list.definitions(),
            objects: list.objects(),
        }
    }

    /// For one line.
    pub(crate) fn sentence(&self) -> String {
        let Self { directory, definitions, objects, .. } = self;
        format!("{definitions} definitions and {objects} objects are in {}", directory.display())
    }
}

impl Report for BackupReport {
    fn text(&self, _: Style) -> String {
        format!("{}, complete; made {} of Kubernetes {}\n", self.sentence(), self.made, self.kubernetes)
    }
}

/// Backups of a directory.
#[derive(Serialize)]
struct ListReport {
    backups: Vec<BackupRow>,
}

/// What its list says of a backup; nothing for what is no backup, or was not written to its end.
#[derive(Serialize)]
struct BackupRow {
    directory: PathBuf,
    made: Option<String>,
    kubernetes: Option<String>,
    definitions: Option<usize>,
    objects: Option<u64>,
}

impl Report for ListReport {
    fn text(&self, _: Style) -> String {
        let mut table = Table::new(&["DIRECTORY", "MADE", "KUBERNETES", "DEFINITIONS", "OBJECTS"]);
        for row in &self.backups {
            let number = |number: Option<String>| number.unwrap_or_default();
            table.row([
                row.directory.display().to_string(),
                row.made.clone().unwrap_or_else(|| "no complete backup".into()),
                row.kubernetes.clone().unwrap_or_default(),
                number(row.definitions.map(|count| count.to_string())),
                number(row.objects.map(|count| count.to_string())),
            ]);
        }
        table.to_string()
    }
}
