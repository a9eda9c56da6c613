//! Copies of everything, in the order that makes them one backup.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use http::Method;
use latchkey_centre_site::{Service, services};
use latchkey_factory_plus::Uuid;
use latchkey_factory_plus_client::{Call, Client, Limits};
use latchkey_group_commit::copy_place;

use super::git::{self, Bundled};
use super::member::{Kept, Member, Tls};
use super::registrations;
use super::spool::Spool;
use crate::centre::existing::Existing;
use crate::centre::programs::Stock;
use crate::centre::{realm, setup};
use crate::clusters::failed;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::files;
use crate::node::block_on;
use crate::output::Output;

/// How long a service may take for its copy: as long as it allows itself.
const COPY: Duration = Duration::from_mins(10);

/// A file for the backup, and where it is now.
pub(super) type Found = (Member, PathBuf);

/// Copies everything of a centre that runs.
pub(super) fn all(centre: &Existing, spool: &Spool, output: &Output) -> Result<Vec<Found>, CommandError> {
    let Existing { parameters, layout } = centre;
    let mut found = Vec::new();
    let limits = Limits { read: COPY, whole: COPY, ..Limits::default() };
    let client = setup::root(parameters, layout, limits)?;
    // The order is the promise of a backup: see the head of `mod.rs`.
    for kept in Kept::ALL {
        output.waiting(&format!("copying what {} keeps", kept.program().name()));
        found.push((Member::Data(kept), copied(centre, &client, kept, spool)?));
    }
    output.waiting("copying what the enrol service decides by, and decided");
    found.push(registrations::records(centre, spool)?);
    found.extend(registrations::files(centre, spool)?);
    output.waiting("copying the KDC");
    let dump = spool.path().join("kdc-dump");
    let to = dump.display().to_string();
    realm::run(layout, Stock::Kdb5Util, &["-r", parameters.realm.as_str(), "dump", &to], "")?;
    found.push((Member::KdcDump, dump));
    found.extend(repositories(centre, spool, output)?);
    found.extend(files_of(centre));
    Ok(found)
}

/// Asks a service for a copy, and takes it from where the service leaves it.
fn copied(centre: &Existing, client: &Client, kept: Kept, spool: &Spool) -> Result<PathBuf, CommandError> {
    let program = kept.program();
    let service = client.service(program.service());
    let answer =
        block_on(async { service.call(Call::new(Method::POST, "backup")).await.map_err(|error| failed(&error)) })?;
    if answer.status != 204 {
        let said = String::from_utf8_lossy(&answer.body).chars().take(500).collect::<String>();
        let what = format!("{} makes no copy (HTTP {})", program.name(), answer.status);
        return Err(CommandError::local(CommandCode::CentreRefuses, what).because(said));
    }
    let (left, taken) = (copy_place(&centre.layout.data(program)), spool.path().join(program.name()));
    fs::rename(&left, &taken).map_err(|error| files::unwritable(&left, &error))?;
    Ok(taken)
}

fn repositories(centre: &Existing, spool: &Spool, output: &Output) -> Result<Vec<Found>, CommandError> {
    let directory = centre.layout.repositories();
    let unreadable = |error: std::io::Error| {
        CommandError::local(CommandCode::FileUnreadable, format!("cannot read {}", directory.display()))
            .because(error.to_string())
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(&directory).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        let Some(uuid) = name.to_str().and_then(|name| name.parse::<Uuid>().ok()) else { continue };
        output.waiting(&format!("copying repository {uuid}"));
        let to = spool.path().join(format!("{uuid}.bundle"));
        match git::bundle(&directory.join(&name), &to)? {
            Bundled::Whole => found.push((Member::Repository(uuid), to)),
            Bundled::Empty => {
                files::write_new(&to, &[], files::Readers::OwnerOnly)?;
                found.push((Member::EmptyRepository(uuid), to));
            }
            Bundled::Gone => {}
        }
    }
    Ok(found)
}

/// Files that do not change while a centre runs.
fn files_of(centre: &Existing) -> Vec<Found> {
    let Existing { parameters, layout } = centre;
    let mut members = vec![Member::Parameters, Member::Local, Member::SetUp, Member::KdcStash];
    if !parameters.insecure {
        members.extend([Member::Tls(Tls::Authority), Member::Tls(Tls::AuthorityKey)]);
    }
    let accounts = Service::ALL.map(Service::account).into_iter().chain([services::ROOT]);
    let secrets = accounts.map(|account| layout.password(account));
    for path in secrets.chain([layout.http_keytab(), layout.admin_keytab(), layout.enrol_key()]) {
        members.extend(path.file_name().and_then(|name| name.to_str()).and_then(Member::secret));
    }
    let found = members.into_iter().map(|member| {
        let path = member.place(layout);
        (member, path)
    });
    found.collect()
}
