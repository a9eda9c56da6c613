//! What evidence is judged by, and what a service decides by beside it, as it is at one moment; and how it changes when the
//! documents do.

mod follower;
mod told;

use crate::clock::unix;
use crate::freshness::{Behind, Freshness};
use latchkey_attestation::policy::TpmRevocations;
use latchkey_attestation::reference::{Authority, ManifestName};
use latchkey_attestation::verify::ProcessorCollateral;
use latchkey_attestation::{EkDigest, Policy, References};
use latchkey_cluster_store::objects::COLLATERAL_MAP;
use latchkey_cluster_store::{Denials, Documents, NotDenied, Part, ReleaseRefusal, StoreError};
use latchkey_collateral::{Bundle, Collateral, CollateralError, Stamp};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

pub use follower::Follower;
use told::Told;
pub use told::TooManyTold;

/// Where a service reads what it decides by. Calls block, and may take as long as a disk or a network does.
pub trait Source: fmt::Debug + Send + Sync + 'static {
    /// What it decides by beside what evidence is judged by. Cheap to clone.
    type Own: Clone + fmt::Debug + Send + Sync + 'static;
    /// What of that changes together.
    type Part: Copy + 'static;
    /// All of it.
    const PARTS: &'static [Self::Part];

    /// A stable name of a part, for logs and metrics.
    fn name(part: Self::Part) -> &'static str;

    /// What evidence is judged by.
    fn documents(&self) -> &dyn Documents;

    /// Files and directories to watch, whether they exist or not; `None` where changes are told otherwise.
    fn watched(&self) -> Option<Vec<PathBuf>>;

    /// SHA-256 over the content of a part, so that only real changes count. What cannot be read counts by its error.
    fn fingerprint(&self, part: Self::Part) -> [u8; 32];

    /// Reads all parts.
    ///
    /// # Errors
    /// [`StoreError`].
    fn read(&self) -> Result<Self::Own, StoreError>;

    /// The same with one part read anew.
    ///
    /// # Errors
    /// [`StoreError`].
    fn reread(&self, own: &Self::Own, part: Self::Part) -> Result<Self::Own, StoreError>;
}

/// All that was read beside the records. Cheap to clone; never changes.
#[derive(Clone, Debug)]
pub struct Snapshot<O> {
    /// What evidence must show.
    pub policy: Arc<Policy>,
    /// Who is shut out, whatever the rest says.
    pub denials: Arc<Denials>,
    /// The images that may run.
    pub references: Arc<References>,
    /// SHA-256 over policy and manifests, for records of what was decided by them.
    pub attestation_sha256: [u8; 32],
    /// By what processors' words are verified, as far as the service has a directory of it.
    pub processors: Arc<ProcessorCollateral>,
    /// What authorities of TPMs revoked; the policy knows it.
    pub tpm_revocations: Arc<TpmRevocations>,
    /// The service's own.
    pub own: O,
}

impl<O: Clone> Snapshot<O> {
    /// Whether there is any collateral.
    pub fn has_collateral(&self) -> bool {
        let ProcessorCollateral { snp, tdx } = &*self.processors;
        snp.is_some() || tdx.is_some() || self.tpm_revocations.count() > 0
    }

    /// What of the collateral ends first of what the policy goes by, and when, in seconds since the Unix epoch.
    pub fn collateral_ends(&self) -> Option<(String, u64)> {
        let ends = [self.processors.first_end(&self.policy), self.tpm_revocations.first_end(&self.policy)];
        ends.into_iter().flatten().min_by_key(|(_, end)| *end)
    }

    fn read<S: Source<Own = O>>(source: &S) -> Result<Self, StoreError> {
        let documents = source.documents();
        // Before reading: a change in between is seen as one later.
        let attestation_sha256 = documents.fingerprint(Part::Attestation);
        let (policy, references) = attestation(documents)?;
        Ok(Self {
            policy,
            references,
            attestation_sha256,
            denials: Arc::new(documents.denials()?),
            processors: Arc::default(),
            tpm_revocations: Arc::default(),
            own: source.read()?,
        })
    }

    /// The same with this collateral.
    fn with_collateral(self, Collateral { processors, tpm }: Collateral) -> Self {
        let (processors, tpm_revocations) = (Arc::new(processors), Arc::new(tpm));
        Self { policy: knowing(&self.policy, &tpm_revocations), processors, tpm_revocations, ..self }
    }

    /// The same with policy and manifests read anew.
    fn with_attestation(&self, documents: &dyn Documents, attestation_sha256: [u8; 32]) -> Result<Self, StoreError> {
        let (policy, references) = attestation(documents)?;
        Ok(Self { policy: knowing(&policy, &self.tpm_revocations), references, attestation_sha256, ..self.clone() })
    }
}

/// Where collateral could be and is not.
pub const NO_COLLATERAL: &str = "there is no collateral: name a directory in `collateral`, or put it into the cluster's API server \
                                 (`latchkey collateral install DIR --cluster DIR`)";

