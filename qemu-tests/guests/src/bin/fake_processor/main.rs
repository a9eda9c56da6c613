//! A fake: the kernel's interfaces to a confidential machine's processor, in front of the agent that is appended to this program.
//!
//! As process 1 it starts itself once more, as the server of what the host names (`fw_cfg`), and then becomes the agent. So one measured
//! image is any guest; if the host names nothing, it is none.
//!
//! | the host's file `opt/latchkey-test/…` | what there is then |
//! |---|---|
//! | `sev-guest` | `/dev/sev-guest` ([`device`]) |
//! | `tsm/sev_guest`, `tsm/tdx_guest` | configfs-tsm with this provider ([`tree`]) |

mod chip;
mod device;
mod message;
mod tree;

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::mount::{MountFlags, mount};

use chip::{Chip, Vendor};

const FILES: &str = "/sys/firmware/qemu_fw_cfg/by_name/opt/latchkey-test";
const MODULES: &str = "/lib/modules";
const AGENT: &str = "/agent";
/// Above it a directory can be made only in a file system of our own.
const KERNEL: &str = "/sys/kernel";
const CONFIGFS: &str = "/sys/kernel/config";

/// What the host may name: its file, whose chip is in it, and what serves it.
const INTERFACES: [(&str, Vendor, Interface); 3] = [
    ("sev-guest", Vendor::Amd, Interface::Device),
    ("tsm/sev_guest", Vendor::Amd, Interface::Tree("sev_guest")),
    ("tsm/tdx_guest", Vendor::Intel, Interface::Tree("tdx_guest")),
];

enum Interface {
    Device,
    /// With this provider.
    Tree(&'static str),
}

fn main() -> io::Result<()> {
    if let Some(name) = std::env::args().nth(1) {
        let known = INTERFACES.into_iter().find(|(known, ..)| *known == name);
        let (name, vendor, interface) = known.ok_or_else(|| io::Error::other("no such interface"))?;
        let chip = Chip::parse(vendor, &fs::read(file(name))?)?;
        return match interface {
            Interface::Device => device::serve(&chip),
            Interface::Tree(provider) => tree::serve(&chip, provider),
        };
    }
    for (kind, place) in [("devtmpfs", "/dev"), ("sysfs", "/sys")] {
        let _ = fs::create_dir(place);
        mount(kind, place, kind, MountFlags::empty(), None)?;
    }
    load_modules()?;
    if let Some((name, _, interface)) = INTERFACES.into_iter().find(|(name, ..)| Path::new(&file(name)).exists()) {
        let mut server = Command::new("/init");
        server.arg(name);
        match interface {
            Interface::Device => start_device(&mut server)?,
            Interface::Tree(_) => start_tree(&mut server)?,
        }
    }
    fs::write(AGENT, appended(&fs::read("/init")?)?)?;
    fs::set_permissions(AGENT, fs::Permissions::from_mode(0o755))?;
    Err(Command::new(AGENT).exec())
}

fn file(name: &str) -> String {
    format!("{FILES}/{name}/raw")
}

/// Starts the server of the device, and waits until the device is there.
fn start_device(server: &mut Command) -> io::Result<()> {
    let mut server = server.stdout(Stdio::piped()).spawn()?;
    let ready = server.stdout.as_mut().map(|output| output.read_exact(&mut [0]));
    ready.unwrap_or_else(|| Err(io::ErrorKind::BrokenPipe.into()))
}

/// Mounts the tree where configfs belongs, and starts its server; until that serves, whoever looks at it waits.
///
/// The image's kernel has configfs as a module that the image is without: sysfs has no directory for it, and what the agent would mount
/// there it does not know.
fn start_tree(server: &mut Command) -> io::Result<()> {
    mount("tmpfs", KERNEL, "tmpfs", MountFlags::empty(), None)?;
    fs::create_dir(CONFIGFS)?;
    let kernel = File::options().read(true).write(true).open("/dev/fuse")?;
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", kernel.as_raw_fd());
    mount("fake-tsm", CONFIGFS, "fuse", MountFlags::empty(), Some(CString::new(options)?.as_c_str()))?;
    server.stdin(kernel).spawn().map(drop)
}

/// What follows this program in its own file; the last eight bytes say how long it is.
fn appended(whole: &[u8]) -> io::Result<&[u8]> {
    let missing = || io::Error::other("no agent is appended");
    let (rest, length) = whole.split_last_chunk().ok_or_else(missing)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok().filter(|length| *length <= rest.len());
    length.and_then(|length| rest.get(rest.len() - length..)).ok_or_else(missing)
}

/// Those of the image's list that are needed here.
fn load_modules() -> io::Result<()> {
    let list = fs::read_to_string(format!("{MODULES}/order"))?;
    for path in list.lines().map(|line| line.trim_start_matches('?')) {
        if ["fuse.ko", "cuse.ko", "qemu_fw_cfg.ko"].iter().any(|name| Path::new(path).ends_with(name)) {
            match rustix::system::finit_module(File::open(format!("{MODULES}/{path}"))?, c"", 0) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}
