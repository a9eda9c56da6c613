//! What a root that systemd runs needs to be the operating system of a node: stage 2 of the agent as a unit, the file system
//! on the state disk with what must last, and an end to units that would measure, mount, ask or open shells on their own.
//!
//! [`Systemd`] is what the configuration asks for; [`Systemd::files`] are the files that follow from it, the same for equal
//! inputs. [`Systemd::write`] puts them into a directory, for roots that somebody else builds.

mod additions;
mod masks;
mod state_directory;
mod write;

use serde::Deserialize;

pub use additions::{Addition, AdditionKind};
pub use state_directory::{StateDirectory, StateDirectoryError};

/// What the image brings for systemd.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Systemd {
    /// Whether the root has the files already, because somebody else builds it [no]; see [`write`](Self::write).
    #[serde(default)]
    pub in_root: bool,
    /// The file system on the state disk [none: what opens `/dev/mapper/state` is the operator's].
    pub state: Option<State>,
}

/// The state disk's file system, mounted at `/state`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Which [ext4]. The root brings its `mkfs` and `fsck`.
    #[serde(default)]
    pub file_system: FileSystem,
    /// Directories that last from boot to boot [those of kubeadm, the kubelet, etcd and containerd].
    #[serde(default)]
    pub persist: Persist,
}

/// A file system for the state disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileSystem {
    /// `mkfs.ext4` is in Debian's e2fsprogs.
    #[default]
    Ext4,
    /// `mkfs.xfs` is in Debian's xfsprogs.
    Xfs,
}

impl FileSystem {
    /// As mount(8) and the kernel's module call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
        }
    }
}

/// Directories of the root that lie on the state disk: none twice, none in another, at most [`Persist::MOST`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub struct Persist(Vec<StateDirectory>);

impl Persist {
    /// Far more than a Kubernetes node needs; each is a mount.
    pub const MOST: usize = 32;
    /// What a node that kubeadm set up keeps: certificates and manifests, the kubelet's state, etcd's data, images and
    /// containers, the network's configuration.
    const KUBEADM: [&str; 5] =
        ["/etc/cni/net.d", "/etc/kubernetes", "/var/lib/containerd", "/var/lib/etcd", "/var/lib/kubelet"];

    /// Checks the directories, and sorts them: their order means nothing.
    pub fn new<T: AsRef<str>>(paths: &[T]) -> Result<Self, StateDirectoryError> {
        if paths.len() > Self::MOST {
            return Err(StateDirectoryError::TooMany(paths.len()));
        }
        let mut directories =
            paths.iter().map(|path| StateDirectory::new(path.as_ref())).collect::<Result<Vec<_>, _>>()?;
        directories.sort();
        for (index, directory) in directories.iter().enumerate() {
            let inside = |other: &&StateDirectory| directory.contains(other);
            if let Some(other) = directories.iter().skip(index + 1).find(inside) {
                return Err(StateDirectoryError::Nested(directory.clone(), other.clone()));
            }
        }
        Ok(Self(directories))
    }

    /// These and those; what lasts with another is not named twice.
    pub fn and(&self, paths: &[&str]) -> Result<Self, StateDirectoryError> {
        let mut all: Vec<&str> = self.0.iter().map(StateDirectory::path).collect();
        for path in paths {
            let directory = StateDirectory::new(path)?;
            if !self.0.iter().any(|lasting| lasting.contains(&directory)) {
                all.push(path);
            }
        }
        Self::new(&all)
    }

    /// The directories, sorted.
    pub fn directories(&self) -> &[StateDirectory] {
        &self.0
    }
}

impl Default for Persist {
    fn default() -> Self {
        Self(Self::KUBEADM.iter().filter_map(|path| StateDirectory::new(path).ok()).collect())
    }
}

impl TryFrom<Vec<String>> for Persist {
    type Error = StateDirectoryError;

    fn try_from(paths: Vec<String>) -> Result<Self, StateDirectoryError> {
        Self::new(&paths)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_what_kubeadm_needs_and_passes_its_own_check() {
        let state: State = serde_json::from_str("{}").unwrap();
        assert_eq!(state.file_system, FileSystem::Ext4);
        assert_eq!(state.persist, Persist::new(&Persist::KUBEADM).unwrap());
        assert_eq!(state.persist.directories().len(), Persist::KUBEADM.len());
        assert_eq!(serde_json::from_str::<Systemd>("{}").unwrap(), Systemd { in_root: false, state: None });
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for text in [
            r#"{"stat": {}}"#,
            r#"{"state": {"file_system": "vfat"}}"#,
            r#"{"state": {"persist": "/etc/kubernetes"}}"#,
            r#"{"state": {"options": "suid"}}"#,
        ] {
            assert!(serde_json::from_str::<Systemd>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn directories_twice_in_each_other_or_without_end_are_refused() {
        for (paths, said) in [
            (vec!["/srv", "/srv"], "\"/srv\" and \"/srv\""),
            (vec!["/srv/data/a", "/opt", "/srv/data"], "\"/srv/data\" and \"/srv/data/a\""),
        ] {
            let error = Persist::new(&paths).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        assert!(Persist::new(&["/srv/data", "/srv/data-1", "/srv/data.1"]).is_ok());
        let many: Vec<String> = (0..=Persist::MOST).map(|number| format!("/srv/{number}")).collect();
        assert!(matches!(Persist::new(&many), Err(StateDirectoryError::TooMany(33))));
        assert!(Persist::new(many.split_last().unwrap().1).is_ok());
    }
}
