//! The operating system of the test machines: busybox in a read-only squashfs, made without privileges.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{HarnessError, io_error};
use crate::process::output;
use crate::run::Run;

/// Mount points of the tree.
const DIRECTORIES: [&str; 12] =
    ["bin", "dev", "etc", "mnt", "proc", "root", "run", "sbin", "sys", "tmp", "usr/bin", "var"];
/// The commands that the test machines' scripts use.
const APPLETS: &str = "[ ash awk base64 basename cat chmod chown chroot cmp cp cut date dd df diff dirname dmesg du \
    echo env expr false find free grep halt head hexdump hostname httpd id ifconfig init ip kill ln ls lsmod md5sum \
    mkdir mknod mktemp mount mountpoint mv nc netstat od poweroff printf ps pwd readlink reboot rm rmdir sed seq sh \
    sha256sum sleep sort stat sync tail tar tee test top touch tr true umount uname uniq wc wget which xargs xxd";

/// Commands of an OS that say what is at `/`, and to which of four directories it can write, unless something that it wrote
/// there in an earlier boot is there still.
pub const SHOW_ROOT: &str = r#"yes= no=
for at in /run / /etc /var; do
    if [ ! -e "$at/trace" ] && echo left > "$at/trace" && [ "$(cat "$at/trace")" = left ]; then
        yes="$yes $at"
    else
        no="$no $at"
    fi
done
echo "OS root is $(awk '$2 == "/" { kind = $3 } END { print kind }' /proc/mounts), writes to$yes and not to$no""#;

/// What `latchkey image build` is given to make a root of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Form {
    /// A finished squashfs.
    #[default]
    Squashfs,
    /// An archive, of which it makes a squashfs.
    Archive,
    /// A directory, of which it makes an erofs.
    DirectoryForErofs,
}

/// A root as an image's configuration names it.
#[derive(Debug, Clone)]
pub(crate) struct Root {
    pub(crate) path: PathBuf,
    /// `root_format` of the configuration, if it says one.
    pub(crate) format: Option<&'static str>,
}

/// A root file system in the making.
#[derive(Debug)]
pub struct RootFs {
    files: Vec<(String, u32, Vec<u8>)>,
    links: Vec<(String, String)>,
}

impl RootFs {
    /// Busybox with its commands, `/sbin/init` among them, and empty directories to mount on.
    pub fn busybox() -> Result<Self, HarnessError> {
        let links = APPLETS.split_whitespace().map(|name| (format!("bin/{name}"), "busybox".to_owned()));
        let init = [("sbin/init".to_owned(), "/bin/busybox".to_owned())];
        Ok(Self { files: vec![("bin/busybox".into(), 0o755, busybox()?)], links: links.chain(init).collect() })
    }

    /// The operating system behind the agent: its init runs stage 2, says with which status it ended
    /// (`OS stage2 STATUS`), and then runs the shell commands `then`.
    pub fn operating_system(agent: Vec<u8>, then: &str) -> Result<Self, HarnessError> {
        let start = format!(
            "#!/bin/sh
# The agent has brought /proc, /sys, /dev and /run along.
mount -t tmpfs tmp /tmp
/usr/bin/latchkey-agent stage2
status=$?
echo OS stage2 $status
# As ExecStopPost= of the unit for systemd: a process that a signal ended has a status above 128.
[ $status -le 128 ] || SERVICE_RESULT=signal /usr/bin/latchkey-agent stage2-ended
{then}
"
        );
        Ok(Self::busybox()?
            .file("/usr/bin/latchkey-agent", 0o755, agent)
            .file("/etc/inittab", 0o644, "::sysinit:/etc/start\n")
            .file("/etc/start", 0o755, start))
    }

    /// Adds a file; parents appear by themselves.
    #[must_use]
    pub fn file(mut self, path: &str, permissions: u32, content: impl Into<Vec<u8>>) -> Self {
        self.files.push((path.trim_start_matches('/').into(), permissions, content.into()));
        self
    }

    /// Adds a symbolic link.
    #[must_use]
    pub fn link(mut self, path: &str, target: &str) -> Self {
        self.links.push((path.trim_start_matches('/').into(), target.into()));
        self
    }

