//! Whom to admit: a policy and its reference values, as files, and what processors' words are verified by.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use latchkey_attestation::reference::Signature;
use latchkey_attestation::verify::ProcessorCollateral;
use latchkey_attestation::{
    AuthenticManifest, LockExpectation, ManifestFile, OfflineFinding, PcrValues, Policy, RecordedEvidence,
    ReferenceValues, References, Refusal,
};
use latchkey_channel::TpmVerifier;
use latchkey_cluster_store::signature_of;
use latchkey_collateral::Collateral;
use latchkey_measurements::diagnose::what_differs;
use serde::Serialize;

use crate::arguments::Arguments;
use crate::collateral;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files;
use crate::mistaken::Kind;

/// As large as the reader of either takes.
const MAX_FILE: usize = 1024 * 1024;

/// A policy with its reference values, and the files they came from.
pub(crate) struct Trust {
    pub(crate) policy: Arc<Policy>,
    pub(crate) references: Arc<References>,
    pub(crate) policy_file: Vec<u8>,
    pub(crate) manifests: Vec<Found>,
    /// Whether older revisions of the manifests would have been noticed: only a cluster's own store remembers them.
    pub(crate) remembers: bool,
    /// What vendors of processors publish, as far as `--collateral` names it.
    pub(crate) processors: Arc<ProcessorCollateral>,
}

/// What becomes of a revision that is older than one that was accepted before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Rollback {
    /// It is refused: the cluster remembers.
    Refused,
    /// Nobody would notice.
    Unnoticed,
}

/// A manifest as it was found.
pub(crate) struct Found {
    pub(crate) name: String,
    pub(crate) manifest: Vec<u8>,
    pub(crate) signature: Option<Vec<u8>>,
}

impl Trust {
    /// From `--policy`, `--reference` and `--collateral`.
    pub(crate) fn from_arguments(arguments: &Arguments) -> Result<Self, CommandError> {
        // What is named and no good comes before what is missing.
        let (policy_file, policy) = load_policy(arguments.required_path("policy")?)?;
        let references = arguments.paths("reference");
        if references.is_empty() {
            return Err(CommandError::usage("--reference FILE is missing: measurements of admitted images"));
        }
        Self::with(policy_file, policy, &references)?.with_collateral(arguments)
    }

    /// The same with what `--collateral` names.
    pub(crate) fn with_collateral(self, arguments: &Arguments) -> Result<Self, CommandError> {
        let Some(Collateral { processors, tpm }) = collateral::named(arguments)? else { return Ok(self) };
        let policy = Arc::new((*self.policy).clone().knowing(Arc::new(tpm)));
        Ok(Self { processors: Arc::new(processors), policy, ..self })
    }

    /// Who decides on a node. Nobody is asked under a policy that demands what cannot be verified.
    pub(crate) fn verifier(&self, lock: LockExpectation) -> Result<TpmVerifier, CommandError> {
        self.processors.check_means(&self.policy).map_err(|refusal| {
            let what = format!("there is nothing to verify a machine's processor by: {}", refusal.detail());
            let fix = "name the directory of what its vendor publishes with --collateral DIR, or fetch it: `latchkey collateral fetch`";
            CommandError::usage(what).fix(fix)
        })?;
        let verifier = TpmVerifier::new(Arc::clone(&self.policy), Arc::clone(&self.references), lock);
        Ok(verifier.with_collateral(Arc::clone(&self.processors)))
    }

    /// What kept evidence shows at a time, in seconds since the Unix epoch.
    pub(crate) fn appraise_recorded(
        &self,
        recording: &RecordedEvidence,
        lock: LockExpectation,
        at: u64,
    ) -> Result<OfflineFinding, Refusal> {
        let (policy, references) = (&self.policy, &self.references);
        self.processors.check_means(policy)?;
        recording.appraise_recorded_with_processor(policy, references, lock, at, &self.processors)
    }

