//! File systems: those of the kernel, and the root of the operating system.

use std::io;
use std::path::Path;

use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};

use super::pid1::Pid1;
use latchkey_node_config::RootFs;
use latchkey_reason::reason_codes;

/// Where the operating system's root is mounted before it becomes `/`.
pub const NEW_ROOT: &str = "/sysroot";
/// Where configfs belongs.
pub const CONFIGFS: &str = "/sys/kernel/config";

struct KernelFs {
    kind: &'static str,
    target: &'static str,
    flags: MountFlags,
    data: Option<&'static std::ffi::CStr>,
    /// Without an optional one the boot goes on.
    optional: bool,
}

const NO_PROGRAMS: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);

/// In the order they are mounted: the last lies on the second.
const KERNEL_FILE_SYSTEMS: [KernelFs; 5] = [
    KernelFs { kind: "proc", target: "/proc", flags: NO_PROGRAMS, data: None, optional: false },
    KernelFs { kind: "sysfs", target: "/sys", flags: NO_PROGRAMS, data: None, optional: false },
    KernelFs {
        kind: "devtmpfs",
        target: "/dev",
        flags: MountFlags::NOSUID.union(MountFlags::NOEXEC),
        data: Some(c"mode=0755"),
        optional: false,
    },
    KernelFs { kind: "tmpfs", target: "/run", flags: NO_PROGRAMS, data: Some(c"mode=0755"), optional: false },
    // Only the event log of the firmware is there; evidence can do without.
    KernelFs { kind: "securityfs", target: "/sys/kernel/security", flags: NO_PROGRAMS, data: None, optional: true },
];

/// Mounts the file systems of the kernel: `/proc`, `/sys`, `/dev`, `/run`, and securityfs where the kernel has it.
/// Those that are mounted already are left as they are.
pub fn kernel_file_systems(_: Pid1) -> Result<(), MountError> {
    for fs in &KERNEL_FILE_SYSTEMS {
        let mounted = make_directory(Path::new(fs.target)).and_then(|()| {
            match mount(fs.kind, fs.target, fs.kind, fs.flags, fs.data) {
                Ok(()) | Err(Errno::BUSY) => Ok(()),
                Err(error) => Err(error.into()),
            }
        });
        match mounted {
            Err(source) if !fs.optional => return Err(MountError::Kernel { target: fs.target, source }),
            _ => {}
        }
    }
    Ok(())
}

/// Mounts configfs, which is there when a module of the kernel has brought it. Only a confidential machine's reports are in it: who asks
/// for one is told if it is not there.
pub fn configfs(_: Pid1) {
    let _ = mount("configfs", CONFIGFS, "configfs", NO_PROGRAMS, None);
}

/// Mounts the operating system's root file system, read-only and without device files.
pub(super) fn root(_: Pid1, device: &Path, place: &str, fs: RootFs) -> Result<(), MountError> {
    let failed = |source| MountError::Root { device: device.display().to_string(), fs, source };
    make_directory(Path::new(place)).map_err(failed)?;
    mount(device, place, fs.name(), MountFlags::RDONLY | MountFlags::NODEV, None).map_err(|e| failed(e.into()))
}

/// Directories of the initramfs may be there already.
fn make_directory(path: &Path) -> io::Result<()> {
    match std::fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// A file system or the console is not there.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// A file system of the kernel could not be mounted.
    #[error("{target} cannot be mounted ({source})")]
    Kernel {
        /// Where it belongs.
        target: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// `/dev/console` could not be opened.
    #[error("/dev/console cannot be opened ({source})")]
    Console {
        /// What the kernel said.
        source: io::Error,
    },
    /// The root file system could not be mounted.
    #[error("{device} cannot be mounted as {} ({source})", .fs.name())]
    Root {
        /// The block device.
        device: String,
        /// What was expected on it.
        fs: RootFs,
        /// What the kernel said.
        source: io::Error,
    },
}

reason_codes! {
    /// A file system or the console is not there.
    pub enum MountCode {
        /// A file system of the kernel could not be mounted.
        Kernel = "mount-failed":
            "boot a kernel that has this file system built in";
        /// `/dev/console` could not be opened.
        Console = "console-missing":
            "name a console on the kernel command line, console=ttyS0";
        /// The root file system could not be mounted.
        Root = "root-mount-failed":
            "check latchkey.root_fs, and that the initramfs has the module of this file system";
    }
}

impl MountError {
    /// What the kernel said.
    pub fn source(&self) -> &io::Error {
        match self {
            Self::Kernel { source, .. } | Self::Console { source } | Self::Root { source, .. } => source,
        }
    }

    /// The stable reason code.
    pub fn code(&self) -> MountCode {
        match self {
            Self::Kernel { .. } => MountCode::Kernel,
            Self::Console { .. } => MountCode::Console,
            Self::Root { .. } => MountCode::Root,
        }
    }
}
