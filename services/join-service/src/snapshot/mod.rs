//! What decisions are made by, as it is at one moment; and how it changes when the documents of the cluster do.

mod follower;

use crate::clock::unix;
use crate::decision::Rules;
use crate::freshness::{Behind, Freshness};
use latchkey_attestation::policy::TpmRevocations;
use latchkey_attestation::reference::{Authority, ManifestName};
use latchkey_attestation::verify::ProcessorCollateral;
use latchkey_attestation::{Policy, References};
use latchkey_cluster_store::objects::COLLATERAL_MAP;
use latchkey_cluster_store::{ClusterFile, ClusterMaterial, Denials, Documents, Enrolment, Part, StoreError};
use latchkey_collateral::{Bundle, Collateral, CollateralError, Stamp};
use latchkey_keys::SecretVec;
use latchkey_kubelet_certificates::Reserved;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

pub use follower::Follower;

/// All that was read beside the records. Cheap to clone; never changes.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// What evidence must show.
    pub policy: Arc<Policy>,
    /// Who is shut out, whatever the rest says.
    pub denials: Arc<Denials>,
    /// The images that may run.
    pub references: Arc<References>,
    /// Who is let in as what.
    pub enrolment: Arc<Enrolment>,
    /// The cluster, once it is initialised.
    pub cluster: Option<Arc<ClusterFile>>,
    /// What nodes join by, where the cluster is kept in an API server and somebody has said it.
    pub material: Option<Arc<ClusterMaterial>>,
    /// By what processors' words are verified, as far as the service has a directory of it.
    pub processors: Arc<ProcessorCollateral>,
    /// What authorities of TPMs revoked; the policy knows it.
    pub tpm_revocations: Arc<TpmRevocations>,
    /// Opaque bytes for the nodes' cluster step.
    pub payload: Arc<SecretVec>,
}

impl Snapshot {
    /// Whether there is any collateral.
    pub(crate) fn has_collateral(&self) -> bool {
        let ProcessorCollateral { snp, tdx } = &*self.processors;
        snp.is_some() || tdx.is_some() || self.tpm_revocations.count() > 0
    }

    /// What of the collateral ends first of what the policy goes by, and when, in seconds since the Unix epoch.
    pub(crate) fn collateral_ends(&self) -> Option<(String, u64)> {
        let ends = [self.processors.first_end(&self.policy), self.tpm_revocations.first_end(&self.policy)];
        ends.into_iter().flatten().min_by_key(|(_, end)| *end)
    }

    /// What machines are let in by.
    pub fn rules(&self) -> Rules {
        Rules { enrolment: Arc::clone(&self.enrolment), reserved: self.reserved() }
    }

    /// What is no machine's name or address.
    pub fn reserved(&self) -> Reserved {
        self.material.as_ref().map(|material| material.file.reserved()).unwrap_or_default()
    }

    fn read(documents: &dyn Documents) -> Result<Self, StoreError> {
        let (policy, references) = attestation(documents)?;
        Ok(Self {
            policy,
            references,
            denials: Arc::new(documents.denials()?),
            enrolment: Arc::new(documents.enrolment()?),
            cluster: documents.cluster()?.map(Arc::new),
            material: documents.material()?.map(Arc::new),
            processors: Arc::default(),
            tpm_revocations: Arc::default(),
            payload: payload(documents)?,
        })
    }

    /// The same with this collateral.
    fn with_collateral(self, Collateral { processors, tpm }: Collateral) -> Self {
        let (processors, tpm_revocations) = (Arc::new(processors), Arc::new(tpm));
        Self { policy: knowing(&self.policy, &tpm_revocations), processors, tpm_revocations, ..self }
    }

    /// The same with one part read anew.
    fn with(&self, part: Part, documents: &dyn Documents) -> Result<Self, StoreError> {
        let mut next = self.clone();
        match part {
            Part::Attestation => {
                (next.policy, next.references) = attestation(documents)?;
                next.policy = knowing(&next.policy, &next.tpm_revocations);
            }
            Part::Enrolment => next.enrolment = Arc::new(documents.enrolment()?),
            Part::Cluster => {
                next.cluster = Some(Arc::new(documents.cluster()?.ok_or_else(|| gone(documents))?));
                next.material = documents.material()?.map(Arc::new);
            }
            Part::Payload => next.payload = payload(documents)?,
        }
        Ok(next)
    }
}

/// Where collateral could be and is not.
pub(crate) const NO_COLLATERAL: &str = "there is no collateral: name a directory in `collateral`, or put it into the cluster's API server \
                                        (`latchkey collateral install DIR --cluster DIR`)";

/// How the object is called that has the collateral of a cluster in its API server.
fn place_of(documents: &dyn Documents) -> PathBuf {
    documents.place().join(COLLATERAL_MAP)
}

/// A cluster does not stop to be: a file that is gone is a mistake, and the cluster that was stays.
fn gone(documents: &dyn Documents) -> StoreError {
    let path = documents.place().join("cluster.json");
    StoreError::Io { action: "read", path, source: std::io::ErrorKind::NotFound.into() }
}

fn knowing(policy: &Policy, revoked: &Arc<TpmRevocations>) -> Arc<Policy> {
    Arc::new(policy.clone().knowing(Arc::clone(revoked)))
}

