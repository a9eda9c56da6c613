//! The files of join and key service on the control planes of a cluster: the master secret and the join service's key among them.
//!
//! Whoever has them has every disk key of the cluster. They travel in [`v1::ClusterSettings`](crate::v1::ClusterSettings) of the first
//! machine and in the tickets of further control planes, and lie on their encrypted state disks.

use crate::control_plane::{FilesError, complete};
use crate::v1::ControlPlaneFile;

/// The one that every key of the cluster comes from.
pub const MASTER_SECRET: &str = "master.json";

/// Their names below `/etc/latchkey`; no other is written or sent. The services' units in an image hand over the same ones.
pub const NAMES: [&str; 9] = [
    "identity.key",
    MASTER_SECRET,
    "control-plane.json",
    "join-service.kubeconfig",
    "key-service-ca.pem",
    "key-service.pem",
    "key-service.key",
    "key-client.pem",
    "key-client.key",
];

/// The largest file, in bytes: `control-plane.json` with RSA keys of 4096 bits is shorter.
pub const MAX_FILE: usize = 32 * 1024;

/// All of them in the list's order, each once and of a possible length. They are wiped when they are dropped.
#[derive(Clone, PartialEq)]
pub struct ServiceFiles(Vec<ControlPlaneFile>);

impl ServiceFiles {
    /// Checks that they are complete.
    ///
    /// # Errors
    /// [`FilesError`].
    pub fn new(files: Vec<ControlPlaneFile>) -> Result<Self, FilesError> {
        complete(files, &NAMES, MAX_FILE).map(Self)
    }

    /// The same of a message, where none at all says that the services are elsewhere.
    ///
    /// # Errors
    /// [`FilesError`].
    pub fn if_any(files: &[ControlPlaneFile]) -> Result<Option<Self>, FilesError> {
        if files.is_empty() { Ok(None) } else { Self::new(files.to_vec()).map(Some) }
    }

    /// Name and content of each.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|file| (&*file.name, &*file.data))
    }

    /// A copy for a message.
    pub fn to_messages(&self) -> Vec<ControlPlaneFile> {
        self.0.clone()
    }
}

/// Nothing of the content is shown.
impl std::fmt::Debug for ServiceFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServiceFiles(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_plane::file;

    fn all() -> Vec<ControlPlaneFile> {
        NAMES.into_iter().map(|name| file(name, b"hush".to_vec())).collect()
    }

    #[test]
    fn all_of_them_or_none_are_taken_and_shown_to_nobody() {
        let files = ServiceFiles::if_any(&all()).unwrap().unwrap();
        assert_eq!(files.iter().map(|(name, _)| name).collect::<Vec<_>>(), NAMES);
        assert!(!format!("{files:?} {:?}", files.to_messages()).contains("hush"));
        assert!(ServiceFiles::if_any(&[]).unwrap().is_none());
    }

    #[test]
    fn some_of_them_unknown_ones_and_huge_ones_are_refused_by_name() {
        for (at, name) in NAMES.into_iter().enumerate() {
            let mut files = all();
            files.remove(at);
            assert_eq!(ServiceFiles::if_any(&files).unwrap_err(), FilesError::Missing(name));
            let mut files = all();
            files[at].data = vec![0; MAX_FILE + 1];
            assert_eq!(ServiceFiles::new(files).unwrap_err(), FilesError::Length(name, MAX_FILE + 1, MAX_FILE));
            assert!(!name.contains('/') && !name.starts_with('.'), "{name}");
        }
        for name in ["../identity.key", "ca.key", ""] {
            let unknown = [all(), vec![file(name, b"x".to_vec())]].concat();
            assert_eq!(ServiceFiles::new(unknown).unwrap_err(), FilesError::Unknown);
        }
    }
}
