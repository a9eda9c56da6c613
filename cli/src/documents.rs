//! Whom a cluster admits, wherever that is kept: its policy and manifests, read and changed in its directory or its API server.

use std::path::Path;
use std::sync::Arc;

use latchkey_attestation::{AuthenticManifest, Policy, References};
use latchkey_cluster_store::{Revisions, StoreError};

use crate::arguments::Arguments;
use crate::clock::now;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::store_error::unusable;
use crate::trust::{self, Trust};

/// What the operator's commands about policy and manifests need of a store.
pub(crate) trait Documents {
    /// Policy and manifests, none of them older than what was accepted before.
    fn trust(&self) -> Result<Trust, CommandError>;
    /// The same trust, if none of its manifests is older than what was accepted here before.
    fn held_against(&self, trust: Trust) -> Result<Trust, CommandError>;
    /// Puts a revision of a manifest in force, in the place of the one before, if the policy takes it; and where it is now.
    fn install(&self, path: &Path, options: InstallOptions) -> Result<(AuthenticManifest, String), CommandError>;
    /// Puts a policy in force, if the manifests in force are what it demands; and where it is now.
    fn install_policy(&self, policy: &PolicyFile) -> Result<String, CommandError>;
}

/// What an operator may ask for when a revision is installed, and what is refused otherwise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InstallOptions {
    /// Forget a newer revision that was accepted before.
    pub(crate) replace_newer: bool,
    /// Admit again what the revision in force revokes.
    pub(crate) forget_revocations: bool,
}

/// A policy that can be read, and the text it is.
pub(crate) struct PolicyFile {
    pub(crate) text: String,
    pub(crate) policy: Policy,
}

impl PolicyFile {
    pub(crate) fn read(path: &Path) -> Result<Self, CommandError> {
        let (bytes, policy) = trust::load_policy(path)?;
        let text = String::from_utf8(bytes).map_err(|_| {
            CommandError::new(Exit::Usage, CommandCode::FileMalformed, format!("{} is no text", path.display()))
        })?;
        Ok(Self { text, policy })
    }
}

impl Trust {
    /// From `--policy` and `--reference`, held against what the cluster's store remembers where there is one; or all of it from there.
    pub(crate) fn from_files_or_store(
        arguments: &Arguments,
        store: Option<&dyn Documents>,
    ) -> Result<Self, CommandError> {
        match store {
            None => Self::from_arguments(arguments),
            Some(store) if arguments.has("policy") => store.held_against(Self::from_arguments(arguments)?),
            Some(_) if arguments.has("reference") => Err(CommandError::usage("--reference goes with --policy")),
            Some(store) => store.trust()?.with_collateral(arguments),
        }
    }
}

/// A revision that may take its place among the manifests in force.
pub(crate) struct Placed<P> {
    /// Where the revision before is.
    pub(crate) before: Option<P>,
    /// All that are in force then.
    pub(crate) references: Arc<References>,
}

/// Whether a revision may take its place: the policy is content with all manifests, it is no older than what was accepted and what is
/// in force, and it revokes what is revoked.
pub(crate) fn place<P>(
    policy: &Policy,
    revision: &AuthenticManifest,
    in_force: Vec<(P, AuthenticManifest)>,
    revisions: &Revisions,
    options: InstallOptions,
) -> Result<Placed<P>, CommandError> {
    let (mut all, mut before) = (vec![revision.clone()], None);
    let mut revisions = revisions.clone();
    for (at, found) in in_force {
        revisions
            .accept(&found, now())
            .map_err(StoreError::malformed(Path::new("revisions.json")))
            .map_err(unusable)?;
        if found.values().name() == revision.values().name() {
            before = Some((at, found));
        } else {
            all.push(found);
        }
    }
    let references = trust::fitting(policy, all)?;
    if !options.replace_newer {
        check_follow(&revisions, &references)?;
    }
    if let Some((_, before)) = before.as_ref().filter(|_| !options.forget_revocations) {
        keeps_revocations(before, revision)?;
    }
    Ok(Placed { before: before.map(|(at, _)| at), references })
}

/// Whether none of these manifests is older than what was accepted.
pub(crate) fn check_follow(revisions: &Revisions, references: &References) -> Result<(), CommandError> {
    let follows = references.iter().try_for_each(|manifest| revisions.check_follows(manifest));
    follows.map_err(|refusal| CommandError::refused(Exit::Usage, "a manifest is older than one before", &refusal))
}

/// A revision that was made anew, and not from the one in force, knows nothing of what was revoked.
fn keeps_revocations(before: &AuthenticManifest, next: &AuthenticManifest) -> Result<(), CommandError> {
    let missing = before.values().revocations_missing_in(next.values());
    let missing: Vec<_> = missing.map(|one| format!("{} {}: {}", one.name, one.version, one.why)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let what = format!("the new revision of {} does not revoke what the one in force revokes", next.values().name());
    let failure = CommandError::new(Exit::Usage, CommandCode::RevocationsMissing, what);
    let failure = missing.into_iter().fold(failure, CommandError::because);
    Err(failure.fix("merge the two with `latchkey reference add`, which keeps them; or say --forget-revocations"))
}
