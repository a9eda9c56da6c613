//! Packages of npm, as a lock file names them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::{output_within, skip};

/// The packages come from the registry, or from npm's cache.
const INSTALLING: Duration = Duration::from_mins(5);

/// A directory with packages that a script can import.
#[derive(Debug)]
pub struct Npm {
    home: PathBuf,
}

impl Npm {
    /// Installs into `home`, which is made, what `package-lock.json` of the directory `lock` names; `None`, and a skip that says
    /// why, where that cannot be. The lock has digests and no addresses: the packages come from the registry that npm is
    /// configured for. No script of a package runs.
    ///
    /// # Panics
    /// If a file cannot be copied, or npm does not end.
    #[track_caller]
    pub fn install(lock: &Path, home: &Path) -> Option<Self> {
        fs::create_dir_all(home).expect("a directory for packages");
        for file in ["package.json", "package-lock.json"] {
            fs::copy(lock.join(file), home.join(file)).expect("a copy of what npm is to install");
        }
        let mut npm = Command::new("npm");
        npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"]).current_dir(home);
        match output_within(INSTALLING, &mut npm) {
            Err(error) => skip(format_args!("npm cannot be run ({error}); install node and npm")),
            Ok(done) if !done.status.success() => {
                skip(format_args!("npm ci failed: {}", String::from_utf8_lossy(&done.stderr)));
            }
            Ok(_) => return Some(Self { home: home.to_owned() }),
        }
        None
    }

    /// The client of Factory+ services, `@amrc-factoryplus/service-client` 1.6.0, on the same terms.
    ///
    /// # Panics
    /// As [`Npm::install`].
    #[track_caller]
    pub fn service_client(home: &Path) -> Option<Self> {
        Self::install(&Path::new(env!("CARGO_MANIFEST_DIR")).join("npm/service-client"), home)
    }

    /// node, about to run a copy of `script` beside the packages, in their directory.
    ///
    /// # Panics
    /// If the script cannot be copied.
    #[must_use]
    pub fn node(&self, script: &Path) -> Command {
        let name = script.file_name().expect("a script's name");
        fs::copy(script, self.home.join(name)).expect("a copy of the script");
        let mut node = Command::new("node");
        node.arg(name).current_dir(&self.home);
        node
    }

    /// A file of a package, such as `axe-core/axe.min.js`.
    #[must_use]
    pub fn file(&self, path: &str) -> PathBuf {
        self.home.join("node_modules").join(path)
    }
}
