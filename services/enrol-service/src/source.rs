//! What the service decides by: its directory.

use latchkey_attesting_service::{Current, Snapshot, Source, watched};
use latchkey_cluster_store::registration::{RegistrationStore, Rules};
use latchkey_cluster_store::{Documents, StoreError};
use std::path::PathBuf;
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
        self.0.documents()
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
