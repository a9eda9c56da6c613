//! What a machine is told, and what it wants done.

use std::collections::BTreeMap;

use latchkey_factory_plus::cluster::{GitRepository, SparkplugAddress};
use latchkey_factory_plus::grants::Grant;
use latchkey_factory_plus::{ClusterName, Upn, Uuid};
use serde_json::Value;

use super::SetupStatus;
use crate::manifests::Templates;

/// Random bytes that go with each event: four UUIDs and a wait.
pub const RANDOM_BYTES: usize = 4 * 16 + 8;

/// When something happened, with random bytes for it. A driver draws them anew for each event.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// Milliseconds since 1970.
    pub now: u64,
    /// From the system's random numbers.
    pub random: [u8; RANDOM_BYTES],
}

impl Moment {
    /// The UUID number `place`, below 4.
    pub(super) fn uuid(&self, place: usize) -> Uuid {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.random[place * 16..][..16]);
        Uuid::from_random(bytes)
    }

    pub(super) fn jitter(&self) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.random[4 * 16..]);
        u64::from_le_bytes(bytes)
    }
}

/// What a driver saw.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The cluster's entry of "Edge cluster configuration" as it stands now; `None` where there is none. Also at the
    /// start.
    Configuration(Option<Value>),
    /// What became of an order.
    Answer {
        /// The order's.
        id: u64,
        /// What became of it.
        answer: Answer,
    },
    /// A timer that was set has run out.
    Timer {
        /// That of the order that set it.
        id: u64,
    },
    /// Templates or the site's set-up may have changed: a cluster that is set up gets its repository rewritten if it
    /// differs.
    Refresh,
    /// A name that the cluster wants may have become free.
    Again,
    /// An operator wants everything of a deleted cluster removed.
    Decommission,
}

/// An effect that is to be carried out now.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// What its answer names; no other order of this machine has it.
    pub id: u64,
    /// What to do.
    pub effect: Effect,
}

/// What became of an order.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The world is as the effect wants it.
    Done,
    /// The entries that [`Effect::ReadTemplates`] asks for.
    Templates(Box<Templates>),
    /// A service refused.
    Refused {
        /// Its HTTP status, or the nearest one.
        status: u16,
        /// What it said.
        detail: String,
    },
    /// No answer came; the effect may have been done.
    Unreachable(String),
}

/// Something that a driver does. Each can be repeated.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Write the cluster's entry of "Edge cluster setup status".
    Record(Box<SetupStatus>),
    /// Delete that entry.
    Forget,
    /// Create an object with this UUID.
    CreateObject {
        /// The object.
        uuid: Uuid,
        /// Its class.
        class: Uuid,
    },
    /// Delete an object.
    DeleteObject {
        /// The object.
        uuid: Uuid,
    },
    /// Write the name that people know an object by.
    PutInfo {
        /// The object.
        object: Uuid,
        /// The name.
        name: String,
    },
    /// Write an object's Sparkplug address.
    PutSparkplugAddress {
        /// The cluster, or an account.
        object: Uuid,
        /// The address.
        address: SparkplugAddress,
    },
    /// Delete an object's Sparkplug address.
    DeleteSparkplugAddress {
        /// The cluster, or an account.
        object: Uuid,
    },
    /// Write the cluster's entry of "Git repository configuration": the repository exists from then on.
    PutGitRepository(GitRepository),
    /// Delete that entry: nobody reads or writes the repository, and its contents stay.
    DeleteGitRepository,
    /// Make an object a member of a class.
    AddMember {
        /// The class.
        class: Uuid,
        /// The object.
        object: Uuid,
    },
    /// End that.
    RemoveMember {
        /// The class.
        class: Uuid,
        /// The object.
        object: Uuid,
    },
    /// Give an account its Kerberos principal.
    PutIdentity {
        /// The account.
        account: Uuid,
        /// `op1ROLE/NAME@REALM`.
        upn: Upn,
    },
    /// Take it away.
    DeleteIdentity {
        /// The account.
        account: Uuid,
    },
    /// Make a grant.
    CreateGrant(Grant),
    /// End all grants that name an account.
    DeleteGrants {
        /// The account.
        account: Uuid,
    },
    /// Let the KDC give tickets to a principal again, if it exists.
    EnablePrincipal {
        /// `op1ROLE/NAME@REALM`.
        upn: Upn,
    },
    /// Let the KDC give no tickets to any principal `x/NAME@REALM` and `x/NAME/y@REALM`: also those that the edge made.
    DisablePrincipals {
        /// The cluster's name.
        name: ClusterName,
    },
    /// Delete all principals `x/NAME@REALM` and `x/NAME/y@REALM`.
    DeletePrincipals {
        /// The cluster's name.
        name: ClusterName,
    },
    /// Read the entries that the repository is made of; answered by [`Answer::Templates`].
    ReadTemplates {
        /// The entry of "Helm chart template".
        chart: Uuid,
    },
    /// Make `README.md` and everything below [`DIRECTORY`](crate::manifests::DIRECTORY) these files, in one commit on
    /// `main`; other directories (sealed secrets) stay.
    WriteRepository {
        /// Contents by path.
        files: BTreeMap<String, String>,
    },
    /// Delete the repository's contents.
    DeleteRepository,
    /// End all bootstrap links of the cluster: [`Links::revoke_all`](crate::links::Links::revoke_all).
    RevokeLinks,
    /// Drop their records: [`Links::forget`](crate::links::Links::forget).
    ForgetLinks,
    /// Delete what the edge said of itself: its entry of "Edge cluster status".
    DeleteEdgeStatus,
    /// Tell [`Event::Timer`] later. A machine that was told something else meanwhile ignores it.
    SetTimer {
        /// In how many milliseconds.
        after_ms: u64,
    },
}

