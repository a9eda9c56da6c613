//! A directory that lasts, and the name of the unit that mounts it.

use std::fmt::Write as _;

/// `PATH_MAX` is 4096, unit names have at most 255 bytes (`UNIT_NAME_MAX`), and a byte may take four of them.
const MAX_LENGTH: usize = 60;
/// These, what is in them and what holds them: file systems of their own, the state disk itself, files that the image adds,
/// or programs and settings that decide what runs or who logs in, which are measured and have to stay so. With `*` at the
/// end, everything whose path begins so.
const TAKEN: [&str; 89] = [
    "/bin",
    "/boot",
    "/dev",
    "/efi",
    "/etc/X11",
    "/etc/acpi",
    "/etc/alternatives",
    "/etc/apparmor*",
    "/etc/apt",
    "/etc/at.*",
    "/etc/audit",
    "/etc/bash*",
    "/etc/binfmt.d",
    "/etc/cloud",
    "/etc/credstore*",
    "/etc/cron*",
    "/etc/crypttab",
    "/etc/dbus-1",
    "/etc/default",
    "/etc/dhcp",
    "/etc/dpkg",
    "/etc/environment*",
    "/etc/extensions",
    "/etc/fstab",
    "/etc/group*",
    "/etc/gshadow*",
    "/etc/init*",
    "/etc/kernel",
    "/etc/ld.so*",
    "/etc/login*",
    "/etc/logrotate*",
    "/etc/machine-id",
    "/etc/mod*",
    "/etc/network",
    "/etc/networkd-dispatcher",
    "/etc/NetworkManager",
    "/etc/nsswitch.conf",
    "/etc/pam*",
    "/etc/passwd*",
    "/etc/polkit-1",
    "/etc/ppp",
    "/etc/profile*",
    "/etc/rc.*",
    "/etc/rc0.d",
    "/etc/rc1.d",
    "/etc/rc2.d",
    "/etc/rc3.d",
    "/etc/rc4.d",
    "/etc/rc5.d",
    "/etc/rc6.d",
    "/etc/rcS.d",
    "/etc/repart.d",
    "/etc/security",
    "/etc/selinux",
    "/etc/shadow*",
    "/etc/shells",
    "/etc/skel",
    "/etc/ssh",
    "/etc/subgid*",
    "/etc/subuid*",
    "/etc/sudo*",
    "/etc/sysconfig",
    "/etc/sysctl*",
    "/etc/sysext*",
    "/etc/systemd",
    "/etc/sysusers.d",
    "/etc/tmpfiles.d",
    "/etc/udev",
    "/etc/update-motd.d",
    "/etc/userdb",
    "/etc/verity.d",
    "/etc/xdg",
    "/etc/xinetd*",
    "/etc/zsh*",
    "/lib*",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/state",
    "/sys",
    "/usr",
    "/var/lib/cloud",
    "/var/lib/confexts*",
    "/var/lib/extensions*",
    "/var/lib/portables",
    "/var/lib/systemd/linger",
    "/var/run",
    "/var/spool/*",
];
/// This, but not what is in it.
const TOO_MUCH: &str = "/tmp";

/// An absolute path of letters, digits, `-`, `_`, `.` and `/`, as plain as can be: no `..`, no `//`, no `/` at its end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StateDirectory(String);

/// Why a directory cannot lie on the state disk.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StateDirectoryError {
    /// Not absolute, not plain, or with characters that units and shells read in their own way.
    #[error("persist: {0:?} is no plain absolute path of at most {MAX_LENGTH} letters, digits, '-', '_', '.' and '/'")]
    Unclear(String),
    /// It is, holds or lies in something that must stay as it was measured, or is a file system of its own.
    #[error("persist: {0:?} holds what is measured or a file system of its own")]
    Taken(String),
    /// One is the other, or lies in it.
    #[error("persist: of {:?} and {:?} the first is enough", .0.path(), .1.path())]
    Nested(StateDirectory, StateDirectory),
    /// More than [`Persist::MOST`](super::Persist::MOST).
    #[error("persist: {0} directories, at most {most} can be", most = super::Persist::MOST)]
    TooMany(usize),
}

impl StateDirectoryError {
    /// What to do, where that is more than to correct what the message names.
    pub fn remedy(&self) -> Option<&'static str> {
        Some(match self {
            Self::Taken(_) => "name the directory in it that must last",
            Self::TooMany(_) => "name a directory that holds several",
            _ => return None,
        })
    }
}

impl StateDirectory {
    /// Checks a path.
    pub fn new(path: &str) -> Result<Self, StateDirectoryError> {
        let clear = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let plain = |name: &str| !name.is_empty() && name.bytes().all(clear) && !matches!(name, "." | "..");
        let names = path.strip_prefix('/').filter(|_| path.len() <= MAX_LENGTH);
        if !names.is_some_and(|names| names.split('/').all(plain)) {
            return Err(StateDirectoryError::Unclear(path.to_owned()));
        }
        let directory = Self(path.to_owned());
        let taken = path == TOO_MUCH || TAKEN.iter().any(|taken| touches(path, taken));
        if taken { Err(StateDirectoryError::Taken(directory.0)) } else { Ok(directory) }
    }