/// How the object is called that has the collateral of a cluster in its API server.
fn place_of(documents: &dyn Documents) -> PathBuf {
    documents.place().join(COLLATERAL_MAP)
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

/// One line with what is denied, one for names that deny nothing, and one where a denial is missed.
fn log_denials(denials: &Denials) {
    let eks: Vec<String> = denials.iter().map(ToString::to_string).collect();
    tracing::warn!(count = eks.len(), denied = eks.join(" "), "Machines are shut out");
    if !denials.unreadable().is_empty() {
        tracing::error!(names = ?denials.unreadable(), "Names among the denials are no EK digests, and deny nothing");
    }
    if denials.lost() > 0 {
        let (lost, listed) = (denials.lost(), denials.listed());
        tracing::error!(
            lost,
            listed,
            "Denials are counted that are not there: unless they come at once, no key is released"
        );
    }
}

/// The snapshot that counts now. Readers take it in a moment and keep it as long as they like; nobody here waits for a file.
#[derive(Debug)]
pub struct Current<S: Source> {
    source: S,
    snapshot: RwLock<Arc<Snapshot<S::Own>>>,
    told: Told,
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

/// What the content of each part is now.
fn fingerprints<S: Source>(source: &S) -> Fingerprints {
    let attestation = (Part::Attestation.name(), source.documents().fingerprint(Part::Attestation));
    let own = S::PARTS.iter().map(|part| (S::name(*part), source.fingerprint(*part)));
    std::iter::once(attestation).chain(own).collect()
}

impl<S: Source> Current<S> {
    /// Reads everything, the collateral from its directory if one is named, and else from the documents if it is there. What cannot
    /// be read now cannot be replaced by what was: the service does not start.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn load(source: S, collateral: Option<&Path>) -> Result<Self, LoadError> {
        // Before reading: a change in between is seen as one later.
        let (heard, begun) = (source.documents().heard(), Instant::now());
        let loaded = fingerprints(&source);
        let mut collateral_loaded = collateral.and_then(|directory| latchkey_collateral::stamp(directory).ok());
        let mut snapshot = Snapshot::read(&source)?;
        let documents = source.documents();
        if let Some(directory) = collateral {
            snapshot = snapshot.with_collateral(latchkey_collateral::read(directory)?);
        } else if let Some(entries) = documents.collateral()? {
            collateral_loaded = Some(Bundle::stamp_of(&entries));
            snapshot = snapshot.with_collateral(Bundle::of_entries(&place_of(documents), entries)?.read()?);
        }
        let own = S::PARTS.iter().map(|part| S::name(*part)).collect();
        let mut freshness = Freshness::new(own, Instant::now());
        freshness.denials_read(heard.map_or(begun, |heard| heard.as_of));
        freshness.end(heard, Instant::now());
        let freshness = Mutex::new(freshness);
        let (snapshot, collateral) = (RwLock::new(Arc::new(snapshot)), collateral.map(Path::to_owned));
        Ok(Self { source, snapshot, told: Told::default(), freshness, loaded, collateral, collateral_loaded })
    }

    /// Where it is read.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// The names of everything that is followed.
    pub fn followed(&self) -> Vec<&'static str> {
        self.freshness().followed().collect()
    }

    /// Remembers what was loaded, so that no older revision of a manifest is accepted later. Before the first decision.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn remember(&self) -> Result<(), StoreError> {
        let snapshot = self.snapshot();
        self.source.documents().remember(&snapshot.references, unix())?;
        log_references(&snapshot.references);
        if !snapshot.denials.are_none() {
            log_denials(&snapshot.denials);
        }
        Ok(())
    }

    /// What counts now.
    pub fn snapshot(&self) -> Arc<Snapshot<S::Own>> {
        Arc::clone(&self.snapshot.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The witness that nobody shut this machine out: neither the documents, as of when they are known, nor root at this service.
    ///
    /// # Errors
    /// [`ReleaseRefusal::MachineDenied`].
    pub fn not_denied(&self, ek: &EkDigest) -> Result<NotDenied, ReleaseRefusal> {
        // In this order: what is not told any more because it is listed is in the snapshot by then, which is as of then, or later.
        if self.told.has(ek) {
            return Err(ReleaseRefusal::MachineDenied { ek: *ek });
        }
        let as_of = self.as_of();
        self.snapshot().denials.check(ek, as_of)
    }

    /// Shuts a machine out from now on, by root's word, until the documents list it or [`Self::allow`] takes that back.
    ///
    /// # Errors
    /// [`TooManyTold`]: nothing was done.
    pub fn deny(&self, ek: EkDigest) -> Result<(), TooManyTold> {
        self.told.deny(ek, Instant::now())
    }

    /// Takes [`Self::deny`] back; whether it denied something. What the documents list stays denied.
    pub fn allow(&self, ek: &EkDigest) -> bool {
        self.told.allow(ek)
    }

    /// Machines that are shut out by root's word, and that the documents did not list since.
    pub fn told(&self) -> Vec<EkDigest> {
        self.told.all()
    }

    /// Parts whose content in use may be older than what the directory says, since when, and why.
    pub fn behind(&self) -> Vec<Behind> {
        let heard = self.source.documents().heard();
        self.freshness().behind(heard, Instant::now())
    }

    /// As of when [`Self::snapshot`] says what the documents do: what was written before that counts, where it could be used. Ask before
    /// the snapshot.
    pub fn as_of(&self) -> Instant {
        let heard = self.source.documents().heard();
        self.freshness().as_of(heard)
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

    fn put_in_force(&self, next: Snapshot<S::Own>, part: &'static str) {
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
