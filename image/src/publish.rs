//! Puts finished files where they are handed out, so that a signed manifest never stands beside another image.
//!
//! A crash between any two steps leaves, beside whatever disk there is, no manifest, an unsigned one, or a signed one of
//! just this disk: what says something about the files that will be replaced goes first, the signature before the
//! manifest; it comes last, the manifest before the signature.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use latchkey_durable_file::{place, remove};

use crate::error::{ImageError, at};
use crate::manifest::{FILE as MANIFEST, SIGNATURE};

/// Endings of the files that a build may hand out under its image's name and version.
const ENDINGS: [&str; 9] = ["raw", "efi", "qcow2", "vhd", "tar.gz", "PK.esl", "KEK.esl", "db.esl", "vars.fd"];
/// As large as readers of manifests take one.
const MAX_MANIFEST: u64 = 1 << 20;

/// What is handed out, and where.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HandOut<'a> {
    /// Where the finished files lie.
    pub(crate) from: &'a Path,
    /// Where they go.
    pub(crate) to: &'a Path,
    /// `NAME_VERSION`
    pub(crate) stem: &'a str,
    /// Their names.
    pub(crate) names: &'a [&'a str],
}

/// One change that is there as a whole or not at all, and durable.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Remove(PathBuf),
    Place(PathBuf, PathBuf),
}

impl HandOut<'_> {
    /// Takes every step.
    pub(crate) fn run(self) -> Result<(), ImageError> {
        self.steps()?.iter().try_for_each(Step::take)
    }

    fn steps(self) -> Result<Vec<Step>, ImageError> {
        let mut steps = Vec::new();
        let kept = |name: &str| self.names.contains(&name);
        let manifest = self.to.join(MANIFEST);
        let mut begone = |path: PathBuf| {
            if fs::symlink_metadata(&path).is_ok() {
                steps.push(Step::Remove(path));
            }
        };
        // A manifest of other images stays, if this build makes none.
        if kept(MANIFEST) || is_of(&manifest, self.stem).map_err(at(&manifest))? {
            begone(self.to.join(SIGNATURE));
            begone(manifest);
        }
        let stale = ENDINGS.map(|ending| format!("{}.{ending}", self.stem));
        stale.iter().filter(|name| !kept(name)).for_each(|name| begone(self.to.join(name)));
        let last = [MANIFEST, SIGNATURE];
        let images = self.names.iter().filter(|name| !last.contains(*name));
        let manifest = last.iter().filter(|name| kept(name));
        steps.extend(images.chain(manifest).map(|name| Step::Place(self.from.join(name), self.to.join(name))));
        Ok(steps)
    }
}

impl Step {
    fn take(&self) -> Result<(), ImageError> {
        let (path, taken) = match self {
            Self::Remove(path) => (path, remove(path).map(drop)),
            Self::Place(from, to) => (to, place(from, to)),
        };
        taken.map_err(at(path))
    }
}

/// Whether the manifest names a disk or a boot file of this image. Its form does not matter: an older program's counts too.
fn is_of(manifest: &Path, stem: &str) -> io::Result<bool> {
    let mut text = Vec::new();
    match File::open(manifest) {
        Ok(file) => file.take(MAX_MANIFEST).read_to_end(&mut text)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let names = ["raw", "efi"].map(|ending| format!("\"{stem}.{ending}\""));
    Ok(names.iter().any(|name| text.windows(name.len()).any(|window| window == name.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const OLD: [&str; 5] = ["edge_1.0.0.raw", "edge_1.0.0.efi", "edge_1.0.0.qcow2", MANIFEST, SIGNATURE];
    const FOREIGN: [&str; 4] = ["edge_1.0.0.raw.bak", "edge_1.0.1.raw", "edge_1.0.0.key", "notes"];

    struct Directories(tempfile::TempDir);

    impl Directories {
        /// An output directory with another build's files, and others; and a new build's.
        fn new(names: &[&str]) -> Self {
            let directories = Self(tempfile::tempdir().unwrap());
            for (directory, which, names) in [("to", "old", &OLD[..]), ("to", "old", &FOREIGN), ("from", "new", names)]
            {
                fs::create_dir_all(directories.path(directory)).unwrap();
                for name in names {
                    let text = format!("{which} \"edge_1.0.0.raw\"");
                    fs::write(directories.path(directory).join(name), text).unwrap();
                }
            }
            directories
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        /// What lies there, by name: of which build it is.
        fn found(&self) -> BTreeMap<String, String> {
            let entries = fs::read_dir(self.path("to")).unwrap().map(|entry| entry.unwrap().path());
            let named = |path: PathBuf| {
                let text = fs::read_to_string(&path).unwrap();
                (path.file_name().unwrap().to_str().unwrap().to_owned(), text[..3].to_owned())
            };
            entries.map(named).collect()
        }
    }

    fn steps(directories: &Directories, stem: &str, names: &[&str]) -> Vec<Step> {
        HandOut { from: &directories.path("from"), to: &directories.path("to"), stem, names }.steps().unwrap()
    }

    #[test]
    fn a_crash_between_any_two_steps_leaves_no_signed_manifest_beside_another_image() {
        let builds = [
            &["edge_1.0.0.raw", "edge_1.0.0.efi", MANIFEST, SIGNATURE][..],
            &["edge_1.0.0.raw", "edge_1.0.0.efi", MANIFEST],
            &["edge_1.0.0.raw", "edge_1.0.0.efi"],
        ];
        for names in builds {
            let count = steps(&Directories::new(names), "edge_1.0.0", names).len();
            for taken in 0..=count {
                let directories = Directories::new(names);
                steps(&directories, "edge_1.0.0", names).iter().take(taken).for_each(|step| step.take().unwrap());
                let found = directories.found();
                let of = |name: &str| found.get(name).map(String::as_str);
                if let (Some(manifest), Some(signature)) = (of(MANIFEST), of(SIGNATURE)) {
                    assert_eq!(manifest, signature, "{taken} of {count}");
                    for image in OLD.iter().take(3).filter_map(|name| of(name)) {
                        assert_eq!(image, manifest, "{taken} of {count}: {found:?}");
                    }
                }
                assert!(FOREIGN.iter().all(|name| of(name) == Some("old")), "{found:?}");
            }
        }
    }

    #[test]
    fn what_the_build_did_not_make_is_gone_and_what_is_foreign_stays() {
        let names = ["edge_1.0.0.raw", "edge_1.0.0.efi"];
        let directories = Directories::new(&names);
        for step in steps(&directories, "edge_1.0.0", &names) {
            step.take().unwrap();
        }
        let left: Vec<String> = directories.found().into_keys().collect();
        let mut expected: Vec<&str> = FOREIGN.into_iter().chain(names).collect();
        expected.sort_unstable();
        assert_eq!(left, expected);
    }

    #[test]
    fn a_build_without_a_manifest_leaves_the_manifest_of_another_image() {
        let names = ["other_1.0.0.raw", "other_1.0.0.efi"];
        let directories = Directories::new(&names);
        for step in steps(&directories, "other_1.0.0", &names) {
            step.take().unwrap();
        }
        let found = directories.found();
        assert!(OLD.iter().all(|name| found.contains_key(*name)), "{found:?}");
    }
}
