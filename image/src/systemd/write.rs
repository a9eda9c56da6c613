//! The additions in a folder of their own, for a root that somebody else builds.

use std::fs;
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::{Addition, Systemd, What};
use crate::error::{ImageError, at};

impl Systemd {
    /// Writes what it adds below `out`, a folder that is made and must not be there, and says how many files, links and
    /// folders these are.
    pub fn write(&self, agent: &[u8], out: &Path) -> Result<usize, ImageError> {
        fs::create_dir(out).map_err(at(out))?;
        let additions = self.additions(agent);
        for addition in &additions {
            let path = out.join(&addition.path);
            lay(addition, &path).map_err(at(path))?;
        }
        Ok(additions.len())
    }
}

fn lay(Addition { what, .. }: &Addition, path: &PathBuf) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    match what {
        What::Folder => fs::create_dir_all(path),
        What::Link(target) => std::os::unix::fs::symlink(target, path),
        What::File(permissions, content) => {
            let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(*permissions).open(path)?;
            io::Write::write_all(&mut file, content)?;
            // Whatever the user's mask took away.
            file.set_permissions(fs::Permissions::from_mode(*permissions))
        }
    }
}
