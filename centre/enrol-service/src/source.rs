//! What the service decides by: its directory. Where that has no policy yet, nobody is admitted.

use latchkey_attestation::{Policy, References};
use latchkey_attesting_service::{Current, Snapshot, Source, watched};
use latchkey_cluster_store::registration::{RegistrationStore, Rules};
use latchkey_cluster_store::{ClusterFile, Denials, Documents, Enrolment, Part, StoreError};
use latchkey_keys::SecretVec;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The directory.
#[derive(Debug)]
pub(crate) struct Directory(pub(crate) RegistrationStore);

/// The part that the directory has beside what evidence is judged by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RulesPart;

pub(crate) type EnrolSnapshot = Snapshot<Arc<Rules>>;
pub(crate) type CurrentDirectory = Current<Directory>;

impl Source for Directory {
    type Own = Arc<Rules>;
    type Part = RulesPart;
    const PARTS: &'static [RulesPart] = &[RulesPart];

    fn name(RulesPart: RulesPart) -> &'static str {
        "registration"
    }

    fn documents(&self) -> &dyn Documents {
        self
    }

    fn watched(&self) -> Option<Vec<PathBuf>> {
        let mut paths = watched(self.0.documents());
        paths.push(self.0.rules_path());
        Some(paths)
    }

    fn fingerprint(&self, RulesPart: RulesPart) -> [u8; 32] {
        self.0.rules_fingerprint()
    }

    fn read(&self) -> Result<Arc<Rules>, StoreError> {
        self.0.rules().map(Arc::new)
    }

    fn reread(&self, _: &Arc<Rules>, RulesPart: RulesPart) -> Result<Arc<Rules>, StoreError> {
        self.read()
    }
}

/// A service of a new centre is there before its policy is: manifests that lie there already count once there is one.
impl Documents for Directory {
    fn place(&self) -> &Path {
        self.0.documents().place()
    }

    fn fingerprint(&self, part: Part) -> [u8; 32] {
        self.0.documents().fingerprint(part)
    }

    fn policy(&self) -> Result<Policy, StoreError> {
        match self.0.documents().policy() {
            Err(error) if error.is_absent() => Ok(Policy::of_nobody()),
            read => read,
        }
    }

    fn references(&self, policy: &Policy) -> Result<References, StoreError> {
        if policy.is_of_nobody() { Ok(References::none()) } else { self.0.documents().references(policy) }
    }

    fn remember(&self, references: &References, now: u64) -> Result<(), StoreError> {
        self.0.documents().remember(references, now)
    }

    fn enrolment(&self) -> Result<Enrolment, StoreError> {
        self.0.documents().enrolment()
    }

    fn cluster(&self) -> Result<Option<ClusterFile>, StoreError> {
        self.0.documents().cluster()
    }

    fn denials(&self) -> Result<Denials, StoreError> {
        self.0.documents().denials()
    }

    fn payload(&self) -> Result<SecretVec, StoreError> {
        self.0.documents().payload()
    }
}
