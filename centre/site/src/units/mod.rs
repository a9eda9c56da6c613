//! The centre as services of systemd.
//!
//! One unit for each program, each with a user of its own that owns the program's directory. Passwords, keytabs and keys stay
//! root's, and are handed over as credentials. One exception: the KDC and its administration share a database, and a user.

mod configs;
mod programs;
mod unit;

use std::path::{Path, PathBuf};

use crate::{Layout, Parameters, ParametersError, Service, SiteFile, kdc};

/// The target that starts all of a centre.
pub const TARGET: &str = "latchkey-centre.target";
/// The unit of the KDC.
pub const KDC: &str = "latchkey-centre-kdc.service";
/// The unit of the KDC's administration.
pub const KADMIND: &str = "latchkey-centre-kadmind.service";
/// The unit of the broker.
pub const BROKER: &str = "latchkey-centre-mosquitto.service";
/// The user of the KDC and its administration.
const KDC_USER: &str = "latchkey-kdc";
/// Where the broker asks the authorisation service.
const BROKER_SOCKET: &str = "/run/latchkey-auth/broker.socket";

/// Where the programs are, and where the files go.
#[derive(Debug, Clone)]
pub struct Installed {
    /// The directory of our programs.
    pub ours: PathBuf,
    /// MIT's KDC.
    pub krb5kdc: PathBuf,
    /// MIT's administration of the KDC.
    pub kadmind: PathBuf,
    /// Mosquitto.
    pub mosquitto: PathBuf,
    /// The user of Mosquitto, by name and number: the authorisation service answers it.
    pub broker_user: (String, u32),
    /// Where the files of [`files`] will stand.
    pub to: PathBuf,
}

/// Why there are no units.
#[derive(Debug, thiserror::Error)]
pub enum UnitsError {
    /// A path that a unit does not take as it is.
    #[error("{}: a path in a unit has letters, digits and `/._-` only, and is absolute", .0.display())]
    Path(PathBuf),
    /// A path that the services must not see.
    #[error("{}: services see no home directories, and a /tmp of their own", .0.display())]
    Hidden(PathBuf),
    /// Parameters that do not fit.
    #[error(transparent)]
    Parameters(#[from] ParametersError),
}

/// Whether services may be run from a path: not in a home directory, and not where each service has a directory of its own.
pub fn check(path: &Path) -> Result<(), UnitsError> {
    let hidden = ["/home", "/root", "/run/user", "/tmp", "/var/tmp"];
    if hidden.iter().any(|hidden| path.starts_with(hidden)) { Err(UnitsError::Hidden(path.into())) } else { Ok(()) }
}

/// Every file, with its path below [`Installed::to`].
pub fn files(parameters: &Parameters, layout: &Layout, installed: &Installed) -> Result<Vec<SiteFile>, UnitsError> {
    let Installed { ours, krb5kdc, kadmind, mosquitto, to, .. } = installed;
    for path in [layout.root(), ours, krb5kdc, kadmind, mosquitto, to] {
        plain(path)?;
    }
    let unit = |name: &str| format!("systemd/{name}");
    let mut files = vec![
        file(unit(TARGET), target(layout, to)),
        file("sysusers.d/latchkey-centre.conf", users(layout)),
        file("tmpfiles.d/latchkey-centre.conf", owners(layout)),
        file("config/krb5.conf", kdc::krb5_conf(parameters)),
        file("config/kdc.conf", kdc::kdc_conf(parameters, layout)),
        file("config/kadm5.acl", kdc::kadm5_acl(parameters)?),
        file(unit(KDC), programs::kdc(parameters, layout, installed)),
        file(unit(KADMIND), programs::kadmind(parameters, layout, installed)),
    ];
    for service in Service::ALL {
        files.push(file(
            format!("config/{}.json", service.name()),
            configs::config(parameters, layout, installed, service)?,
        ));
        files.push(file(unit(&unit_name(service)), programs::service(parameters, layout, installed, service)));
    }
    files.push(file("config/mosquitto.conf", configs::mosquitto_conf(parameters, layout, installed)));
    files.push(file(unit(BROKER), programs::broker(parameters, layout, installed)));
    Ok(files)
}

/// The unit of a service of ours.
pub fn unit_name(service: impl Into<Service>) -> String {
    format!("{}.service", service.into().file_name())
}

fn file(path: impl Into<PathBuf>, content: String) -> SiteFile {
    SiteFile { path: path.into(), content }
}

fn plain(path: &Path) -> Result<(), UnitsError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'_' | b'-');
    let good = path.is_absolute() && path.as_os_str().as_encoded_bytes().iter().copied().all(fits);
    if good { Ok(()) } else { Err(UnitsError::Path(path.into())) }
}

fn target(layout: &Layout, to: &Path) -> String {
    let (root, to) = (layout.root().display(), to.display());
    format!(
        "# Written by `latchkey centre units`. The centre was made by `latchkey centre up {root}`, which must have ended:\n\
         # systemd-sysusers {to}/sysusers.d/latchkey-centre.conf\n\
         # systemd-tmpfiles --create {to}/tmpfiles.d/latchkey-centre.conf\n\
         # systemctl link {to}/systemd/*\n\
         # systemctl enable --now {TARGET}\n\
         [Unit]\n\
         Description=Latchkey centre\n\
         Wants={}\n\n\
         [Install]\n\
         WantedBy=multi-user.target\n",
        all().join(" ")
    )
}

/// All services, in the order in which they start.
pub fn all() -> Vec<String> {
    let ours = Service::ALL.map(unit_name);
    [KDC, KADMIND].into_iter().map(str::to_owned).chain(ours).chain([BROKER.to_owned()]).collect()
}

fn users(layout: &Layout) -> String {
    let root = layout.root().display();
    let kdc = format!("# Written by `latchkey centre units`.\nu {KDC_USER} - \"Latchkey KDC\" {root}\n");
    let ours =
        Service::ALL.map(|service| format!("u {} - \"Latchkey {}\" {root}\n", service.file_name(), service.name()));
    kdc + &ours.concat()
}

/// Who owns what in the centre's directory: secrets and keys root, everything else the one program that writes it.
fn owners(layout: &Layout) -> String {
    let first = format!("# Written by `latchkey centre units`.\nz {} 0711 root root\n", layout.root().display());
    let roots = [layout.secrets(), layout.tls(), layout.broker(), layout.logs()].map(|path| (path, "root"));
    let ours = Service::ALL.map(|service| (layout.of(service), service.file_name()));
    let all = roots.into_iter().chain(ours).chain([(layout.kdc(), KDC_USER)]);
    let lines = all.map(|(path, user)| format!("Z {} ~0700 {user} {user}\n", path.display()));
    std::iter::once(first).chain(lines).collect()
}