    /// What an older revision would meet.
    pub(crate) fn rollback(&self) -> Rollback {
        if self.remembers { Rollback::Refused } else { Rollback::Unnoticed }
    }

    /// What a refused machine's own log tells, for the causes of its refusal.
    pub(crate) fn event(&self, refusal: &Refusal, quoted: &PcrValues, log: Option<&[u8]>) -> Option<String> {
        what_differs(refusal, (&self.policy, &self.references), quoted, log)
    }

    /// From values that are in no file.
    pub(crate) fn of(policy: &Arc<Policy>, values: ReferenceValues) -> Result<Self, CommandError> {
        let references = fitting(policy, vec![AuthenticManifest::local(values)])?;
        let (policy, policy_file, manifests) = (Arc::clone(policy), Vec::new(), Vec::new());
        Ok(Self { policy, references, policy_file, manifests, remembers: false, processors: Arc::default() })
    }

    /// What is in force in a cluster.
    pub(crate) fn in_force(policy_file: Vec<u8>, policy: Policy, references: References) -> Self {
        let (policy, references) = (Arc::new(policy), Arc::new(references));
        Self { policy, references, policy_file, manifests: Vec::new(), remembers: true, processors: Arc::default() }
    }

    /// A manifest's file, and its signature's if there is one.
    pub(crate) fn manifest_file(path: &Path) -> Result<(Vec<u8>, Option<Vec<u8>>), CommandError> {
        Ok((files::read(path, MAX_FILE)?, signature_beside(path)?))
    }

    fn with(policy_file: Vec<u8>, policy: Policy, references: &[PathBuf]) -> Result<Self, CommandError> {
        let mut manifests = Vec::new();
        let mut parsed = Vec::new();
        for path in references {
            let (manifest, signature) = Self::manifest_file(path)?;
            let authentic = authentic(path, &policy, &manifest, signature.clone())?;
            manifests.push(Found { name: authentic.values().name().to_string(), manifest, signature });
            parsed.push(authentic);
        }
        let references = fitting(&policy, parsed)?;
        let policy = Arc::new(policy);
        Ok(Self { policy, references, policy_file, manifests, remembers: false, processors: Arc::default() })
    }
}

/// The signature beside a manifest, `None` when there is none: nothing lies beside standard input.
pub(crate) fn signature_beside(manifest: &Path) -> Result<Option<Vec<u8>>, CommandError> {
    if files::is_standard_input(manifest) {
        return Ok(None);
    }
    let path = signature_of(manifest);
    match path.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        _ => files::read(&path, Signature::MAX).map(Some),
    }
}

/// The manifest, if somebody signed it whom the policy names.
pub(crate) fn authentic(
    path: &Path,
    policy: &Policy,
    manifest: &[u8],
    signature: Option<Vec<u8>>,
) -> Result<AuthenticManifest, CommandError> {
    let file = ManifestFile::new(manifest.to_vec(), signature);
    file.under(policy).map_err(|refusal| Kind::Manifest.expected(unusable(path, &refusal), manifest, path))
}

pub(crate) fn fitting(policy: &Policy, values: Vec<AuthenticManifest>) -> Result<Arc<References>, CommandError> {
    References::new(policy, values).map(Arc::new).map_err(|refusal| {
        CommandError::refused(Exit::Usage, "policy and reference values do not fit together", &refusal)
    })
}

/// Reads a policy, and returns the file's content with it.
pub(crate) fn load_policy(path: &Path) -> Result<(Vec<u8>, Policy), CommandError> {
    let file = files::read(path, MAX_FILE)?;
    let policy = Policy::from_json(&file);
    let policy = policy.map_err(|refusal| Kind::Policy.expected(unusable(path, &refusal), &file, path))?;
    Ok((file, policy))
}

fn unusable(path: &Path, refusal: &Refusal) -> CommandError {
    CommandError::refused(Exit::Usage, format!("{} cannot be used", path.display()), refusal)
}
