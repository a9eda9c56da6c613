//! What an init learns, and where it is kept: journal, records, credentials.

use latchkey_api::SentCode;
use latchkey_api::v1::{Failed, Succeeded};
use latchkey_attestation::EkDigest;
use latchkey_cluster_store::{ClusterFile, NodeRecord, Outcome, parse_addresses};
use latchkey_durable_file::Links;
use latchkey_keys::Uuid;

use super::{AdminConfig, Attempt, Drive, Goal};
use crate::clock::now;
use crate::cluster_dir::FirstNode;
use crate::codes::{CommandCode, ErrorCode};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files::{self, Readers};
use crate::firmware;
use crate::init::journal::Stage;
use crate::node::{ConnectError, Node};
use crate::output::{Tone, printable};

impl Drive<'_> {
    /// The cluster exists from here on: its id is in a TPM and on a disk.
    pub(super) fn locked(&mut self, ek: EkDigest, disk: Uuid) -> Attempt<()> {
        let (name, version) = (&self.job.name, self.journal.key_version.number());
        let salt = self.journal.salt().map_err(ConnectError::Fatal)?;
        let cluster = ClusterFile::new(name, self.journal.cluster_id, salt, version, now());
        let first = self.first(ek, disk);
        self.job.directory.initialise(&cluster, &first).map_err(ConnectError::Fatal)?;
        self.enter(Stage::Locked { ek, disk })?;
        self.goal = Goal::Attach;
        self.output.say(Tone::Good, "locked", &format!("on cluster {}", self.journal.cluster_id));
        self.output.waiting("the node changes to its operating system");
        Ok(())
    }

    pub(super) fn succeeded(&mut self, mut succeeded: Succeeded) -> Attempt<AdminConfig> {
        self.ours(&succeeded.cluster_id)?;
        let config = succeeded.take_admin_config();
        self.addresses = parse_addresses(&succeeded.addresses).unwrap_or_else(|| {
            let what = "the node does not say where its kubelet serves; nobody approves its serving certificate";
            self.output.say(Tone::Warning, "warning", what);
            Vec::new()
        });
        let written = if config.is_empty() {
            AdminConfig::None
        } else {
            AdminConfig::Written(self.keep_admin_config(&config).map_err(ConnectError::Fatal)?)
        };
        self.note(Outcome::Succeeded)?;
        if let Some((ek, disk)) = self.journal.stage.machine() {
            self.enter(Stage::Done { ek, disk })?;
        }
        Ok(written)
    }

    /// The node gives them to one command. If the file cannot be made, another place is better than none.
    fn keep_admin_config(&self, config: &[u8]) -> Result<std::path::PathBuf, CommandError> {
        let wanted = self.job.admin_config.clone();
        // An earlier run of this init came so far.
        if files::read_regular(&wanted, config.len(), Links::Refused).is_ok_and(|kept| kept == config) {
            return Ok(wanted);
        }
        match files::write_new(&wanted, config, Readers::OwnerOnly) {
            Ok(()) => Ok(wanted),
            Err(failure) => {
                let other = self.job.directory.path(&format!("admin-{}.conf", now()));
                self.output.say(Tone::Warning, "warning", &format!("{}; using {}", failure.what, other.display()));
                files::write_new(&other, config, Readers::OwnerOnly).map(|()| other)
            }
        }
    }

    pub(super) fn bootstrap_failed(&mut self, failed: &Failed) -> ConnectError {
        let error = self.failed("the cluster's bootstrap failed", failed);
        let outcome = Outcome::Failed { code: printable(&failed.code), message: printable(&failed.message) };
        let noted = self.note(outcome);
        // The node starts anew: this init may, too, with the same salt.
        let noted = if failed.disk_reset { noted.and_then(|()| self.enter(Stage::Prepared)) } else { noted };
        noted.err().unwrap_or(error)
    }

    fn first(&self, ek: EkDigest, disk: Uuid) -> FirstNode {
        let (name, seen, locked) = (self.node_name.clone(), self.seen.clone(), self.locked_boot);
        FirstNode { ek, name, disk, seen, locked, addresses: self.addresses.clone() }
    }

    /// The machine may be on record, by an earlier run of this init.
    pub(super) fn hold_against_record(&mut self, node: &Node) -> Attempt<()> {
        let seen = node.seen(&self.job.trust.policy);
        let checked = firmware::check_boot(&self.job.directory, node.admission.ek_digest(), &seen, self.output);
        checked.map_err(ConnectError::Fatal)?;
        self.seen = Some(seen);
        Ok(())
    }

    /// Keeps with the node's record how its bootstrap ended.
    pub(super) fn note(&self, outcome: Outcome) -> Attempt<()> {
        let Some((ek, disk)) = self.journal.stage.machine() else { return Ok(()) };
        let first = self.first(ek, disk);
        let status = |record: &NodeRecord| self.journal.status(record);
        self.job.directory.report(&first, outcome, status).map_err(ConnectError::Fatal)
    }

    pub(super) fn failed(&self, what: &str, failed: &Failed) -> ConnectError {
        self.follower.show_log(&failed.log_tail);
        let code = SentCode::parse(&failed.code).map_or(CommandCode::CallFailed.into(), ErrorCode::from_node);
        let failure =
            CommandError::new(Exit::Node, code.clone(), format!("{what}: {}", code.as_str())).because(&failed.message);
        ConnectError::Fatal(failure.fix(if failed.disk_reset {
            "fix the cause; the node resets its disk and restarts, and the same command begins anew"
        } else {
            "fix the cause, restart the node, and run the same command again"
        }))
    }

    pub(super) fn silent(&self) -> ConnectError {
        ConnectError::lost(&self.job.address, CommandCode::ConnectionLost, "the node ended the call without a result")
    }

    pub(super) fn out_of_turn(&self, got: &str) -> ConnectError {
        let what = format!("the node at {} says what it must not say here: {got}", self.job.address);
        ConnectError::Fatal(
            CommandError::new(Exit::Node, CommandCode::OutOfTurn, what).fix("run the same release on both sides"),
        )
    }

    pub(super) fn enter(&mut self, stage: Stage) -> Attempt<()> {
        self.journal.enter(&self.job.directory, stage).map_err(ConnectError::Fatal)
    }
}
