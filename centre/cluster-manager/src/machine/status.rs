//! The entry of the application "Edge cluster setup status": what a machine remembers.

use latchkey_factory_plus::cluster::Configuration;
use latchkey_factory_plus::{Role, Uuid};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Site, Trouble};

/// How far a cluster's set-up is. The document calls the entry private, but for `ready`; the fields `spec`,
/// `self_link` and those of the accounts are named as the original names them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetupStatus {
    /// What the cluster is set up for; its name is the cluster's for life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<Configuration>,
    /// The account of Flux.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flux: Option<Account>,
    /// The account of the operator of keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub krbkeys: Option<Account>,
    /// The account of Edge Sync.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync: Option<Account>,
    /// The account of Edge Monitor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitor: Option<Account>,
    /// The manifests that link an edge to its repository, as YAML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub self_link: Option<String>,
    /// Whether the cluster can be bootstrapped.
    pub ready: bool,
    /// What is being done, or was done last.
    pub phase: Phase,
    /// When the phase began: milliseconds since 1970.
    pub since: u64,
    /// When this was written: milliseconds since 1970.
    pub updated: u64,
    /// How often the repository was written.
    pub generation: u64,
    /// SHA-256 of the repository's files, in hexadecimal: what was written last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rendered: Option<String>,
    /// How often the present step failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempt: u32,
    /// What failed last, until something was done again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Trouble>,
    /// Whether the cluster's principals were disabled, or may have been.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// Whether somebody asked for everything to be removed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub decommission: bool,
}

/// An account of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// Its object.
    pub uuid: Uuid,
    /// Whether it is complete: object, name, class, grants, principal.
    pub done: bool,
}

/// What is being done to a cluster, or was done last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The configuration is refused, and nothing was made for it.
    Refused,
    /// Its address and accounts are being made.
    Accounts,
    /// Its repository is being made.
    Repository,
    /// It is set up.
    Ready,
    /// Its rights are being revoked.
    Deleting,
    /// It has no rights; its UUIDs are kept for the day that its configuration comes back.
    Deleted,
    /// Everything of it is being removed.
    Decommissioning,
    /// Nothing is left of it but its name, which nobody gets while credentials of its accounts may still serve.
    Decommissioned,
}

/// A stored status that cannot be read. Nothing is done with it: overwriting it would lose the UUIDs of accounts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the stored setup status cannot be read ({0}); mend the entry, or delete it when nothing was made for the cluster"
)]
pub struct StatusError(String);

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl SetupStatus {
    /// Reads a stored entry.
    pub fn read(entry: &Value) -> Result<Self, StatusError> {
        let status = Self::deserialize(entry).map_err(|error| StatusError(error.to_string()))?;
        let accounts = Role::ALL.iter().filter(|role| status.account(**role).is_some()).count();
        match (accounts, &status.spec) {
            (0, None) | (4, Some(_)) => Ok(status),
            (0, Some(_)) if status.phase == Phase::Decommissioned => Ok(status),
            _ => Err(StatusError("it has some accounts, but not all four with the spec they are for".into())),
        }
    }

    /// An empty one, of a cluster for which nothing was made.
    pub(super) fn new(now: u64) -> Self {
        Self {
            spec: None,
            flux: None,
            krbkeys: None,
            sync: None,
            monitor: None,
            self_link: None,
            ready: false,
            phase: Phase::Refused,
            since: now,
            updated: now,
            generation: 0,
            rendered: None,
            attempt: 0,
            error: None,
            disabled: false,
            decommission: false,
        }
    }

    /// The account of a role; all roles have one, or none has.
    pub const fn account(&self, role: Role) -> Option<Account> {
        match role {
            Role::Flux => self.flux,
            Role::KrbKeys => self.krbkeys,
            Role::Sync => self.sync,
            Role::Monitor => self.monitor,
        }
    }

    pub(super) fn place(&mut self, role: Role, account: Account) {
        let place = match role {
            Role::Flux => &mut self.flux,
            Role::KrbKeys => &mut self.krbkeys,
            Role::Sync => &mut self.sync,
            Role::Monitor => &mut self.monitor,
        };
        *place = Some(account);
    }

    pub(super) fn drop_accounts(&mut self) {
        (self.flux, self.krbkeys, self.sync, self.monitor) = (None, None, None, None);
    }

    pub(super) fn mark_accounts(&mut self, done: bool) {
        for role in Role::ALL {
            if let Some(account) = self.account(role) {
                self.place(role, Account { done, ..account });
            }
        }
    }

    pub(super) fn enter(&mut self, phase: Phase, now: u64) {
        if self.phase != phase {
            self.phase = phase;
            self.since = now;
        }
        self.attempt = 0;
        self.error = None;
    }

    /// Until when nobody gets the name of a cluster that was decommissioned: milliseconds since 1970.
    pub(super) fn held_until(&self, site: &Site) -> Option<u64> {
        (self.phase == Phase::Decommissioned).then(|| self.since.saturating_add(site.names_held_ms))
    }

    /// Whether UUIDs of accounts are recorded.
    pub(super) const fn has_accounts(&self) -> bool {
        self.flux.is_some()
    }

    /// Whether all accounts are complete.
    pub(super) fn accounts_done(&self) -> bool {
        Role::ALL.iter().all(|role| self.account(*role).is_some_and(|account| account.done))
    }
}
