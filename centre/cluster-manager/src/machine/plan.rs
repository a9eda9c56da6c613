//! What is to be done, in its order.

use std::collections::VecDeque;

use latchkey_factory_plus::cluster::{Configuration, GitRepository, SparkplugAddress};
use latchkey_factory_plus::{Role, Uuid, uuids};

use super::{Effect, Refusal, SetupStatus, Site};

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// An effect in the world.
    Do(Effect),
    /// Read templates and make the files; where they differ from what was written last, this becomes their writing.
    Render(Box<Configuration>),
    /// Note something in the status, and record it.
    Note(Note),
    /// Record the status as it is.
    Record,
    /// Wait until nobody can have credentials any more that were given to this name.
    HoldName,
    /// Delete the status.
    Forget,
}

/// What is noted.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Note {
    /// The cluster will be set up, with accounts of these UUIDs.
    Intent(Box<Configuration>),
    /// All accounts are complete.
    Accounts,
    /// The repository is written: the cluster is set up for this configuration.
    Ready(Box<Configuration>),
    /// Nothing is wrong any more.
    Settled,
    /// The configuration is not carried out.
    Refused(Refusal),
    /// Rights will be revoked.
    Deleting,
    /// Rights are revoked.
    Deleted,
    /// Everything will be removed.
    Decommissioning,
    /// Everything is removed.
    Decommissioned,
}

pub(super) type Plan = VecDeque<Step>;

/// Sets a cluster up whose status may be there already.
pub(super) fn set_up(cluster: Uuid, wanted: Configuration, site: &Site, status: Option<&SetupStatus>) -> Plan {
    let mut plan = Plan::new();
    let begun = status.is_some_and(|status| {
        status.has_accounts() && !status.disabled && status.spec.as_ref() == Some(&wanted) && status.error.is_none()
    });
    if !begun {
        // The steps after this one need the UUIDs that the note draws: they are planned when it is recorded.
        plan.push_back(Step::Note(Note::Intent(Box::new(wanted))));
        return plan;
    }
    plan.extend(rest_of_set_up(cluster, wanted, site, status));
    plan
}

/// What follows the recorded intent.
pub(super) fn rest_of_set_up(cluster: Uuid, wanted: Configuration, site: &Site, status: Option<&SetupStatus>) -> Plan {
    let mut plan = Plan::new();
    let Some(status) = status else { return plan };
    let group = format!("{}-{}", site.prefix, wanted.name);
    if !status.accounts_done() {
        let address = SparkplugAddress { group_id: group.clone(), node_id: None };
        plan.push_back(Step::Do(Effect::PutSparkplugAddress { object: cluster, address }));
        for role in Role::ALL {
            let Some(account) = status.account(role) else { continue };
            plan.extend(
                account_steps(cluster, role, account.uuid, &group, &wanted, site, status).into_iter().map(Step::Do),
            );
        }
        plan.push_back(Step::Note(Note::Accounts));
    }
    plan.extend(
        [
            Effect::PutGitRepository(GitRepository { path: format!("cluster/{}", wanted.name) }),
            Effect::AddMember { class: site.classes.cluster, object: cluster },
        ]
        .map(Step::Do),
    );
    plan.extend(roll_out(wanted));
    plan
}

fn account_steps(
    cluster: Uuid,
    role: Role,
    account: Uuid,
    group: &str,
    wanted: &Configuration,
    site: &Site,
    status: &SetupStatus,
) -> Vec<Effect> {
    let upn = role.upn(&wanted.name, &site.realm);
    let mut steps = vec![
        Effect::CreateObject { uuid: account, class: uuids::class::EDGE_SERVICE },
        Effect::PutInfo { object: account, name: role.title(&wanted.name) },
        Effect::AddMember { class: site.classes.of(role), object: account },
    ];
    if let Some(node) = role.node() {
        let address = SparkplugAddress { group_id: group.into(), node_id: Some(node.into()) };
        steps.push(Effect::PutSparkplugAddress { object: account, address });
    }
    steps.extend(role.grant(account, cluster).map(Effect::CreateGrant));
    steps.push(Effect::PutIdentity { account, upn: upn.clone() });
    if status.disabled {
        steps.push(Effect::EnablePrincipal { upn });
    }
    steps
}

/// Writes the repository anew.
pub(super) fn roll_out(wanted: Configuration) -> [Step; 2] {
    [Step::Render(Box::new(wanted.clone())), Step::Note(Note::Ready(Box::new(wanted)))]
}

/// Takes all rights away; keeps what a cluster that comes back needs.
pub(super) fn delete(cluster: Uuid, site: &Site, status: &SetupStatus) -> Plan {
    let mut plan = Plan::from([Step::Note(Note::Deleting)]);
    plan.extend(revocation(cluster, site, status));
    plan.push_back(Step::Note(Note::Deleted));
    plan
}

/// Removes everything.
pub(super) fn decommission(cluster: Uuid, site: &Site, status: &SetupStatus) -> Plan {
    let mut plan = Plan::from([Step::Note(Note::Decommissioning)]);
    plan.extend(revocation(cluster, site, status));
    let mut rest = vec![];
    if let Some(spec) = &status.spec {
        rest.push(Effect::DeletePrincipals { name: spec.name.clone() });
    }
    let accounts = Role::ALL.into_iter().filter_map(|role| status.account(role));
    rest.extend(accounts.map(|account| Effect::DeleteObject { uuid: account.uuid }));
    rest.extend([Effect::DeleteRepository, Effect::DeleteEdgeStatus, Effect::ForgetLinks]);
    plan.extend(rest.into_iter().map(Step::Do));
    plan.push_back(Step::Note(Note::Decommissioned));
    plan.extend(END);
    plan
}

/// What is left to do for a cluster of which nothing is left.
pub(super) const END: [Step; 2] = [Step::HoldName, Step::Forget];

/// What ends at once comes first: without its grants, classes and identity an account can do nothing, with whatever
/// ticket.
fn revocation(cluster: Uuid, site: &Site, status: &SetupStatus) -> Vec<Step> {
    let mut steps = vec![Effect::RevokeLinks];
    for role in Role::ALL {
        let Some(account) = status.account(role).map(|account| account.uuid) else { continue };
        steps.extend([
            Effect::DeleteGrants { account },
            Effect::RemoveMember { class: site.classes.of(role), object: account },
            Effect::DeleteIdentity { account },
        ]);
        if role.node().is_some() {
            steps.push(Effect::DeleteSparkplugAddress { object: account });
        }
    }
    if let Some(spec) = &status.spec {
        steps.push(Effect::DisablePrincipals { name: spec.name.clone() });
    }
    steps.extend([
        Effect::RemoveMember { class: site.classes.cluster, object: cluster },
        Effect::DeleteGitRepository,
        Effect::DeleteSparkplugAddress { object: cluster },
    ]);
    steps.into_iter().map(Step::Do).collect()
}