fn attestation(documents: &dyn Documents) -> Result<(Arc<Policy>, Arc<References>), StoreError> {
    let policy = documents.policy()?;
    let references = documents.references(&policy)?;
    Ok((Arc::new(policy), Arc::new(references)))
}

/// One line for each manifest in force: after an incident, the log says what was admitted by what.
fn log_references(references: &References) {
    for manifest in references.iter() {
        let values = manifest.values();
        let (signer, comment) = match manifest.authority() {
            Authority::Signed { signer, trusted_comment } => (signer.id().to_string(), trusted_comment.as_str()),
            Authority::LocalFile { .. } => ("unsigned".to_owned(), ""),
        };
        tracing::info!(
            manifest = %values.name(), serial = values.serial(), sha256 = %manifest.sha256(), signer, comment,
            images = values.images().len(), revoked = values.revoked().len(), "Reference manifest in force"
        );
    }
}

/// One line with what is denied, and one for names that deny nothing.
fn log_denials(denials: &Denials) {
    let eks: Vec<String> = denials.iter().map(ToString::to_string).collect();
    tracing::warn!(count = eks.len(), denied = eks.join(" "), "Machines are shut out");
    if !denials.unreadable().is_empty() {
        tracing::error!(names = ?denials.unreadable(), "Names among the denials are no EK digests, and deny nothing");
    }
}

fn payload(documents: &dyn Documents) -> Result<Arc<SecretVec>, StoreError> {
    documents.payload().map(Arc::new)
}

/// The snapshot that counts now. Readers take it in a moment and keep it as long as they like; nobody here waits for a file.
#[derive(Debug)]
pub struct Current {
    documents: Arc<dyn Documents>,
    snapshot: RwLock<Arc<Snapshot>>,
    /// Held for moments, never while something is read.
    freshness: Mutex<Freshness>,
    loaded: Fingerprints,
    collateral: Option<PathBuf>,
    /// Of the collateral, when it was read at the start.
    collateral_loaded: Option<Stamp>,
}

/// Why a service does not start.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The cluster's documents cannot be used.
    #[error(transparent)]
    Documents(#[from] StoreError),
    /// The collateral cannot be used.
    #[error("the collateral cannot be used: {0}")]
    Collateral(#[from] CollateralError),
}

/// What the parts' content was when it was looked at last.
type Fingerprints = BTreeMap<&'static str, [u8; 32]>;

impl Current {
    /// Reads everything, the collateral from its directory if one is named, and else from the cluster's documents if it is there. What cannot be read now cannot be replaced by what was: the
    /// service does not start.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn load(documents: Arc<dyn Documents>, collateral: Option<&Path>) -> Result<Self, LoadError> {
        // Before reading: a change in between is seen as one later.
        let loaded = Part::ALL.iter().map(|part| (part.name(), documents.fingerprint(*part))).collect();
        let mut collateral_loaded = collateral.and_then(|directory| latchkey_collateral::stamp(directory).ok());
        let mut snapshot = Snapshot::read(&*documents)?;
        if let Some(directory) = collateral {
            snapshot = snapshot.with_collateral(latchkey_collateral::read(directory)?);
        } else if let Some(entries) = documents.collateral()? {
            collateral_loaded = Some(Bundle::stamp_of(&entries));
            snapshot = snapshot.with_collateral(Bundle::of_entries(&place_of(&*documents), entries)?.read()?);
        }
        let freshness = Mutex::new(Freshness::new(Instant::now()));
        let (snapshot, collateral) = (RwLock::new(Arc::new(snapshot)), collateral.map(Path::to_owned));
        Ok(Self { documents, snapshot, freshness, loaded, collateral, collateral_loaded })
    }

    /// Remembers what was loaded, so that no older revision of a manifest is accepted later. Before the first decision.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn remember(&self) -> Result<(), StoreError> {
        let snapshot = self.snapshot();
        self.documents.remember(&snapshot.references, unix())?;
        log_references(&snapshot.references);
        if *snapshot.denials != Denials::default() {
            log_denials(&snapshot.denials);
        }
        Ok(())
    }

    /// What counts now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Parts whose content in use may be older than what the directory says, since when, and why.
    pub fn behind(&self) -> Vec<Behind> {
        self.freshness().behind(Instant::now())
    }

    /// Which revision of each manifest is in force.
    pub fn serials(&self) -> Vec<(ManifestName, u64)> {
        let snapshot = self.snapshot();
        let serials =
            snapshot.references.iter().map(|manifest| (manifest.values().name().clone(), manifest.values().serial()));
        serials.collect()
    }

    /// How many parts were swapped since the start.
    pub fn reloads(&self) -> u64 {
        self.freshness().reloads()
    }

    fn put_in_force(&self, next: Snapshot, part: &'static str) {
        *self.snapshot.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
        self.freshness().good(part);
        tracing::info!(part, "Configuration reloaded");
    }

    /// What was read before stays in use.
    fn keep(&self, part: &'static str, error: &dyn fmt::Display) {
        if self.freshness().bad(part, error.to_string(), Instant::now()) {
            tracing::error!(part, %error, "Configuration cannot be used; what was read before stays in use");
        }
    }

    fn freshness(&self) -> MutexGuard<'_, Freshness> {
        self.freshness.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
