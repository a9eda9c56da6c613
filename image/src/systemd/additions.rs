//! The files, directories and links that are added to a root.

use std::path::PathBuf;

use super::masks::{GENERATORS, UNITS};
use super::{State, StateDirectory, Systemd};

const SYSTEM: &str = "usr/lib/systemd/system";
const AGENT_SERVICE: &str = include_str!("../../systemd/latchkey-agent.service");
const FILE_SYSTEM_SERVICE: &str = include_str!("../../systemd/latchkey-state-file-system.service");
const FILE_SYSTEM: &str = include_str!("../../systemd/state-file-system");
const DIRECTORIES_SERVICE: &str = include_str!("../../systemd/latchkey-state-directories.service");
const DIRECTORIES: &str = include_str!("../../systemd/state-directories");
const FAILED_SERVICE: &str = include_str!("../../systemd/latchkey-state-failed.service");
const LOGIND: &str = include_str!("../../systemd/logind.conf");
const SLEEP: &str = include_str!("../../systemd/sleep.conf");
const RULES: &str = include_str!("../../systemd/99-z-latchkey-state.rules");

/// One thing that is added to a root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addition {
    /// Without a slash at the beginning; letters, digits and `-_.@\` only.
    pub path: String,
    /// What lies there.
    pub what: AdditionKind,
}

/// What lies at a path; owner and group are root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdditionKind {
    /// A file: permissions and content.
    File(u32, Vec<u8>),
    /// The same, its content in this file, which has so many bytes.
    Copy(u32, PathBuf, u64),
    /// A symbolic link to this.
    Link(String),
    /// A directory, mode 0755 unless the root has it.
    Directory,
}

impl Systemd {
    /// What is added to the root: nothing to one that has it already.
    pub(crate) fn additions(&self, agent: &[u8]) -> Vec<Addition> {
        if self.in_root { Vec::new() } else { self.files(agent) }
    }

    /// What a root needs, sorted by path.
    pub fn files(&self, agent: &[u8]) -> Vec<Addition> {
        let mut additions = vec![
            file("usr/bin/latchkey-agent", 0o755, agent),
            unit("latchkey-agent.service", AGENT_SERVICE),
            wanted("multi-user.target.wants", "latchkey-agent.service"),
            // Empty: systemd makes one in memory. One for all nodes would make them one for DHCP servers and logs, and none
            // makes each boot a first one, with every unit enabled that the vendor would have.
            file("etc/machine-id", 0o444, b""),
            file("etc/systemd/logind.conf.d/zz-latchkey.conf", 0o644, LOGIND.as_bytes()),
            file("etc/systemd/sleep.conf.d/zz-latchkey.conf", 0o644, SLEEP.as_bytes()),
        ];
        additions.extend(UNITS.iter().map(|name| masked("etc/systemd/system", name)));
        additions.extend(GENERATORS.iter().map(|name| masked("etc/systemd/system-generators", name)));
        if let Some(state) = &self.state {
            state.add_to(&mut additions);
        }
        additions.sort_by(|one, other| one.path.cmp(&other.path));
        additions
    }
}

impl State {
    fn add_to(&self, additions: &mut Vec<Addition>) {
        let directories: Vec<&str> = self.persist.directories().iter().map(StateDirectory::path).collect();
        let directories = directories.join(" ");
        let mounts = if directories.is_empty() { "/state".to_owned() } else { format!("/state {directories}") };
        let needs = format!("# Not without the state disk.\n[Unit]\nRequiresMountsFor={mounts}\n");
        additions.extend([
            directory("/state"),
            unit("state.mount", &self.mount()),
            wanted("local-fs.target.requires", "state.mount"),
            unit("latchkey-state-failed.service", FAILED_SERVICE),
            unit("latchkey-agent.service.d/state.conf", &needs),
            unit(
                "latchkey-state-file-system.service",
                &FILE_SYSTEM_SERVICE.replace("@FILE_SYSTEM@", self.file_system.name()),
            ),
            file("usr/lib/latchkey/state-file-system", 0o755, FILE_SYSTEM.as_bytes()),
            file("usr/lib/udev/rules.d/99-z-latchkey-state.rules", 0o644, RULES.as_bytes()),
        ]);
        if directories.is_empty() {
            return;
        }
        additions.extend([
            unit("latchkey-state-directories.service", &DIRECTORIES_SERVICE.replace("@DIRECTORIES@", &directories)),
            file("usr/lib/latchkey/state-directories", 0o755, DIRECTORIES.as_bytes()),
        ]);
        for lasting in self.persist.directories() {
            additions.extend([
                directory(lasting.path()),
                unit(&lasting.unit(), &bind(lasting.path())),
                wanted("local-fs.target.requires", &lasting.unit()),
            ]);
        }
    }

    fn mount(&self) -> String {
        format!(
            "# The state disk: encrypted, opened by the agent before systemd runs.
[Unit]
Description=State disk
Requires=latchkey-state-file-system.service
After=latchkey-state-file-system.service
OnFailure=latchkey-state-failed.service

[Mount]
What=/dev/mapper/state
Where=/state
Type={}
Options=nodev,nosuid
TimeoutSec=10min
",
            self.file_system.name()
        )
    }
}

