//! The world of a simulation: a configuration database, an authorisation service, a git server and a KDC, as maps.

use std::collections::{BTreeMap, BTreeSet};

use latchkey_factory_plus::cluster::SparkplugAddress;
use latchkey_factory_plus::grants::Grant;
use latchkey_factory_plus::{ClusterName, Role, Upn, Uuid, uuids};
use serde_json::Value;

use crate::machine::{Answer, Effect, Phase, SetupStatus};
use crate::manifests::fixture;

/// What becomes of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Done,
    /// Done, and the answer is lost.
    AnswerLost,
    /// The request is lost.
    RequestLost,
    Refused,
}

#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) configurations: BTreeMap<Uuid, Value>,
    pub(super) statuses: BTreeMap<Uuid, Value>,
    pub(super) edge_statuses: BTreeSet<Uuid>,
    /// Clusters with a record of a bootstrap link, and whether the link is live.
    pub(super) links: BTreeMap<Uuid, bool>,
    pub(super) objects: BTreeMap<Uuid, Uuid>,
    pub(super) infos: BTreeMap<Uuid, String>,
    pub(super) addresses: BTreeMap<Uuid, SparkplugAddress>,
    pub(super) repositories: BTreeMap<Uuid, String>,
    pub(super) members: BTreeSet<(Uuid, Uuid)>,
    pub(super) identities: BTreeMap<Uuid, Upn>,
    pub(super) grants: BTreeSet<Grant>,
    /// Principals, and whether each is enabled.
    pub(super) principals: BTreeMap<Upn, bool>,
    pub(super) files: BTreeMap<Uuid, BTreeMap<String, String>>,
    /// How often a repository's files changed.
    pub(super) commits: BTreeMap<Uuid, u64>,
}

impl World {
    pub(super) fn carry_out(&mut self, cluster: Uuid, effect: &Effect, fate: Fate) -> Answer {
        if let Fate::RequestLost = fate {
            return Answer::Unreachable("connection refused".into());
        }
        if let Fate::Refused = fate {
            return Answer::Refused { status: 503, detail: "try later".into() };
        }
        self.intent_comes_first(cluster, effect);
        match (self.apply(cluster, effect), fate) {
            (_, Fate::AnswerLost) => Answer::Unreachable("connection reset".into()),
            (answer, _) => answer,
        }
    }

    pub(super) fn status(&self, cluster: Uuid) -> Option<SetupStatus> {
        self.statuses.get(&cluster).map(|entry| SetupStatus::read(entry).unwrap())
    }

    /// Nothing is made by a UUID that is not recorded, nothing is undone that is recorded as done.
    fn intent_comes_first(&self, cluster: Uuid, effect: &Effect) {
        let status = self.status(cluster);
        let accounts: Vec<Uuid> = status.iter().flat_map(accounts).map(|(uuid, _)| uuid).collect();
        let made = match effect {
            Effect::CreateObject { uuid, .. } => Some(*uuid),
            Effect::PutIdentity { account, .. } => Some(*account),
            Effect::CreateGrant(grant) => Some(grant.principal),
            _ => None,
        };
        if let Some(made) = made {
            assert!(accounts.contains(&made), "{effect:?} before its UUID was recorded");
        }
        let undoes = matches!(
            effect,
            Effect::DeleteGrants { .. }
                | Effect::DeleteIdentity { .. }
                | Effect::DisablePrincipals { .. }
                | Effect::DeletePrincipals { .. }
                | Effect::DeleteGitRepository
                | Effect::DeleteRepository
        );
        if undoes {
            let status = status.expect("a status while something is undone");
            assert!(!status.ready && status.disabled && accounts_undone(&status), "{effect:?} before it was noted");
        }
        if matches!(effect, Effect::DeletePrincipals { .. } | Effect::DeleteRepository | Effect::DeleteObject { .. }) {
            assert_eq!(self.status(cluster).map(|status| status.phase), Some(Phase::Decommissioning));
        }
    }

