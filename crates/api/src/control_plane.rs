//! The files that all control planes of a Kubernetes cluster share: the keys and certificates of its authorities.
//!
//! Whoever has them is the cluster. They travel in [`v1::InitRequest`] and in the tickets of control planes, and nowhere else.

use crate::v1::{self, ControlPlaneFile};

/// Their names, relative to kubeadm's directory for certificates. Source: Kubernetes, "Creating Highly Available Clusters with
/// kubeadm", manual certificate distribution; no other is written or sent.
pub const NAMES: [&str; 8] =
    ["ca.crt", "ca.key", "sa.key", "sa.pub", "front-proxy-ca.crt", "front-proxy-ca.key", "etcd/ca.crt", "etcd/ca.key"];

/// The largest file, in bytes: the largest certificates and keys are some KiB.
pub const MAX_FILE: usize = 16 * 1024;

/// All of them in the list's order, each once and of a possible length. They are wiped when they are dropped.
#[derive(Clone, PartialEq)]
pub struct ControlPlaneFiles(Vec<ControlPlaneFile>);

/// Why some files are not what control planes share.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilesError {
    /// A name that is not on the list.
    #[error("a file has a name that is not on the list")]
    Unknown,
    /// Two files of one name.
    #[error("{0:?} is there twice")]
    Twice(&'static str),
    /// An empty file, or one that is too long.
    #[error("{0:?} has {1} bytes; expected 1 to {2}")]
    Length(&'static str, usize, usize),
    /// Without one of a control plane's files kubeadm would make its own, and so another cluster.
    #[error("{0:?} is missing, which a control plane needs")]
    Missing(&'static str),
}

impl ControlPlaneFiles {
    /// Checks that they are complete.
    ///
    /// # Errors
    /// [`FilesError`].
    pub fn new(files: Vec<ControlPlaneFile>) -> Result<Self, FilesError> {
        complete(files, &NAMES, MAX_FILE).map(Self)
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

/// The files in the order of a closed list, if each of it is there once and has a possible length.
pub(crate) fn complete(
    mut files: Vec<ControlPlaneFile>,
    names: &'static [&'static str],
    longest: usize,
) -> Result<Vec<ControlPlaneFile>, FilesError> {
    for (at, file) in files.iter().enumerate() {
        let Some(name) = names.iter().find(|name| **name == file.name) else { return Err(FilesError::Unknown) };
        if files.iter().take(at).any(|earlier| earlier.name == *name) {
            return Err(FilesError::Twice(name));
        }
        if file.data.is_empty() || file.data.len() > longest {
            return Err(FilesError::Length(name, file.data.len(), longest));
        }
    }
    if let Some(missing) = names.iter().find(|name| !files.iter().any(|file| file.name == **name)) {
        return Err(FilesError::Missing(missing));
    }
    files.sort_by_key(|file| names.iter().position(|name| *name == file.name));
    Ok(files)
}

/// Nothing of the content is shown.
impl std::fmt::Debug for ControlPlaneFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ControlPlaneFiles(..)")
    }
}

/// One file.
pub fn file(name: &str, data: Vec<u8>) -> ControlPlaneFile {
    v1::ControlPlaneFile { name: name.to_owned(), data }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<ControlPlaneFile> {
        NAMES.into_iter().map(|name| file(name, b"hush".to_vec())).collect()
    }

    #[test]
    fn all_of_them_once_are_taken_and_shown_to_nobody() {
        let files = ControlPlaneFiles::new(all()).unwrap();
        assert_eq!(files.iter().count(), NAMES.len());
        assert!(!format!("{files:?} {:?}", files.to_messages()).contains("hush"));
    }

    #[test]
    fn a_missing_a_doubled_an_unknown_an_empty_and_a_huge_file_are_refused_by_name() {
        for (at, name) in NAMES.into_iter().enumerate() {
            let mut files = all();
            files.remove(at);
            assert_eq!(ControlPlaneFiles::new(files).unwrap_err(), FilesError::Missing(name));
            for length in [0, MAX_FILE + 1] {
                let mut files = all();
                files[at].data = vec![0; length];
                assert_eq!(ControlPlaneFiles::new(files).unwrap_err(), FilesError::Length(name, length, MAX_FILE));
            }
        }
        let doubled = [all(), vec![file("sa.key", b"other".to_vec())]].concat();
        assert_eq!(ControlPlaneFiles::new(doubled).unwrap_err(), FilesError::Twice("sa.key"));
        for name in ["../ca.key", "/etc/shadow", "ca.key\0", "CA.key", ""] {
            let unknown = [all(), vec![file(name, b"x".to_vec())]].concat();
            assert_eq!(ControlPlaneFiles::new(unknown).unwrap_err(), FilesError::Unknown);
        }
        assert_eq!(ControlPlaneFiles::new(Vec::new()).unwrap_err(), FilesError::Missing("ca.crt"));
    }
}