/// Who carries out an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// The configuration database.
    ConfigDb,
    /// The authorisation service.
    Auth,
    /// The git server.
    Git,
    /// The KDC.
    Kerberos,
    /// The cluster manager's own store of bootstrap links.
    Links,
}

impl Service {
    /// What people call it.
    pub const fn title(self) -> &'static str {
        match self {
            Self::ConfigDb => "the configuration database",
            Self::Auth => "the authorisation service",
            Self::Git => "the git server",
            Self::Kerberos => "the KDC",
            Self::Links => "the store of bootstrap links",
        }
    }
}

impl Effect {
    /// The object that this takes something from, which there need not be any more.
    pub const fn takes_from(&self) -> Option<Uuid> {
        match self {
            Self::DeleteObject { uuid } => Some(*uuid),
            Self::RemoveMember { object, .. } => Some(*object),
            Self::DeleteIdentity { account } => Some(*account),
            _ => None,
        }
    }

    /// Who carries it out.
    pub const fn service(&self) -> Service {
        match self {
            Self::PutIdentity { .. }
            | Self::DeleteIdentity { .. }
            | Self::CreateGrant(_)
            | Self::DeleteGrants { .. } => Service::Auth,
            Self::WriteRepository { .. } | Self::DeleteRepository => Service::Git,
            Self::EnablePrincipal { .. } | Self::DisablePrincipals { .. } | Self::DeletePrincipals { .. } => {
                Service::Kerberos
            }
            Self::RevokeLinks | Self::ForgetLinks => Service::Links,
            _ => Service::ConfigDb,
        }
    }

    /// What it does, after "could not".
    pub fn purpose(&self) -> String {
        match self {
            Self::Record(_) => "record how far the set-up is".into(),
            Self::Forget => "delete the setup status".into(),
            Self::CreateObject { uuid, .. } => format!("create the account {uuid}"),
            Self::DeleteObject { uuid } => format!("delete the account {uuid}"),
            Self::PutInfo { name, .. } => format!("write the name {name:?}"),
            Self::PutSparkplugAddress { address, .. } => {
                format!("write an address in the Sparkplug group {}", address.group_id)
            }
            Self::DeleteSparkplugAddress { .. } => "delete a Sparkplug address".into(),
            Self::PutGitRepository(repository) => format!("configure the repository {}", repository.path),
            Self::DeleteGitRepository => "delete the repository's configuration".into(),
            Self::AddMember { class, object } => format!("make {object} a member of {class}"),
            Self::RemoveMember { class, object } => format!("end the membership of {object} in {class}"),
            Self::PutIdentity { upn, .. } => format!("give the principal {upn} to its account"),
            Self::DeleteIdentity { account } => format!("take the principal of {account} away"),
            Self::CreateGrant(grant) => format!("grant {} to {}", grant.permission, grant.principal),
            Self::DeleteGrants { account } => format!("revoke the grants of {account}"),
            Self::EnablePrincipal { upn } => format!("enable the principal {upn}"),
            Self::DisablePrincipals { name } => format!("disable the principals of {name}"),
            Self::DeletePrincipals { name } => format!("delete the principals of {name}"),
            Self::ReadTemplates { chart } => format!("read the templates for the chart {chart}"),
            Self::WriteRepository { .. } => "write the cluster's repository".into(),
            Self::DeleteRepository => "delete the cluster's repository".into(),
            Self::RevokeLinks => "revoke the bootstrap links".into(),
            Self::ForgetLinks => "drop the records of bootstrap links".into(),
            Self::DeleteEdgeStatus => "delete the edge's status".into(),
            Self::SetTimer { .. } => "wait".into(),
        }
    }
}
