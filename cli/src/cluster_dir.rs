//! The cluster's directory, which the join service reads too: what this command does with it.

use std::fs::{File, OpenOptions, TryLockError};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use latchkey_attestation::{AuthenticManifest, EkDigest};
use latchkey_cluster_store::{
    BootSeen, ClusterFile, ClusterStore, ContentError, Denials, DiskRelease, DiskState, Enrolment, NodeName,
    NodeRecord, Outcome, PendingRecord, Recorded, ReleaseError, ReleaseRefusal, Reported, Role, RoleRule, StoreError,
    TpmBoot, check_not_denied,
};
use latchkey_keys::{KeyVersion, Uuid};

use crate::arguments::Arguments;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files::{self, Readers};
use crate::trust::{self, Found, Trust, now};

/// As large as the reader of policies takes.
const MAX_POLICY: usize = 1024 * 1024;

/// Held by the one `latchkey init` that works on the directory. Not the directory's own lock: the join service may write
/// records while an init waits.
const HELD: &str = "init.lock";

/// Stands there if the cluster's records and documents are elsewhere.
pub(crate) const STORE: &str = "store.json";

/// A manifest's file, its bytes, and its signature's.
pub(crate) type ManifestFiles = (PathBuf, Vec<u8>, Option<Vec<u8>>);

/// A cluster's directory.
pub(crate) struct ClusterDir(ClusterStore);

/// Holds the directory against other commands; gone when dropped.
#[derive(Debug)]
pub(crate) struct Held(#[expect(dead_code, reason = "the lock lives as long as the file is open")] File);

/// What an operator may ask for when a revision is installed, and what is refused otherwise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InstallOptions {
    /// Forget a newer revision that was accepted before.
    pub(crate) replace_newer: bool,
    /// Admit again what the revision in force revokes.
    pub(crate) forget_revocations: bool,
}

/// The first machine of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct FirstNode {
    pub(crate) ek: EkDigest,
    pub(crate) name: String,
    pub(crate) disk: Uuid,
    /// What it showed before its lock, if this run saw it then.
    pub(crate) seen: Option<BootSeen>,
    /// The boot in which it proved its lock, if this run saw that.
    pub(crate) locked: Option<TpmBoot>,
    /// Where its kubelet serves, if this run heard that.
    pub(crate) addresses: Vec<IpAddr>,
}

impl ClusterDir {
    /// The directory at `path`, which must exist.
    pub(crate) fn open(path: &Path) -> Result<Self, CommandError> {
        if !path.is_dir() {
            let what = format!("there is no directory {}", path.display());
            let failure = CommandError::new(Exit::Missing, CommandCode::DirectoryMissing, what);
            return Err(failure.fix("name the directory that `latchkey init` was given"));
        }
        ClusterStore::open(path).map(Self).map_err(unusable)
    }

    /// The directory at `path`, made if it is missing.
    pub(crate) fn make(path: &Path) -> Result<Self, CommandError> {
        files::make_directory(path)?;
        Self::open(path)
    }

    /// Its files.
    pub(crate) fn store(&self) -> &ClusterStore {
        &self.0
    }