    /// The path.
    pub fn path(&self) -> &str {
        &self.0
    }

    /// Whether `other` is this, or lies in it.
    pub(super) fn contains(&self, other: &Self) -> bool {
        within(&other.0, &self.0)
    }

    /// The unit that mounts it, named as `systemd-escape --path --suffix=mount` would (systemd.unit(5), "String Escaping
    /// for Inclusion in Unit Names"): `/` becomes `-`, anything but letters, digits, `:`, `_` and `.`, and a `.` at the very
    /// beginning, becomes `\x` with two hexadecimal digits.
    pub fn unit(&self) -> String {
        let mut name = String::new();
        for (index, byte) in self.0.bytes().skip(1).enumerate() {
            match byte {
                b'/' => name.push('-'),
                b'.' if index == 0 => name.push_str("\\x2e"),
                b'_' | b'.' => name.push(char::from(byte)),
                byte if byte.is_ascii_alphanumeric() => name.push(char::from(byte)),
                // Writing to a string cannot fail.
                byte => drop(write!(name, "\\x{byte:02x}")),
            }
        }
        name + ".mount"
    }
}

/// Whether a path is, lies in or holds what is taken.
fn touches(path: &str, taken: &str) -> bool {
    match taken.strip_suffix('*') {
        Some(beginning) => path.starts_with(beginning) || within(beginning, path),
        None => within(path, taken) || within(taken, path),
    }
}

fn within(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_named_as_systemd_escapes_paths() {
        // `systemd-escape --path --suffix=mount PATH` of systemd 252.
        for (path, unit) in [
            ("/etc/kubernetes", "etc-kubernetes.mount"),
            ("/etc/cni/net.d", "etc-cni-net.d.mount"),
            ("/var/lib/node-exporter", "var-lib-node\\x2dexporter.mount"),
            ("/.cache/a_b", "\\x2ecache-a_b.mount"),
            ("/srv/.hidden", "srv-.hidden.mount"),
        ] {
            assert_eq!(StateDirectory::new(path).unwrap().unit(), unit);
        }
    }

    #[test]
    fn paths_that_units_and_shells_read_in_their_own_way_are_refused() {
        let long = format!("/{}", "x".repeat(MAX_LENGTH));
        for path in [
            "",
            "/",
            "srv",
            "./srv",
            "/srv/",
            "//srv",
            "/srv//a",
            "/srv/./a",
            "/srv/../etc",
            "/..",
            "/srv/%n",
            "/srv/$HOME",
            "/srv/a b",
            "/srv/a\n[Service]",
            "/srv/a\0",
            "/srv/a~",
            "/srv/a\\x2d",
            "/srv/a:b",
            "/srv/*",
            "/srv/é",
            &long,
        ] {
            assert_eq!(StateDirectory::new(path), Err(StateDirectoryError::Unclear(path.to_owned())), "{path:?}");
        }
    }

    #[test]
    fn what_decides_what_runs_does_not_come_from_the_state_disk() {
        for path in [
            "/etc",
            "/etc/systemd",
            "/etc/systemd/system",
            "/usr/local",
            "/lib64",
            "/run/x",
            "/state/a",
            "/var",
            "/var/lib",
            "/etc/tmpfiles.d",
            "/etc/sysusers.d",
            "/etc/modules-load.d",
            "/etc/modules",
            "/etc/binfmt.d",
            "/etc/sysctl.d",
            "/etc/cron.d",
            "/etc/cron.daily/x",
            "/etc/crontab",
            "/etc/sudoers",
            "/etc/sudoers.d",
            "/etc/security",
            "/etc/profile.d",
            "/etc/ssh",
            "/etc/dbus-1/system.d",
            "/etc/ld.so.conf.d",
            "/etc/ld.so.preload",
            "/etc/rcS.d",
            "/var/spool",
            "/var/spool/cron",
            "/var/spool/cron/crontabs",
            "/var/lib/systemd",
            "/libx32",
            "/libexec",
            "/root/.ssh",
            "/tmp",
        ] {
            assert_eq!(StateDirectory::new(path), Err(StateDirectoryError::Taken(path.to_owned())), "{path}");
        }
        for path in [
            "/etc/kubernetes",
            "/etc/cni/net.d",
            "/etc/rclone",
            "/etc/sshguard",
            "/etcetera",
            "/var/lib/etcd",
            "/var/lib/systemd/timers",
            "/var/log",
            "/tmp/x",
            "/opt/cni",
            "/srv",
        ] {
            assert!(StateDirectory::new(path).is_ok(), "{path}");
        }
    }
}
