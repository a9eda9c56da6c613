//! The command that makes a centre's directory from a backup.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use latchkey_centre_site::{Layout, Parameters, kdc};
use latchkey_cluster_store::registration::RegistrationStore;
use serde::Serialize;

use super::edge_keys::{self, EdgeKey};
use super::manifest::Manifest;
use super::member::{Member, Tls};
use super::{archive, damaged, git, spool};
use crate::arguments::Arguments;
use crate::centre::existing;
use crate::centre::programs::{Programs, Stock};
use crate::centre::realm;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files::{self, Readers};
use crate::output::{Output, Report, Style, printable};
use crate::store_error::unusable;

/// Who comes while another one works.
const BUSY: &str = "another command restores to this directory";

/// Why a backup that was verified is refused.
const CHANGED: &str = "it was changed while it was read";

pub(crate) fn restore(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    Programs::find()?;
    let from = PathBuf::from(arguments.operand(0).ok_or_else(|| CommandError::usage("an argument is missing"))?);
    files::must_be_a_file(&from, "a backup is read twice")?;
    let target = existing::layout(arguments.operand(1))?;
    must_be_empty(target.root())?;
    output.waiting("verifying the backup");
    let (manifest, parameters) = verify(&from, target.root())?;
    let staging = Staging::make(target.root())?;
    output.waiting("writing files");
    let members = staging.extract(&from, &manifest)?;
    output.waiting("loading the KDC");
    let edge_keys = staging.load_kdc(&parameters)?;
    output.waiting("making repositories");
    staging.make_repositories(&members)?;
    staging.finish(target.root())?;
    output.report(&RestoreReport {
        directory: target.root().display().to_string(),
        began: manifest.began,
        ended: manifest.ended,
        realm: parameters.realm.to_string(),
        edge_keys,
    })
}

/// Whether nothing would be overwritten.
fn must_be_empty(directory: &Path) -> Result<(), CommandError> {
    match fs::read_dir(directory).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(false) => {
            let what = format!("there is something in {}", directory.display());
            Err(CommandError::local(CommandCode::DirectoryNotEmpty, what))
        }
        Err(error) => Err(CommandError::local(
            CommandCode::DirectoryNotEmpty,
            format!("cannot look into {}", directory.display()),
        )
        .because(error.to_string())),
    }
}

/// Reads all of the backup, and writes nothing: what would not fit is not read.
fn verify(from: &Path, target: &Path) -> Result<(Manifest, Parameters), CommandError> {
    let mut text = Vec::new();
    let mut authority = [false; 2];
    let manifest = archive::read(from, &|manifest| must_fit(manifest, target), &mut |member, content| {
        match member {
            Member::Parameters => {
                let read = content.take(member.limit()).read_to_end(&mut text);
                read.map_err(|error| damaged("centre.json cannot be read").because(error.to_string()))?;
            }
            Member::Tls(Tls::Authority) => authority[0] = true,
            Member::Tls(Tls::AuthorityKey) => authority[1] = true,
            _ => {}
        }
        Ok(())
    })?;
    let parameters: Parameters =
        serde_json::from_slice(&text).map_err(|error| damaged(format!("centre.json: {error}")))?;
    parameters.check().map_err(|error| damaged(format!("centre.json: {error}")))?;
    if !parameters.insecure && authority != [true; 2] {
        return Err(damaged("the authority of its certificates is missing"));
    }
    Ok((manifest, parameters))
}

/// Whether there is room for what is written. Repositories take twice as much while they are made, one at a time.
fn must_fit(manifest: &Manifest, target: &Path) -> Result<(), CommandError> {
    let at = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let room = rustix::fs::statvfs(at).map_err(|error| files::unwritable(at, &error.into()))?;
    let (free, needed) = (room.f_bavail.saturating_mul(room.f_frsize), manifest.size());
    if needed <= free {
        return Ok(());
    }
    let what = format!("the backup needs {needed} bytes, and {free} are free at {}", at.display());
    Err(CommandError::local(CommandCode::FileUnwritable, what))
}

/// The directory beside the one that is wanted, in which it is made: removed with this unless it is finished.
struct Staging {
    layout: Layout,
    finished: bool,
    _lock: File,
}

impl Staging {
    fn make(target: &Path) -> Result<Self, CommandError> {
        let mut name = OsString::from(".");
        name.push(target.file_name().ok_or_else(|| CommandError::usage("DIR must have a name"))?);
        name.push(".restoring");
        let root = target.with_file_name(name);
        let unwritable = |error: io::Error| files::unwritable(&root, &error);
        // Left by a run that was ended: nobody holds it any more.
        if let Ok(left) = File::open(&root) {
            spool::hold(&left, BUSY)?;
            spool::remove(&root)?;
        }
        DirBuilder::new().mode(0o700).create(&root).map_err(unwritable)?;
        let lock = File::open(&root).map_err(unwritable)?;
        spool::hold(&lock, BUSY)?;
        let staging = Self { layout: Layout::new(root), finished: false, _lock: lock };
        for directory in staging.layout.directories() {
            files::make_directory(&directory)?;
        }
        let registrations = RegistrationStore::make(staging.layout.registrations()).map_err(unusable)?;
        registrations.documents().make_references().map_err(unusable)?;
        Ok(staging)
    }

