//! Whom to admit: a policy and its reference values, as files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use latchkey_attestation::{Policy, ReferenceValues, References, Refusal};

use crate::failure::{Exit, Failure};
use crate::files;
use crate::spec::Arguments;

/// As large as the reader of either takes.
const MAX_FILE: usize = 1024 * 1024;

/// A policy with its reference values, and the files they came from.
pub(crate) struct Trust {
    pub(crate) policy: Arc<Policy>,
    pub(crate) references: Arc<References>,
    pub(crate) policy_file: Vec<u8>,
    /// Name of the manifest, content of its file.
    pub(crate) manifests: Vec<(String, Vec<u8>)>,
}

impl Trust {
    /// From `--policy` and `--reference`.
    pub(crate) fn from_arguments(arguments: &Arguments) -> Result<Self, Failure> {
        Self::load(arguments.required_path("policy")?, &arguments.paths("reference"))
    }

    /// From values that are in no file.
    pub(crate) fn of(policy: &Arc<Policy>, values: ReferenceValues) -> Result<Self, Failure> {
        let references = fitting(policy, vec![values])?;
        Ok(Self { policy: Arc::clone(policy), references, policy_file: Vec::new(), manifests: Vec::new() })
    }

    /// From what was read elsewhere.
    pub(crate) fn fit(policy: Policy, values: Vec<ReferenceValues>) -> Result<Self, Failure> {
        let references = fitting(&policy, values)?;
        Ok(Self { policy: Arc::new(policy), references, policy_file: Vec::new(), manifests: Vec::new() })
    }

    pub(crate) fn load(policy_path: &Path, references: &[PathBuf]) -> Result<Self, Failure> {
        let (policy_file, policy) = load_policy(policy_path)?;
        let mut manifests = Vec::new();
        let mut parsed = Vec::new();
        for path in references {
            let file = files::read(path, MAX_FILE)?;
            let values = ReferenceValues::from_json(&file).map_err(|refusal| unusable(path, &refusal))?;
            manifests.push((values.name().to_string(), file));
            parsed.push(values);
        }
        let references = fitting(&policy, parsed)?;
        Ok(Self { policy: Arc::new(policy), references, policy_file, manifests })
    }
}

fn fitting(policy: &Policy, values: Vec<ReferenceValues>) -> Result<Arc<References>, Failure> {
    References::new(policy, values)
        .map(Arc::new)
        .map_err(|refusal| Failure::refused(Exit::Usage, "policy and reference values do not fit together", &refusal))
}

/// Reads a policy, and returns the file's content with it.
pub(crate) fn load_policy(path: &Path) -> Result<(Vec<u8>, Policy), Failure> {
    let file = files::read(path, MAX_FILE)?;
    let policy = Policy::from_json(&file).map_err(|refusal| unusable(path, &refusal))?;
    Ok((file, policy))
}

fn unusable(path: &Path, refusal: &Refusal) -> Failure {
    Failure::refused(Exit::Usage, format!("{} cannot be used", path.display()), refusal)
}

/// Seconds since the Unix epoch.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