    /// Writes it as `root…` in the run's directory.
    pub(crate) fn write(&self, run: &Run, form: Form) -> Result<Root, HarnessError> {
        let (path, format) = match form {
            Form::Squashfs => (self.build(run, "root.img")?, "squashfs"),
            Form::Archive => (self.archive(run, "root.tar")?, "squashfs"),
            Form::DirectoryForErofs => (self.directory(run, "root.tree")?, "erofs"),
        };
        Ok(Root { path, format: Some(format) })
    }

    fn directory(&self, run: &Run, name: &str) -> Result<PathBuf, HarnessError> {
        let tree = run.subdirectory(name)?;
        self.lay_out(&tree)?;
        Ok(tree)
    }

    fn archive(&self, run: &Run, name: &str) -> Result<PathBuf, HarnessError> {
        let (tree, archive) = (self.directory(run, &format!("{name}.tree"))?, run.file(name));
        let mut command = Command::new(crate::doctor::need("tar")?);
        command.args(["--create", "--owner=0", "--group=0", "--numeric-owner", "--sort=name", "--file"]).arg(&archive);
        output(command.arg("--directory").arg(&tree).arg("."))?;
        std::fs::remove_dir_all(&tree).map_err(io_error("remove", &tree))?;
        Ok(archive)
    }

    /// Writes the squashfs to the file `name` in the run's directory. Equal content gives equal bytes.
    pub fn build(&self, run: &Run, name: &str) -> Result<PathBuf, HarnessError> {
        let mksquashfs = crate::doctor::need("mksquashfs")?;
        let (tree, image) = (self.directory(run, &format!("{name}.tree"))?, run.file(name));
        let mut command = Command::new(mksquashfs);
        command.arg(&tree).arg(&image).args(["-noappend", "-all-root", "-no-xattrs", "-comp", "zstd"]);
        command.args(["-mkfs-time", "0", "-all-time", "0", "-processors", "1", "-quiet", "-no-progress"]);
        // A console for init before devtmpfs is mounted; pseudo files need no privileges.
        command.args(["-p", "dev/console c 600 0 0 5 1"]);
        output(command.env_remove("SOURCE_DATE_EPOCH"))?;
        std::fs::remove_dir_all(&tree).map_err(io_error("remove", &tree))?;
        Ok(image)
    }

    fn lay_out(&self, tree: &Path) -> Result<(), HarnessError> {
        for directory in DIRECTORIES {
            let path = tree.join(directory);
            std::fs::create_dir_all(&path).map_err(io_error("make", &path))?;
        }
        for (name, permissions, content) in &self.files {
            let path = parented(tree, name)?;
            std::fs::write(&path, content).map_err(io_error("write", &path))?;
            let permissions = std::os::unix::fs::PermissionsExt::from_mode(*permissions);
            std::fs::set_permissions(&path, permissions).map_err(io_error("chmod", &path))?;
        }
        for (name, target) in &self.links {
            let path = parented(tree, name)?;
            std::os::unix::fs::symlink(target, &path).map_err(io_error("link", &path))?;
        }
        Ok(())
    }
}

/// The static busybox of this machine.
pub fn busybox() -> Result<Vec<u8>, HarnessError> {
    let path = crate::doctor::need("/bin/busybox")?;
    let bytes = std::fs::read(&path).map_err(io_error("read", &path))?;
    let loader = b"/lib64/ld-linux";
    if bytes.windows(loader.len()).any(|window| window == loader) {
        return Err(HarnessError::MissingTool { tool: "a static busybox".into(), package: "busybox-static".into() });
    }
    Ok(bytes)
}

/// A program of this machine and every library that it loads, by the paths it looks for them at.
pub(crate) fn with_libraries(program: &Path) -> Result<Vec<PathBuf>, HarnessError> {
    let ldd = crate::doctor::need("ldd")?;
    let listing = output(Command::new(ldd).env("LC_ALL", "C").arg(program))?;
    // "libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x…)", and the loader without an arrow.
    let libraries = listing.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from);
    Ok([program.to_owned()].into_iter().chain(libraries).collect())
}

fn parented(tree: &Path, name: &str) -> Result<PathBuf, HarnessError> {
    let path = tree.join(name);
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(io_error("make", parent))?;
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_content_gives_equal_bytes() {
        let run = Run::new("rootfs").unwrap();
        let build = |name: &str| {
            let root = RootFs::busybox().unwrap().file("/etc/inittab", 0o644, "::sysinit:/bin/true\n");
            std::fs::read(root.build(&run, name).unwrap()).unwrap()
        };
        assert_eq!(build("one.img"), build("another.img"));
    }
}