fn bind(path: &str) -> String {
    format!(
        "# A directory of the state disk, over that of the root.
[Unit]
Description={path} on the state disk
Requires=latchkey-state-directories.service
After=latchkey-state-directories.service
OnFailure=latchkey-state-failed.service

[Mount]
What=/state{path}
Where={path}
Type=none
Options=bind
"
    )
}

fn file(path: &str, permissions: u32, content: &[u8]) -> Addition {
    Addition { path: path.to_owned(), what: AdditionKind::File(permissions, content.to_vec()) }
}

fn directory(path: &str) -> Addition {
    Addition { path: path.trim_start_matches('/').to_owned(), what: AdditionKind::Directory }
}

fn unit(name: &str, text: &str) -> Addition {
    file(&format!("{SYSTEM}/{name}"), 0o644, text.as_bytes())
}

/// As `systemctl enable` would link it, were this not the image's own decision.
fn wanted(by: &str, name: &str) -> Addition {
    Addition { path: format!("{SYSTEM}/{by}/{name}"), what: AdditionKind::Link(format!("../{name}")) }
}

fn masked(directory: &str, name: &str) -> Addition {
    Addition { path: format!("{directory}/{name}"), what: AdditionKind::Link("/dev/null".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::systemd::Persist;

    fn additions(persist: &[&str]) -> Vec<Addition> {
        let state = State { file_system: crate::systemd::FileSystem::Xfs, persist: Persist::new(persist).unwrap() };
        Systemd { in_root: false, state: Some(state) }.additions(b"agent")
    }

    fn content(additions: &[Addition], path: &str) -> String {
        let addition = additions.iter().find(|addition| addition.path == path).unwrap();
        match &addition.what {
            AdditionKind::File(_, content) => String::from_utf8(content.clone()).unwrap(),
            AdditionKind::Copy(_, path, _) => format!("= {}", path.display()),
            AdditionKind::Link(target) => format!("-> {target}"),
            AdditionKind::Directory => "/".into(),
        }
    }

    #[test]
    fn each_path_is_there_once_and_in_whatever_order_directories_are_named() {
        let one = additions(&["/srv/a-b", "/etc/kubernetes"]);
        assert_eq!(one, additions(&["/etc/kubernetes", "/srv/a-b"]));
        assert!(one.windows(2).all(|pair| pair[0].path < pair[1].path));
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@\\/".contains(&byte);
        assert!(one.iter().all(|addition| addition.path.bytes().all(plain)));
    }

    #[test]
    fn units_name_the_file_system_and_the_directories() {
        let additions = additions(&["/srv/a-b"]);
        let unit = |name: &str| content(&additions, &format!("{SYSTEM}/{name}"));
        assert!(unit("state.mount").contains("\nType=xfs\n"));
        assert!(unit("latchkey-state-file-system.service").contains("/state-file-system xfs\n"));
        assert!(unit("latchkey-state-directories.service").contains("/state-directories /srv/a-b\n"));
        assert!(unit("srv-a\\x2db.mount").contains("\nWhat=/state/srv/a-b\nWhere=/srv/a-b\n"));
        assert_eq!(unit("local-fs.target.requires/srv-a\\x2db.mount"), "-> ../srv-a\\x2db.mount");
        assert!(unit("latchkey-agent.service.d/state.conf").ends_with("\nRequiresMountsFor=/state /srv/a-b\n"));
        assert_eq!(content(&additions, "srv/a-b"), "/");
        let placeholders = additions.iter().filter(|one| content(&additions, &one.path).contains("@F"));
        assert_eq!(placeholders.count(), 0);
    }

    #[test]
    fn without_directories_that_last_only_the_disk_is_needed() {
        let text = content(&additions(&[]), &format!("{SYSTEM}/latchkey-agent.service.d/state.conf"));
        assert!(text.ends_with("\nRequiresMountsFor=/state\n"), "{text:?}");
    }

    #[test]
    fn no_directory_that_lasts_is_holds_or_lies_in_a_file_that_is_added() {
        for addition in additions(&["/srv/a-b"]).iter().filter(|addition| addition.what != AdditionKind::Directory) {
            let path = format!("/{}", addition.path);
            let holds = path.match_indices('/').skip(1).map(|(end, _)| path[..end].to_owned());
            for path in holds.chain([path.clone(), format!("{path}/x")]) {
                assert!(StateDirectory::new(&path).is_err(), "{path}");
            }
        }
    }

    #[test]
    fn without_a_state_there_are_only_the_agent_and_the_masks() {
        let additions = Systemd { in_root: false, state: None }.additions(b"agent");
        assert_eq!(content(&additions, "usr/bin/latchkey-agent"), "agent");
        assert_eq!(content(&additions, "etc/machine-id"), "");
        assert_eq!(content(&additions, "etc/systemd/system/systemd-pcrmachine.service"), "-> /dev/null");
        assert!(!additions.iter().any(|addition| addition.path.contains("state")));
        // Nor anything at all, where somebody else has put them into the root.
        let there = Systemd { in_root: true, state: None };
        assert!(there.additions(b"agent").is_empty() && there.files(b"agent") == additions);
    }
}
