//! The enrol service's directory: what the operator put there, and the records of what was decided.
//!
//! Machines that wait are not in a backup: they ask again. Nor is the operator's word on single machines: what was used since the
//! backup would be good again.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use latchkey_centre_site::Service;
use latchkey_cluster_store::registration::RegistrationStore;
use latchkey_group_commit::copy_place;

use super::collect::Found;
use super::member::Member;
use super::spool::Spool;
use crate::centre::admin;
use crate::centre::existing::Existing;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::files;
use crate::owner::as_owner_of;
use crate::store_error::unusable;

/// Files of it.
const FILES: [&str; 5] =
    ["policy.json", "registration.json", "reference.json", "reference.json.minisig", "revisions.json"];
/// Directories in it, with files.
const DIRECTORIES: [&str; 2] = ["references", "denied"];
/// Characters of a file's name.
const LONGEST: usize = 200;
/// How long the service may take for its copy.
const COPY: Duration = Duration::from_secs(10);

/// Whether it is the path of a file of the directory, below it.
pub(super) fn is_file(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let fits = |name: &str| (1..=LONGEST).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(plain);
    match name.split_once('/') {
        Some((directory, file)) => DIRECTORIES.contains(&directory) && fits(file),
        None => FILES.contains(&name),
    }
}

/// The records, as they are at one moment.
pub(super) fn records(centre: &Existing, spool: &Spool) -> Result<Found, CommandError> {
    let [_, address] = Service::Enrol.listens(&centre.parameters);
    let refuses = |why: String| {
        let what = format!("{} makes no copy", Service::Enrol.name());
        CommandError::local(CommandCode::CentreRefuses, what).because(why)
    };
    let said = admin::ask(address, "POST /backup", COPY).map_err(|error| refuses(error.to_string()))?;
    if !said.good {
        return Err(refuses(said.body));
    }
    let root = centre.layout.registrations();
    let store = as_owner_of(&root, || RegistrationStore::open(&root).map_err(unusable))?;
    let (left, taken) = (copy_place(&store.records_path()), spool.path().join(Service::Enrol.name()));
    fs::rename(&left, &taken).map_err(|error| files::unwritable(&left, &error))?;
    // Its service's user writes there.
    if !fs::symlink_metadata(&taken).is_ok_and(|found| found.is_file()) {
        let what = format!("{} is no plain file", left.display());
        return Err(
            CommandError::local(CommandCode::FileUnreadable, what).fix("remove it, and look at who put it there")
        );
    }
    Ok((Member::EnrolRecords, taken))
}

/// The operator's files. Each is replaced as a whole while the service runs, so each is copied first.
pub(super) fn files(centre: &Existing, spool: &Spool) -> Result<Vec<Found>, CommandError> {
    let root = centre.layout.registrations();
    let mut names: Vec<String> = FILES.map(str::to_owned).into();
    for directory in DIRECTORIES {
        for name in list(&root.join(directory))? {
            names.push(format!("{directory}/{name}"));
        }
    }
    let mut found = Vec::new();
    for name in names.into_iter().filter(|name| is_file(name)) {
        let (from, to) = (root.join(&name), spool.path().join(format!("registration-{}", found.len())));
        let limit = Member::Registration(name.clone()).limit();
        match copy_plain(&from, &to, limit) {
            Ok(()) => found.push((Member::Registration(name), to)),
            // Taken back meanwhile, or never there.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(unreadable(&from, &error)),
        }
    }
    Ok(found)
}

/// Copies a file that the service's user may have made, too: no link, nothing that is no file, and no more than `limit` bytes.
fn copy_plain(from: &Path, to: &Path, limit: u64) -> io::Result<()> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(from)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("is no plain file"));
    }
    let mut copy = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    match io::copy(&mut file.take(limit + 1), &mut copy)? {
        copied if copied > limit => Err(io::Error::other(format!("is longer than {limit} bytes"))),
        _ => Ok(()),
    }
}

fn list(directory: &Path) -> Result<Vec<String>, CommandError> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.map_err(|error| unreadable(directory, &error))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(|error| unreadable(directory, &error))?.file_name();
        // A signature that is being put in force is of a manifest that is not there yet.
        names.extend(name.to_str().filter(|name| name.strip_suffix(".new").is_none()).map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

fn unreadable(path: &Path, error: &io::Error) -> CommandError {
    CommandError::local(CommandCode::FileUnreadable, format!("cannot read {}", path.display()))
        .because(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_to_no_other_place() {
        for name in ["policy.json", "references/edge.json", "references/edge.json.minisig", "denied/ab.json"] {
            assert!(is_file(name), "{name}");
        }
        for name in [
            "",
            "records",
            "held/ab.json",
            "invitations/ab.json",
            "admitted/ab.json",
            "references",
            "references/",
            "references/../policy.json",
            "/policy.json",
            "references/.new-1-x",
            "references/a/b.json",
            "denied//a",
            "denied/a b",
            "../policy.json",
        ] {
            assert!(!is_file(name), "{name}");
        }
    }
}