    pub(crate) fn shown(&self) -> String {
        self.0.path().display().to_string()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Two inits never work on one cluster at once.
    pub(crate) fn hold(&self) -> Result<Held, CommandError> {
        let path = self.path(HELD);
        let failed = |error: &std::io::Error| {
            CommandError::local(CommandCode::DirectoryLock, format!("cannot lock {}", path.display()))
                .because(error.to_string())
        };
        let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = opened.map_err(|error| failed(&error))?;
        match file.try_lock() {
            Ok(()) => Ok(Held(file)),
            Err(TryLockError::WouldBlock) => {
                let what = format!("another command works on {}", self.shown());
                Err(CommandError::local(CommandCode::DirectoryBusy, what).fix("wait until it is done"))
            }
            Err(TryLockError::Error(error)) => Err(failed(&error)),
        }
    }

    /// The cluster, `None` before its first node is locked.
    pub(crate) fn cluster(&self) -> Result<Option<ClusterFile>, CommandError> {
        self.0.cluster().map_err(unusable)
    }

    /// The cluster, which must be there.
    pub(crate) fn required_cluster(&self) -> Result<ClusterFile, CommandError> {
        self.cluster()?.ok_or_else(|| {
            CommandError::new(
                Exit::Missing,
                CommandCode::ClusterMissing,
                format!("{} holds no cluster yet", self.shown()),
            )
        })
    }

    /// Policy and reference values of the directory, none older than what was accepted before.
    pub(crate) fn trust(&self) -> Result<Trust, CommandError> {
        let policy_file = files::read(&self.path("policy.json"), MAX_POLICY)?;
        let policy = self.0.policy().map_err(unusable)?;
        let references = self.0.references(&policy).map_err(unusable)?;
        self.0.remember(&references, now()).map_err(unusable)?;
        Ok(Trust::of_directory(policy_file, policy, references))
    }

    /// The same trust, if none of its manifests is older than what this directory accepted before.
    pub(crate) fn held_against(&self, trust: Trust) -> Result<Trust, CommandError> {
        self.0.check_revisions(&trust.references).map_err(unusable)?;
        Ok(Trust { remembers: true, ..trust })
    }

    /// What is changed here must be what the join service reads.
    pub(crate) fn check_is_store(&self) -> Result<(), CommandError> {
        if !self.path(STORE).exists() {
            return Ok(());
        }
        let what = format!("the cluster of {} is kept in its API server", self.shown());
        let failure = CommandError::new(Exit::Usage, CommandCode::StoreElsewhere, what);
        Err(failure.fix(CommandCode::StoreElsewhere.remedy()))
    }

    /// Every manifest as its files have it.
    pub(crate) fn manifests(&self) -> Result<Vec<ManifestFiles>, CommandError> {
        let policy = self.0.policy().map_err(unusable)?;
        let found = self.0.manifests(&policy).map_err(unusable)?;
        let files = found.into_iter().map(|(path, _)| {
            let (manifest, signature) = Trust::manifest_file(&path)?;
            Ok((path, manifest, signature))
        });
        files.collect()
    }

    /// All nodes, by name, and what is wrong with records that cannot be read.
    pub(crate) fn nodes(&self) -> Result<(Vec<NodeRecord>, Vec<String>), CommandError> {
        let mut nodes = Vec::new();
        let mut wrong = Vec::new();
        for record in self.0.records().map_err(unusable)? {
            match record {
                Ok(record) => nodes.push(record.into_inner()),
                Err(error) => wrong.push(error.to_string()),
            }
        }
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        Ok((nodes, wrong))
    }

    /// The record of the node of this name.
    pub(crate) fn node_named(&self, name: &str) -> Result<NodeRecord, CommandError> {
        let found = self.nodes()?.0.into_iter().find(|node| node.name.as_str() == name);
        found.ok_or_else(|| {
            let failure =
                CommandError::new(Exit::Usage, CommandCode::NodeUnknown, format!("no node on record is called {name}"));
            failure.fix("see `latchkey node list`")
        })
    }

    /// The name on record of the machine with this TPM.
    pub(crate) fn name_of(&self, ek: EkDigest) -> Result<Option<String>, CommandError> {
        Ok(self.0.record(&ek).map_err(unusable)?.map(|record| record.name.to_string()))
    }

    /// The version of the master secret that a disk's key comes from, if a record names the disk as one in use.
    pub(crate) fn key_version_of(&self, disk: Uuid) -> Result<Option<KeyVersion>, CommandError> {
        let holders = self.0.holders(disk).map_err(unusable)?;
        Ok(holders.iter().find_map(|record| record.disk(disk)).and_then(|disk| KeyVersion::new(disk.key_version)))
    }

    /// Machines that wait for the operator.
    pub(crate) fn pending(&self) -> Result<Vec<PendingRecord>, CommandError> {
        self.0.pending().map_err(unusable)
    }

    /// TPMs that are shut out.
    pub(crate) fn denials(&self) -> Result<Denials, CommandError> {
        self.0.denials().map_err(unusable)
    }

    pub(crate) fn denial_reason(&self, ek: EkDigest) -> Result<String, CommandError> {
        self.0.denial_reason(&ek).map_err(unusable)
    }

    pub(crate) fn deny(&self, ek: EkDigest, reason: &str) -> Result<(), CommandError> {
        self.0.deny(&ek, reason).map_err(unusable)
    }

    pub(crate) fn allow(&self, ek: EkDigest) -> Result<bool, CommandError> {
        self.0.allow(&ek).map_err(unusable)
    }

    /// Gives a TPM a rule of its own.
    pub(crate) fn admit(&self, ek: EkDigest, role: RoleRule, name: Option<NodeName>) -> Result<(), CommandError> {
        let mut writer = self.0.writer().map_err(unusable)?;
        let mut rules = self.0.enrolment().map_err(unusable)?;
        rules.admit(ek, role, name);
        self.0.write_enrolment(&rules).map_err(unusable)?;
        writer.forget_pending(&ek).map_err(unusable)
    }

    /// Removes a machine's record and rule; whether there was one of them.
    pub(crate) fn remove(&self, ek: EkDigest) -> Result<bool, CommandError> {
        let mut writer = self.0.writer().map_err(unusable)?;
        let mut rules = self.0.enrolment().map_err(unusable)?;
        // The rule first: a machine that asks in between is not let in again.
        let had_rule = rules.forget(&ek);
        if had_rule {
            self.0.write_enrolment(&rules).map_err(unusable)?;
        }
        Ok(writer.remove(&ek).map_err(unusable)? || had_rule)
    }

    /// Puts policy, reference values and join rules there for the join service, where there are none yet.
    pub(crate) fn adopt(&self, trust: &Trust) -> Result<(), CommandError> {
        let mut writer = self.0.writer().map_err(unusable)?;
        self.0.check_revisions(&trust.references).map_err(unusable)?;
        for Found { name, manifest, signature } in &trust.manifests {
            let path = self.0.references_path().join(format!("{name}.json"));
            if !path.exists() && !self.path("reference.json").exists() {
                self.0.make_references().map_err(unusable)?;
                writer.put_manifest(&trust.policy, &path, manifest, signature.as_deref()).map_err(unusable)?;
            }
        }
        let policy = self.path("policy.json");
        if !policy.exists() {
            files::replace(&policy, &trust.policy_file, Readers::Anyone)?;
        }
        // What the join service will read must be usable before a node depends on it.
        let references = self.0.policy().and_then(|policy| self.0.references(&policy)).map_err(unusable)?;
        writer.remember(&references, now()).map_err(unusable)?;
        drop(writer);
        if self.path("enrolment.json").exists() {
            return Ok(());
        }
        // Who trusts a vendor does not know whose machines will come; who pins TPMs has named them.
        let rules = if trust.policy.trusts_authority() { Enrolment::hold_all() } else { Enrolment::workers_and([]) };
        self.0.write_enrolment(&rules).map_err(unusable)
    }

    /// Puts a revision of a manifest in force, in the place of the one before, if the directory's policy takes it.
    pub(crate) fn install(
        &self,
        path: &Path,
        options: InstallOptions,
    ) -> Result<(AuthenticManifest, PathBuf), CommandError> {
        let policy = self.0.policy().map_err(unusable)?;
        let (manifest, signature) = Trust::manifest_file(path)?;
        let revision = trust::authentic(path, &policy, manifest.clone(), signature.clone())?;
        // Another installation may be under way: what is looked at from here on stays until this one is remembered.
        let mut writer = self.0.writer().map_err(unusable)?;
        let name = revision.values().name().clone();
        let mut target = self.0.references_path().join(format!("{name}.json"));
        let (mut all, mut before) = (vec![revision.clone()], None);
        for (path, found) in self.0.manifests(&policy).map_err(unusable)? {
            if *found.values().name() != name {
                all.push(found);
                continue;
            }
            target = path;
            before = Some(found);
        }
        let references = trust::fitting(&policy, all)?;
        if !options.replace_newer {
            self.0.check_revisions(&references).map_err(unusable)?;
        }
        if let Some(before) = before.filter(|_| !options.forget_revocations) {
            keeps_revocations(&before, &revision)?;
        }
        if options.replace_newer {
            // Before the file is there: stopped in between, the newer revision is still in force, and this can be done again.
            writer.go_back_to(&revision, now()).map_err(unusable)?;
        }
        self.0.make_references().map_err(unusable)?;
        writer.put_manifest(&policy, &target, &manifest, signature.as_deref()).map_err(unusable)?;
        writer.remember(&references, now()).map_err(unusable)?;
        Ok((revision, target))
    }

    /// The witness for this disk in this machine, by the record.
    pub(crate) fn release(&self, ek: EkDigest, disk: Uuid) -> Result<DiskRelease, CommandError> {
        self.0.release(&ek, disk).map_err(not_released)
    }

    /// Puts a disk on the record of another machine, because the operator says that it is there now; and the machine that it was
    /// of, if it was not of this one before.
    pub(crate) fn move_disk(&self, disk: Uuid, to: EkDigest) -> Result<(DiskRelease, Option<EkDigest>), CommandError> {
        check_not_denied(&self.0.denials().map_err(unusable)?, &to).map_err(|refusal| refused(&refusal))?;
        let mut writer = self.0.writer().map_err(unusable)?;
        let before = self.0.holders(disk).map_err(unusable)?.into_iter().find(|record| record.ek_sha256 != to);
        let Some(before) = before else { return Ok((self.release(to, disk)?, None)) };
        // A disk that was replaced is nobody's any more, wherever it is.
        drop(before.release(disk).map_err(|refusal| refused(&refusal))?);
        let moved = writer.move_record(&before, to, now()).map_err(|error| match error {
            StoreError::Exists { .. } => {
                let failure = CommandError::new(
                    Exit::Usage,
                    CommandCode::MachineOnRecord,
                    format!("the TPM {to} has a record of its own"),
                );
                failure
                    .fix("remove that record with `latchkey node remove`, if the machine is to have this disk instead")
            }
            other => unusable(other),
        })?;
        let release = moved.release(disk).map_err(|refusal| refused(&refusal))?;
        Ok((release, Some(before.ek_sha256)))
    }

    /// The cluster exists from here on: its first node is locked on it.
    pub(crate) fn initialise(&self, cluster: &ClusterFile, first: &FirstNode) -> Result<(), CommandError> {
        let mut writer = self.0.writer().map_err(unusable)?;
        let mut record = self.first_record(first, cluster.key_version)?;
        if let Some(seen) = &first.seen {
            record.keep(seen, now());
        }
        if self.cluster()?.is_some() { writer.put(&record).map(drop) } else { writer.initialise(cluster, &record) }
            .map_err(unusable)
    }

    /// How the first node's bootstrap ended.
    pub(crate) fn report(&self, first: &FirstNode, outcome: Outcome) -> Result<(), CommandError> {
        let mut writer = self.0.writer().map_err(unusable)?;
        let Some(record) = self.0.record(&first.ek).map_err(unusable)? else { return Ok(()) };
        let mut record = record.into_inner();
        if outcome == Outcome::Succeeded {
            for disk in record.disks.iter_mut().filter(|disk| disk.uuid == first.disk) {
                disk.state = DiskState::Confirmed;
            }
            if !first.addresses.is_empty() {
                record.addresses.clone_from(&first.addresses);
            }
        }
        if let Some(boot) = first.locked {
            record.keep_lock(boot);
        }
        record.reported = Some(Reported { at: now(), disk: first.disk, outcome });
        writer.put(&record).map(drop).map_err(unusable)
    }

    /// The record of a node that begins the cluster, with what an earlier attempt on it left behind.
    fn first_record(&self, first: &FirstNode, key_version: u32) -> Result<NodeRecord, CommandError> {
        let name = first.name.parse::<NodeName>();
        let name = name.map_err(|error| CommandError::new(Exit::Node, CommandCode::NodeName, error.to_string()))?;
        let earlier = self.0.record(&first.ek).map_err(unusable)?;
        let earlier = match earlier {
            Some(record) if record.disk(first.disk).is_some() => return Ok(record.into_inner()),
            other => other,
        };
        let fresh = NodeRecord::first(first.ek, name, Role::ControlPlane, first.disk, key_version, now());
        // Another disk makes no other machine of it: what is on record of its firmware and TPM stays there.
        let earlier = earlier.map(Recorded::into_inner);
        let retired = earlier.as_ref().map(|record| record.uuids().collect()).unwrap_or_default();
        let (firmware, tpm) = earlier.map(|record| (record.firmware, record.tpm)).unwrap_or_default();
        Ok(NodeRecord { retired, firmware, tpm, ..fresh })
    }
}

impl Trust {
    /// From `--policy` and `--reference`, held against what a cluster's directory remembers where `--cluster` names one; or
    /// all of it from that directory.
    pub(crate) fn from_files_or_directory(arguments: &Arguments) -> Result<Self, CommandError> {
        let directory = arguments.path("cluster").map(ClusterDir::open).transpose()?;
        match directory {
            None => Self::from_arguments(arguments),
            Some(directory) if arguments.has("policy") => directory.held_against(Self::from_arguments(arguments)?),
            Some(_) if arguments.has("reference") => Err(CommandError::usage("--reference goes with --policy")),
            Some(directory) => directory.trust(),
        }
    }
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

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(crate) fn unusable(error: StoreError) -> CommandError {
    if let StoreError::Malformed { path, fault: ContentError::Attestation(refusal) } = &error {
        return CommandError::refused(Exit::Usage, format!("{} cannot be used", path.display()), refusal);
    }
    let code = match &error {
        StoreError::Io { .. } | StoreError::Elsewhere { .. } => CommandCode::DirectoryUnusable,
        StoreError::Malformed { .. } => CommandCode::FileMalformed,
        StoreError::Exists { .. } => CommandCode::ClusterExists,
    };
    let exit = if matches!(error, StoreError::Malformed { .. }) { Exit::Usage } else { Exit::Failed };
    CommandError::new(exit, code, error.to_string())
}

fn not_released(error: ReleaseError) -> CommandError {
    match error {
        ReleaseError::Refused(refusal) => refused(&refusal),
        ReleaseError::Store(error) => unusable(error),
    }
}

/// The machine proved what it runs, and is not the one that the key is for.
pub(crate) fn refused(refusal: &ReleaseRefusal) -> CommandError {
    let code = refusal.code();
    CommandError::new(Exit::Attestation, code, refusal.to_string())
}
