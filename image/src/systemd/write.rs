//! The additions in a directory of their own, for a root that somebody else builds.

use std::fs;
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use latchkey_initramfs::executable;

use super::{Addition, AdditionKind, Systemd};
use crate::error::{ImageError, at};
use crate::image::Image;

impl Image {
    /// Writes what a root needs for this image's systemd, agent included, below `out`, a directory that is made and must not be
    /// there, and says how many files, links and directories these are; none if the image asks for nothing.
    pub fn write_units(&self, out: &Path) -> Result<Option<usize>, ImageError> {
        let Some(systemd) = &self.systemd else { return Ok(None) };
        let agent = self.agent()?;
        if self.is_agent {
            executable::check_agent(&agent)?;
        }
        systemd.write(&agent, out).map(Some)
    }
}

impl Systemd {
    /// Writes the files below `out`, a directory that is made and must not be there, and says how many files, links and
    /// directories these are.
    pub fn write(&self, agent: &[u8], out: &Path) -> Result<usize, ImageError> {
        fs::create_dir(out).map_err(at(out))?;
        let files = self.files(agent);
        for file in &files {
            let path = out.join(&file.path);
            lay(file, &path).map_err(at(path))?;
        }
        Ok(files.len())
    }
}

fn lay(Addition { what, .. }: &Addition, path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    match what {
        AdditionKind::Directory => fs::create_dir_all(path),
        AdditionKind::Link(target) => std::os::unix::fs::symlink(target, path),
        AdditionKind::Copy(permissions, from, _) => {
            fs::copy(from, path)?;
            fs::set_permissions(path, fs::Permissions::from_mode(*permissions))
        }
        AdditionKind::File(permissions, content) => {
            let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(*permissions).open(path)?;
            io::Write::write_all(&mut file, content)?;
            // Whatever the user's mask took away.
            file.set_permissions(fs::Permissions::from_mode(*permissions))
        }
    }
}
