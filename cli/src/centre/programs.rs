//! Where the programs are that a centre is made of.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::stock::in_path;

/// Stock programs and the Debian package that brings each.
const STOCK: [(&str, &str); 6] = [
    ("krb5kdc", "krb5-kdc libverto-libev1"),
    ("kdb5_util", "krb5-kdc"),
    ("kadmind", "krb5-admin-server"),
    ("kadmin.local", "krb5-admin-server"),
    ("mosquitto", "mosquitto"),
    ("git", "git"),
];

/// The programs of a centre.
pub(super) struct Programs {
    /// Where ours are.
    beside: PathBuf,
}

impl Programs {
    /// Ours beside this command, the stock ones where Debian puts them; an error names all that are missing.
    pub(super) fn find() -> Result<Self, CommandError> {
        let own = env::current_exe().map_err(|error| missing("this command's own file").because(error.to_string()))?;
        let programs = Self { beside: own.parent().unwrap_or_else(|| Path::new("/")).to_owned() };
        let lacking: Vec<_> = STOCK.iter().filter(|(name, _)| Self::stock(name).is_none()).collect();
        if !lacking.is_empty() {
            let names = lacking.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            let packages = lacking.iter().map(|(_, package)| *package).collect::<Vec<_>>().join(" ");
            return Err(missing(&names).fix(format!("apt-get install --no-install-recommends {packages}")));
        }
        Ok(programs)
    }

    /// A program of ours.
    pub(super) fn ours(&self, name: &str) -> Result<PathBuf, CommandError> {
        let path = self.beside.join(name);
        if is_file(&path) {
            Ok(path)
        } else {
            Err(missing(name).fix(format!("put it beside this command: {}", path.display())))
        }
    }

    /// A stock program; servers are in directories that users do not have in PATH.
    pub(super) fn stock(name: &str) -> Option<PathBuf> {
        in_path(name, &["/usr/sbin", "/usr/bin", "/sbin"])
    }
}

fn missing(what: &str) -> CommandError {
    CommandError::local(CommandCode::ProgramMissing, format!("not installed here: {what}"))
}

fn is_file(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file())
}
