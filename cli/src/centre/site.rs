//! The directory of a centre: read, or made, and held by one command at a time.

use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use latchkey_centre_site::{Layout, Parameters, Program, Service, broker, kdc, services};
use latchkey_factory_plus::UpnError;
use latchkey_keys::Secret;
use rustix::fs::{FlockOperation, flock};
use serde::de::DeserializeOwned;

use super::programs::Programs;
use crate::arguments::Arguments;
use crate::clusters::CentreFile;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::files::{self, Readers};

/// The most bytes of a file of ours.
const LARGEST: usize = 1 << 20;

/// A centre's directory that this command holds.
pub(super) struct Site {
    pub(super) parameters: Parameters,
    pub(super) layout: Layout,
    _lock: File,
}

impl Site {
    /// The one that the operand names. Its parameters are the arguments' when it is made, and those of before ever after.
    pub(super) fn open(arguments: &Arguments) -> Result<Self, CommandError> {
        let named = arguments.operand(0).ok_or_else(|| CommandError::usage("an argument is missing"))?;
        let root =
            std::path::absolute(Path::new(named)).map_err(|error| files::unwritable(Path::new(named), &error))?;
        let layout = Layout::new(root);
        make(layout.root())?;
        let lock = lock(&layout)?;
        let path = layout.parameters();
        let parameters = if path.exists() {
            kept(arguments, &path)?
        } else {
            let parameters = asked(arguments)?;
            write(&path, &pretty(&parameters)?, Readers::Anyone)?;
            parameters
        };
        for directory in layout.directories() {
            make(&directory)?;
        }
        Ok(Self { parameters, layout, _lock: lock })
    }

    /// Writes every configuration file, as this version writes them.
    pub(super) fn configure(&self, programs: &Programs) -> Result<(), CommandError> {
        let Self { parameters, layout, .. } = self;
        let unusable = |error: UpnError| CommandError::usage(error.to_string());
        let (helper, plugin) = (programs.helper(), programs.plugin());
        write(&layout.krb5_conf(), &kdc::krb5_conf(parameters), Readers::Anyone)?;
        write(&layout.kdc_conf(), &kdc::kdc_conf(parameters, layout), Readers::Anyone)?;
        let acl = kdc::kadm5_acl(parameters).map_err(|error| CommandError::usage(error.to_string()))?;
        write(&layout.kadm5_acl(), &acl, Readers::OwnerOnly)?;
        write(&layout.mosquitto_conf(), &broker::mosquitto_conf(parameters, layout, &plugin), Readers::Anyone)?;
        for service in Service::ALL {
            let config = services::config(parameters, layout, service, &helper).map_err(unusable)?;
            write(&layout.config(service), &config, Readers::OwnerOnly)?;
        }
        let authorities = (!parameters.insecure).then(|| layout.authority());
        let directory = parameters.place(Program::Directory).url.clone();
        let operator = CentreFile {
            directory,
            user: parameters.upn(kdc::OPERATOR).map_err(unusable)?,
            authorities,
            insecure: parameters.insecure,
        };
        write(&layout.operator(), &pretty(&operator)?, Readers::Anyone)
    }

    /// The password of a service's principal: the one of before, or a new one.
    pub(super) fn password(&self, account: &str) -> Result<latchkey_keys::SecretVec, CommandError> {
        let path = self.layout.password(account);
        if !path.exists() {
            files::replace(&path, new_password()?.as_bytes(), Readers::OwnerOnly)?;
        }
        files::read_secret(&path, 1024)
    }
}

/// 160 random bits, as people can type them if they must.
pub(super) fn new_password() -> Result<zeroize::Zeroizing<String>, CommandError> {
    let random = Secret::<20>::random()?;
    Ok(zeroize::Zeroizing::new(hex::encode(random.expose())))
}

fn asked(arguments: &Arguments) -> Result<Parameters, CommandError> {
    let realm = arguments.text("realm")?.unwrap_or("FACTORY.LOCALHOST");
    let organisation = arguments.text("organisation")?.unwrap_or("Factory");
    let port = arguments.value::<u16>("port")?.unwrap_or(Parameters::FIRST_PORT);
    let parameters = Parameters::on_loopback(realm, organisation, arguments.has("insecure"), port);
    parameters.map_err(|error| CommandError::usage(error.to_string()))
}

/// What the file says; an argument that says otherwise is an error, since a centre cannot change its mind about these.
fn kept(arguments: &Arguments, path: &Path) -> Result<Parameters, CommandError> {
    let parameters: Parameters = read(path)?;
    parameters.check().map_err(|error| CommandError::usage(format!("{}: {error}", path.display())))?;
    for (flag, is) in [("realm", parameters.realm.as_str()), ("organisation", parameters.organisation.as_str())] {
        if arguments.text(flag)?.is_some_and(|asked| asked != is) {
            let what = format!("--{flag}: this centre was made with {is}");
            return Err(CommandError::usage(what)
                .fix(format!("leave --{flag} out, or make another centre in another directory")));
        }
    }
    if arguments.has("insecure") && !parameters.insecure {
        let what = "--insecure: this centre was made with TLS";
        return Err(CommandError::usage(what).fix(format!("change `insecure` and the URLs in {}", path.display())));
    }
    Ok(parameters)
}

pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<T, CommandError> {
    let text = files::read(path, LARGEST)?;
    serde_json::from_slice(&text).map_err(|error| {
        CommandError::local(CommandCode::FileMalformed, path.display().to_string()).because(error.to_string())
    })
}

pub(super) fn pretty(value: &impl serde::Serialize) -> Result<String, CommandError> {
    let text = serde_json::to_string_pretty(value);
    let text = text.map_err(|error| CommandError::local(CommandCode::FileUnwritable, error.to_string()))?;
    Ok(format!("{text}\n"))
}

fn write(path: &Path, text: &str, readers: Readers) -> Result<(), CommandError> {
    files::replace(path, text.as_bytes(), readers)
}

/// A directory that nobody else may look into.
fn make(path: &Path) -> Result<(), CommandError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| files::unwritable(path, &error))
}

fn lock(layout: &Layout) -> Result<File, CommandError> {
    let path = layout.lock();
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
    let file = file.map_err(|error| files::unwritable(&path, &error))?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        let what = format!("the centre in {} runs already", layout.root().display());
        CommandError::local(CommandCode::DirectoryBusy, what)
    })?;
    Ok(file)
}
