//! The Kerberos realm: its database, made once, and the principals of the centre's services.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use latchkey_centre_site::{Layout, Service, kdc, services};
use latchkey_factory_plus::Upn;
use latchkey_kerberos::{Admin, AdminKey, AdminSettings, Denied};
use zeroize::Zeroizing;

use super::programs::{Programs, Stock};
use super::site::{Site, new_password};
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::files::{self, Readers};
use crate::stock::tie;

/// How long kadmind may take for one thing.
const DEADLINE: Duration = Duration::from_secs(15);

/// What MIT's programs need to know, in their environment.
pub(super) fn environment(layout: &Layout) -> [(&'static str, PathBuf); 2] {
    [("KRB5_CONFIG", layout.krb5_conf()), ("KRB5_KDC_PROFILE", layout.kdc_conf())]
}

/// Makes the database and the keys of its administrator, where they are not there.
pub(super) fn make(site: &Site) -> Result<(), CommandError> {
    make_database(site)?;
    let keytab = site.layout.admin_keytab();
    if keytab.exists() {
        return Ok(());
    }
    let (administrator, new) = (kdc::ADMINISTRATOR, keytab.with_extension("keytab.new"));
    // Left by a run that was ended here, which may have written some of the keys.
    remove(&new)?;
    let ask =
        |query: &str| run(&site.layout, Stock::KadminLocal, &["-r", site.parameters.realm.as_str(), "-q", query], "");
    // There already, where a run was ended here: then the keys are all that is missing.
    ask(&format!("addprinc -randkey {administrator}"))?;
    ask(&format!("ktadd -k {} {administrator}", new.display()))?;
    if !new.exists() {
        return Err(failed("kadmin.local", "it wrote no keytab"));
    }
    latchkey_durable_file::place(&new, &keytab).map_err(|error| files::unwritable(&keytab, &error))
}

/// Makes the database. A note stands beside it until it is complete: nothing else was made with one that has a note, and what a run
/// that was ended left of it is made anew.
fn make_database(site: &Site) -> Result<(), CommandError> {
    let layout = &site.layout;
    let (database, note) = (layout.kdc_database(), layout.kdc_database_begun());
    if database.exists() && !note.exists() {
        return Ok(());
    }
    let stash = layout.kdc_stash();
    if stash.exists() && !note.exists() {
        return Err(lost(&database, &stash));
    }
    files::replace(&note, b"", Readers::OwnerOnly)?;
    for extension in ["", "ok", "kadm5", "kadm5.lock"] {
        remove(&database.with_extension(extension))?;
    }
    remove(&layout.kdc_stash_begun())?;
    // The master key is in a stash that the KDC reads; this password is asked for by nobody again.
    let password = new_password()?;
    let typed = Zeroizing::new(format!("{0}\n{0}\n", password.as_str()));
    run(layout, Stock::Kdb5Util, &["create", "-s", "-r", site.parameters.realm.as_str()], &typed)?;
    // Durably: a note that a power cut brings back would cost a database in use.
    remove(&note)
}

/// A realm was here, whose accounts a new database would not have.
fn lost(database: &Path, stash: &Path) -> CommandError {
    let (database, stash) = (database.display(), stash.display());
    CommandError::local(CommandCode::RealmUnusable, format!("the KDC's database {database} is gone, and its master key {stash} is there"))
        .fix("put that file back, or bring a backup of the whole centre back: `latchkey centre restore`; other files here belong to the lost realm, too")
}

/// Removes a file that may not be there.
fn remove(path: &Path) -> Result<(), CommandError> {
    latchkey_durable_file::remove(path).map(drop).map_err(|error| files::unwritable(path, &error))
}

/// Makes the principals of services, and the keytab of what clients get tickets for. kadmind must run.
pub(super) async fn principals(site: &Site, programs: &Programs) -> Result<Admin, CommandError> {
    let admin = Admin::new(AdminSettings {
        helper: programs.helper(),
        krb5_config: Some(site.layout.krb5_conf()),
        principal: upn(site, kdc::ADMINISTRATOR)?,
        key: AdminKey::Keytab(site.layout.admin_keytab()),
        deadline: DEADLINE,
    });
    for account in Service::ALL.map(Service::account).into_iter().chain([services::ROOT]) {
        let password = site.password(account)?;
        let password = Zeroizing::new(password.expose().to_vec());
        let principal = upn(site, account)?;
        if admin.show(&principal).await.map_err(|error| denied(&error))?.is_none() {
            admin.create_with_password(&principal, &password, None, None).await.map_err(|error| denied(&error))?;
        }
    }
    let keytab = site.layout.http_keytab();
    if !keytab.exists() {
        let service = upn(site, &services::http_service(&site.parameters))?;
        if admin.show(&service).await.map_err(|error| denied(&error))?.is_none() {
            admin.create_random(&service).await.map_err(|error| denied(&error))?;
        }
        let keys = admin.new_keys(&service).await.map_err(|error| denied(&error))?;
        files::replace(&keytab, &keys.to_bytes(), Readers::OwnerOnly)?;
    }
    Ok(admin)
}

/// Whether the operator has no principal: a new centre's first start may have ended before it was made.
pub(super) async fn lacks_operator(site: &Site, admin: &Admin) -> Result<bool, CommandError> {
    admin.show(&upn(site, kdc::OPERATOR)?).await.map(|found| found.is_none()).map_err(|error| denied(&error))
}

/// Gives the operator's principal a new password, and makes it where it is not there.
pub(super) async fn operator(site: &Site, admin: &Admin) -> Result<Zeroizing<String>, CommandError> {
    let (principal, password) = (upn(site, kdc::OPERATOR)?, new_password()?);
    let secret = Zeroizing::new(password.as_bytes().to_vec());
    if admin.show(&principal).await.map_err(|error| denied(&error))?.is_none() {
        admin.create_with_password(&principal, &secret, None, None).await.map_err(|error| denied(&error))?;
    } else {
        admin.set_password(&principal, &secret, None).await.map_err(|error| denied(&error))?;
    }
    Ok(password)
}

fn upn(site: &Site, name: &str) -> Result<Upn, CommandError> {
    site.parameters.upn(name).map_err(|error| CommandError::usage(format!("{name}: {error}")))
}

fn denied(denied: &Denied) -> CommandError {
    CommandError::local(CommandCode::RealmUnusable, denied.to_string()).fix(denied.code().remedy())
}

/// Runs one of MIT's programs with what it would ask for. It ends with this command: what it began is not written to by anybody when
/// the next run comes upon it.
pub(super) fn run(layout: &Layout, program: Stock, arguments: &[&str], typed: &str) -> Result<(), CommandError> {
    let name = program.name();
    let mut command = Command::new(program.path()?);
    command
        .args(arguments)
        .envs(environment(layout))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    tie(&mut command);
    let mut child = command.spawn().map_err(|error| failed(name, &error.to_string()))?;
    if let Some(mut input) = child.stdin.take() {
        // A program that ended without reading says why below.
        let _ = input.write_all(typed.as_bytes());
    }
    let said = child.wait_with_output().map_err(|error| failed(name, &error.to_string()))?;
    if said.status.success() {
        return Ok(());
    }
    Err(failed(name, String::from_utf8_lossy(&said.stderr).trim()))
}

fn failed(name: &str, why: &str) -> CommandError {
    CommandError::local(CommandCode::RealmUnusable, format!("{name} failed")).because(why)
}
