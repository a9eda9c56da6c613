//! The command that writes a backup.

use std::io;
use std::path::{Path, PathBuf};

use latchkey_attestation::reference::format_rfc3339;
use latchkey_durable_file::{Directory, Existing as Before};
use serde::Serialize;

use super::manifest::Manifest;
use super::member::Member;
use super::spool::Spool;
use super::{archive, collect};
use crate::arguments::Arguments;
use crate::centre::existing::Existing;
use crate::centre::programs::Programs;
use crate::clock::now;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files;
use crate::output::{Output, Report, Style};

pub(crate) fn backup(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    Programs::find()?;
    let centre = Existing::open(arguments.operand(0))?;
    let to = arguments.required_path("to")?;
    files::must_be_a_file(to, "a backup is written to a file of its own")?;
    if to.symlink_metadata().is_ok() {
        return Err(exists(to));
    }
    let spool = Spool::make(&centre.layout)?;
    let began = format_rfc3339(now());
    let found = collect::all(&centre, &spool, output)?;
    let ended = format_rfc3339(now());
    let listed = found.iter().map(|(member, path)| {
        archive::listed(member, path).map_err(|error| {
            CommandError::local(CommandCode::FileUnreadable, format!("cannot read {}", path.display()))
                .because(error.to_string())
        })
    });
    let listed = listed.collect::<Result<Vec<_>, _>>()?;
    let manifest = Manifest::new(began, ended, centre.parameters.realm.to_string(), listed);
    // What cannot be restored is no backup.
    manifest.check()?;
    let files: Vec<PathBuf> = found.iter().map(|(_, path)| path.clone()).collect();
    output.waiting("writing the backup");
    let bytes = write(to, &manifest, &files)?;
    let repository =
        |(member, _): &&(Member, PathBuf)| matches!(member, Member::Repository(_) | Member::EmptyRepository(_));
    output.report(&BackupReport {
        file: to.display().to_string(),
        bytes,
        repositories: found.iter().filter(repository).count(),
        files: manifest.members.len(),
        began: manifest.began,
        ended: manifest.ended,
        realm: manifest.realm,
    })
}

/// Writes the file beside its place, and gives it its name once it is whole. Gives its size.
fn write(to: &Path, manifest: &Manifest, files: &[PathBuf]) -> Result<u64, CommandError> {
    let write = || {
        let (directory, name) = Directory::of(to)?;
        let turn = directory.turn(name, 0o600)?;
        let size = archive::write(turn.file().try_clone()?, manifest, files)?.metadata()?.len();
        turn.place(Before::Keep).map(|()| size)
    };
    write().map_err(|error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => exists(to),
        _ => files::unwritable(to, &error),
    })
}

fn exists(path: &Path) -> CommandError {
    CommandError::new(Exit::Usage, CommandCode::FileExists, format!("{} exists already", path.display()))
}

/// A backup that was written.
#[derive(Serialize)]
struct BackupReport {
    file: String,
    /// Of the file.
    bytes: u64,
    /// In it.
    files: usize,
    repositories: usize,
    began: String,
    ended: String,
    realm: String,
}

impl Report for BackupReport {
    fn text(&self, _: Style) -> String {
        format!(
            "{}: the centre of {} as of {}; {} files, {} repositories, {} bytes\n\
             It has the keys of the centre and of everybody in it: encrypt it before it leaves this machine.\n",
            self.file, self.realm, self.began, self.files, self.repositories, self.bytes,
        )
    }
}