    /// Writes every file to its place. The backup is verified again: it may be another one by now.
    fn extract(&self, from: &Path, verified: &Manifest) -> Result<Vec<Member>, CommandError> {
        let mut members = Vec::new();
        let same = |manifest: &Manifest| if manifest == verified { Ok(()) } else { Err(damaged(CHANGED)) };
        archive::read(from, &same, &mut |member, content| {
            members.push(member.clone());
            write(&member.place(&self.layout), content)
        })?;
        Ok(members)
    }

    /// Makes the KDC's database, sees that its master key opens it, and lists the keys of edges.
    fn load_kdc(&self, parameters: &Parameters) -> Result<Vec<EdgeKey>, CommandError> {
        let (layout, realm) = (&self.layout, parameters.realm.as_str());
        files::replace(&layout.krb5_conf(), kdc::krb5_conf(parameters).as_bytes(), Readers::Anyone)?;
        files::replace(&layout.kdc_conf(), kdc::kdc_conf(parameters, layout).as_bytes(), Readers::Anyone)?;
        let dump = Member::KdcDump.place(layout);
        let named = dump.display().to_string();
        realm::run(layout, Stock::Kdb5Util, &["-r", realm, "load", &named], "")?;
        remove(&dump)?;
        realm::run(layout, Stock::KadminLocal, &["-r", realm, "-q", &format!("getprinc K/M@{realm}")], "")?;
        let table = |name: &str| {
            let path = layout.kdc().join(name);
            let named = path.display().to_string();
            realm::run(layout, Stock::Kdb5Util, &["-r", realm, "tabdump", "-o", &named, name], "")?;
            let text = fs::read(&path).map_err(|error| files::unwritable(&path, &error))?;
            remove(&path)?;
            Ok::<_, CommandError>(String::from_utf8_lossy(&text).into_owned())
        };
        let keys = edge_keys::of_tables(&table("keyinfo")?, &table("princ_meta")?);
        // They name this directory; `latchkey centre up` writes those of the other one.
        remove(&layout.krb5_conf())?;
        remove(&layout.kdc_conf())?;
        Ok(keys)
    }

    fn make_repositories(&self, members: &[Member]) -> Result<(), CommandError> {
        for member in members {
            let (uuid, filled) = match member {
                Member::Repository(uuid) => (uuid, true),
                Member::EmptyRepository(uuid) => (uuid, false),
                _ => continue,
            };
            let (repository, from) = (self.layout.repositories().join(uuid.to_string()), member.place(&self.layout));
            git::make(&repository)?;
            if filled {
                git::unbundle(&repository, &from)?;
            }
            remove(&from)?;
        }
        Ok(())
    }

    /// Gives the directory its name, once all of it is on the disk.
    fn finish(mut self, target: &Path) -> Result<(), CommandError> {
        let root = self.layout.root();
        let unwritable = |error: io::Error| files::unwritable(target, &error);
        rustix::fs::syncfs(File::open(root).map_err(unwritable)?).map_err(|error| unwritable(error.into()))?;
        // Over an empty directory, and over nothing else.
        fs::rename(root, target).map_err(unwritable)?;
        self.finished = true;
        files::sync_directory_of(target).map_err(unwritable)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.finished {
            // The next restore to this directory does it otherwise.
            drop(fs::remove_dir_all(self.layout.root()));
        }
    }
}

fn write(path: &Path, content: &mut dyn Read) -> Result<(), CommandError> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| archive::copy(content, &mut file));
    written.map(drop).map_err(|error| files::unwritable(path, &error))
}

fn remove(path: &Path) -> Result<(), CommandError> {
    fs::remove_file(path).map_err(|error| files::unwritable(path, &error))
}

/// A centre that was restored.
#[derive(Serialize)]
struct RestoreReport {
    directory: String,
    began: String,
    ended: String,
    realm: String,
    /// Accounts of edges, with the number of their keys in the backup.
    edge_keys: Vec<EdgeKey>,
}

impl Report for RestoreReport {
    fn text(&self, _: Style) -> String {
        let mut text = format!(
            "{}: the centre of {} as of {}. Run it with `latchkey centre up {}`.\nTokens and bootstrap commands of before are void.\n",
            self.directory,
            printable(&self.realm),
            printable(&self.began),
            self.directory,
        );
        if self.edge_keys.is_empty() {
            return text + "No edge has an account.\n";
        }
        text += "\nAn edge whose key has a higher number than this (see `klist -k` there) got it after the backup, and needs a new one:\n";
        let mut table = crate::output::Table::new(&["PRINCIPAL", "KEY", "MADE"]);
        for EdgeKey { principal, kvno, changed } in &self.edge_keys {
            table.row([printable(principal), kvno.to_string(), printable(changed)]);
        }
        text + &table.to_string()
    }
}
