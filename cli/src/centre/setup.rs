//! What a new centre has: loaded once, and again when another version of this command brings something else.

use latchkey_centre_setup::{Local, Setup, Urls};
use latchkey_centre_site::{Layout, Parameters, Program, kdc, services};
use latchkey_factory_plus::uuids;
use latchkey_factory_plus_client::{Client, Identity, Insecure, Limits, Services, Settings, Trust};
use serde::{Deserialize, Serialize};

use super::site::{self, Site};
use crate::clusters::failed;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::files::{self, Readers};
use crate::output::{Output, Tone};

/// What was loaded, and that the centre ran: the file is written last.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Noted {
    /// SHA-256 of the dumps, in hexadecimal.
    loaded: String,
}

/// Whether the centre never ran before.
pub(super) fn is_first(site: &Site) -> bool {
    !site.layout.set_up().exists()
}

/// Loads what the centre has, unless that was loaded before. The configuration database and the authorisation service must run.
pub(super) async fn load(site: &Site, output: &Output) -> Result<(), CommandError> {
    let setup = dumps(site)?;
    let digest = digest(&setup)?;
    if !is_first(site) && site::read::<Noted>(&site.layout.set_up())?.loaded == digest {
        return Ok(());
    }
    output.waiting("loading classes, roles, grants and templates");
    let client = root(&site.parameters, &site.layout, Limits::default())?;
    let service = client.service(uuids::service::CONFIG_DB);
    service.post_only("load", &setup.config_db).await.map_err(|error| failed(&error))?;
    let service = client.service(uuids::service::AUTH);
    service.post_only("load", &setup.auth).await.map_err(|error| failed(&error))?;
    note(site, &digest)?;
    output.say(Tone::Good, "loaded", "classes, roles, grants and templates");
    Ok(())
}

fn dumps(site: &Site) -> Result<Setup, CommandError> {
    let parameters = &site.parameters;
    let url = |program| parameters.place(program).url.to_string();
    let scheme = if parameters.insecure { "mqtt" } else { "mqtts" };
    let authority = if parameters.insecure {
        String::new()
    } else {
        String::from_utf8_lossy(&files::read(&site.layout.authority(), 64 << 10)?).into_owned()
    };
    let [kdc, kadmin] = parameters.kdc();
    let described = latchkey_centre_setup::Site {
        realm: parameters.realm.to_string(),
        domain: parameters.host.clone(),
        kdc: Some(kdc),
        kadmin: Some(kadmin),
        authority: authority.replace("\r\n", "\n"),
        images: parameters.images.clone(),
        prefix: parameters.organisation.clone(),
        administrator: kdc::OPERATOR.to_owned(),
        urls: Urls {
            directory: url(Program::Directory),
            config_db: url(Program::ConfigDb),
            auth: url(Program::Auth),
            git: url(Program::GitServer),
            cluster_manager: url(Program::ClusterManager),
            mqtt: format!("{scheme}://{}:{}", parameters.host, parameters.places.broker.port()),
        },
    };
    Setup::new(&described, &local(site)?).map_err(|error| CommandError::usage(error.to_string()))
}

/// The UUIDs that this centre made for itself, kept before anything is made with them.
pub(super) fn local(site: &Site) -> Result<Local, CommandError> {
    let path = site.layout.local();
    if path.exists() {
        return site::read(&path);
    }
    let local = Local::new();
    files::replace(&path, site::pretty(&local)?.as_bytes(), Readers::OwnerOnly)?;
    Ok(local)
}

/// A client that may do everything, for set-up and backup alone.
pub(super) fn root(parameters: &Parameters, layout: &Layout, limits: Limits) -> Result<Client, CommandError> {
    let unusable = |what: String| CommandError::local(CommandCode::SecretUnusable, what);
    let upn = parameters.upn(services::ROOT).map_err(|error| unusable(error.to_string()))?;
    let identity = Identity::from_file(&upn, &layout.password(services::ROOT));
    let trust = if parameters.insecure {
        Trust::none().allowing(Insecure)
    } else {
        Trust::roots(&layout.authority()).map_err(|error| unusable(error.to_string()))?
    };
    let place = |program: Program| (program.service(), parameters.place(program).url.clone());
    let services = Services::fixed(Program::ALL.map(place));
    let identity = identity.map_err(|error| unusable(error.to_string()))?;
    Ok(Client::new(Settings { identity, trust, services, limits }))
}

fn digest(setup: &Setup) -> Result<String, CommandError> {
    let text = site::pretty(&(&setup.config_db, &setup.auth))?;
    Ok(hex::encode(ring::digest::digest(&ring::digest::SHA256, text.as_bytes())))
}

fn note(site: &Site, digest: &str) -> Result<(), CommandError> {
    let noted = site::pretty(&Noted { loaded: digest.to_owned() })?;
    files::replace(&site.layout.set_up(), noted.as_bytes(), Readers::OwnerOnly)
}
