//! Where the programs are that a centre is made of.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use latchkey_centre_site::Service;

use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::stock::in_path;

/// A program that the machine's packages bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stock {
    Krb5kdc,
    Kdb5Util,
    Kadmind,
    KadminLocal,
    Mosquitto,
    Git,
}

impl Stock {
    const ALL: [Self; 6] =
        [Self::Krb5kdc, Self::Kdb5Util, Self::Kadmind, Self::KadminLocal, Self::Mosquitto, Self::Git];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Krb5kdc => "krb5kdc",
            Self::Kdb5Util => "kdb5_util",
            Self::Kadmind => "kadmind",
            Self::KadminLocal => "kadmin.local",
            Self::Mosquitto => "mosquitto",
            Self::Git => "git",
        }
    }

    /// The Debian packages that bring it.
    const fn packages(self) -> &'static str {
        match self {
            Self::Krb5kdc | Self::Kdb5Util => "krb5-kdc libverto-libev1",
            Self::Kadmind | Self::KadminLocal => "krb5-admin-server",
            Self::Mosquitto => "mosquitto",
            Self::Git => "git",
        }
    }

    /// Where it is; servers are in directories that users do not have in PATH.
    fn find(self) -> Option<PathBuf> {
        in_path(self.name(), &["/usr/sbin", "/usr/bin", "/sbin"])
    }

    /// The same, for who starts it at once.
    pub(super) fn path(self) -> Result<PathBuf, CommandError> {
        self.find().ok_or_else(|| missing(&[], &[self]))
    }
}

/// Every program of a centre is there.
pub(super) struct Programs {
    /// Where ours are.
    beside: PathBuf,
}

/// The helper of the services that speak Kerberos.
const HELPER: &str = "latchkey-kerberos-helper";
/// What Mosquitto loads.
const PLUGIN: &str = "liblatchkey_mosquitto_plugin.so";

impl Programs {
    /// Looks for all of them, before anything is started: ours beside this command, the stock ones where Debian puts them. An error
    /// names all that are missing, and what brings them.
    pub(super) fn find() -> Result<Self, CommandError> {
        let own = env::current_exe().map_err(|error| {
            CommandError::local(CommandCode::ProgramMissing, "this command's own file").because(error.to_string())
        })?;
        let beside = own.parent().unwrap_or_else(|| Path::new("/"));
        let ours = Service::ALL.map(Service::file_name).into_iter().chain([HELPER, PLUGIN]);
        let ours: Vec<PathBuf> = ours.map(|name| beside.join(name)).filter(|path| !is_file(path)).collect();
        let stock: Vec<Stock> = Stock::ALL.into_iter().filter(|program| program.find().is_none()).collect();
        if ours.is_empty() && stock.is_empty() {
            Ok(Self { beside: beside.to_owned() })
        } else {
            Err(missing(&ours, &stock))
        }
    }

    /// A service of ours.
    pub(super) fn service(&self, service: Service) -> PathBuf {
        self.beside.join(service.file_name())
    }

    /// The helper of the services that speak Kerberos.
    pub(super) fn helper(&self) -> PathBuf {
        self.beside.join(HELPER)
    }

    /// What Mosquitto loads.
    pub(super) fn plugin(&self) -> PathBuf {
        self.beside.join(PLUGIN)
    }

    /// The directory of ours.
    pub(super) fn ours(&self) -> &Path {
        &self.beside
    }
}

/// `ours` are the paths where files are missing.
fn missing(ours: &[PathBuf], stock: &[Stock]) -> CommandError {
    let file_name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let names = ours.iter().map(file_name).chain(stock.iter().map(|program| program.name().to_owned()));
    let what = format!("not installed here: {}", names.collect::<Vec<_>>().join(", "));
    let mut fixes = Vec::new();
    if let Some(directory) = ours.first().and_then(|path| path.parent()) {
        fixes.push(format!("put Latchkey's own beside this command, in {}", directory.display()));
    }
    let mut packages: Vec<&str> = stock.iter().flat_map(|program| program.packages().split(' ')).collect();
    packages.sort_unstable();
    packages.dedup();
    if !packages.is_empty() {
        fixes.push(format!("apt-get install --no-install-recommends {}", packages.join(" ")));
    }
    CommandError::local(CommandCode::ProgramMissing, what).fix(fixes.join("; "))
}

fn is_file(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_missing_is_named_with_what_brings_it() {
        let ours = ["/opt/latchkey-auth".into(), "/opt/latchkey-kerberos-helper".into()];
        let error = missing(&ours, &[Stock::Kdb5Util, Stock::Krb5kdc, Stock::Git]);
        assert_eq!(error.what, "not installed here: latchkey-auth, latchkey-kerberos-helper, kdb5_util, krb5kdc, git");
        assert_eq!(
            error.remedy(),
            "put Latchkey's own beside this command, in /opt; \
             apt-get install --no-install-recommends git krb5-kdc libverto-libev1"
        );
    }
}