    fn apply(&mut self, cluster: Uuid, effect: &Effect) -> Answer {
        match effect.clone() {
            Effect::Record(status) => drop(self.statuses.insert(cluster, serde_json::to_value(status).unwrap())),
            Effect::Forget => drop(self.statuses.remove(&cluster)),
            Effect::CreateObject { uuid, class } => drop(self.objects.insert(uuid, class)),
            Effect::DeleteObject { uuid } => {
                self.objects.remove(&uuid);
                self.infos.remove(&uuid);
            }
            Effect::PutInfo { object, name } => drop(self.infos.insert(object, name)),
            Effect::PutSparkplugAddress { object, address } => drop(self.addresses.insert(object, address)),
            Effect::DeleteSparkplugAddress { object } => drop(self.addresses.remove(&object)),
            Effect::PutGitRepository(repository) => drop(self.repositories.insert(cluster, repository.path)),
            Effect::DeleteGitRepository => drop(self.repositories.remove(&cluster)),
            Effect::AddMember { class, object } => drop(self.members.insert((class, object))),
            Effect::RemoveMember { class, object } => drop(self.members.remove(&(class, object))),
            Effect::PutIdentity { account, upn } => return self.identify(account, upn),
            Effect::DeleteIdentity { account } => drop(self.identities.remove(&account)),
            Effect::CreateGrant(grant) => drop(self.grants.insert(grant)),
            Effect::DeleteGrants { account } => self.grants.retain(|grant| grant.principal != account),
            Effect::EnablePrincipal { upn } => {
                if let Some(enabled) = self.principals.get_mut(&upn) {
                    *enabled = true;
                }
            }
            Effect::DisablePrincipals { name } => {
                let of_cluster = self.principals.iter_mut().filter(|(principal, _)| is_of(principal, &name));
                of_cluster.for_each(|(_, enabled)| *enabled = false);
            }
            Effect::DeletePrincipals { name } => self.principals.retain(|principal, _| !is_of(principal, &name)),
            Effect::ReadTemplates { .. } => return Answer::Templates(Box::new(fixture::templates())),
            Effect::WriteRepository { files } => {
                // The git server has no such repository otherwise.
                if !self.repositories.contains_key(&cluster) {
                    return Answer::Refused { status: 404, detail: "no such repository".into() };
                }
                if self.files.insert(cluster, files.clone()) != Some(files) {
                    *self.commits.entry(cluster).or_default() += 1;
                }
            }
            Effect::DeleteRepository => drop(self.files.remove(&cluster)),
            Effect::RevokeLinks => {
                if let Some(live) = self.links.get_mut(&cluster) {
                    *live = false;
                }
            }
            Effect::ForgetLinks => drop(self.links.remove(&cluster)),
            Effect::DeleteEdgeStatus => drop(self.edge_statuses.remove(&cluster)),
            Effect::SetTimer { .. } => unreachable!("the driver's"),
        }
        Answer::Done
    }

    fn identify(&mut self, account: Uuid, upn: Upn) -> Answer {
        if self.identities.iter().any(|(other, taken)| *other != account && *taken == upn) {
            return Answer::Refused { status: 409, detail: "the principal is another's".into() };
        }
        self.identities.insert(account, upn);
        Answer::Done
    }

    /// What the bootstrap script and the edge do: principals of the four accounts, one of an agent, a status.
    pub(super) fn bootstrap(&mut self, cluster: Uuid) {
        let Some(status) = self.status(cluster).filter(|status| status.ready) else { return };
        let name = status.spec.unwrap().name;
        let realm = "EXAMPLE.ORG".parse().unwrap();
        for role in Role::ALL {
            self.principals.entry(role.upn(&name, &realm)).or_insert(true);
        }
        self.principals.entry(format!("nd1/{name}/Agent@{realm}").parse().unwrap()).or_insert(true);
        self.edge_statuses.insert(cluster);
        self.links.insert(cluster, true);
    }

    /// Account objects that no status knows.
    pub(super) fn orphans(&self) -> Vec<Uuid> {
        let known: BTreeSet<Uuid> = self
            .statuses
            .keys()
            .filter_map(|cluster| self.status(*cluster))
            .flat_map(|status| accounts(&status))
            .map(|(uuid, _)| uuid)
            .collect();
        let accounts = self.objects.iter().filter(|(_, class)| **class == uuids::class::EDGE_SERVICE);
        let objects = accounts.map(|(uuid, _)| *uuid);
        let principals = self.grants.iter().map(|grant| grant.principal).chain(self.identities.keys().copied());
        objects.chain(principals).filter(|uuid| !known.contains(uuid)).collect()
    }
}

pub(super) fn accounts(status: &SetupStatus) -> Vec<(Uuid, bool)> {
    let accounts = [status.flux, status.krbkeys, status.sync, status.monitor];
    accounts.into_iter().flatten().map(|account| (account.uuid, account.done)).collect()
}

fn accounts_undone(status: &SetupStatus) -> bool {
    accounts(status).iter().all(|(_, done)| !done)
}

/// Whether the second component of a principal is the cluster's name.
pub(super) fn is_of(principal: &Upn, name: &ClusterName) -> bool {
    principal.components().nth(1) == Some(name.as_str())
}
