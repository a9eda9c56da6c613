//! Who is let in: from a request to a ticket.

use super::ask::{Ask, JoinAsk};
use super::lease::{ControlPlaneTurn, Lease};
use super::refusal::Refusal;
use super::rules::{Rules, disks_with, holder, not_let_in, role};
use super::state::{Now, State};
use latchkey_attestation::EkDigest;
use latchkey_cluster_store::{
    BootSeen, Decided, Finding, NameRule, NodeName, NodeRecord, NotDenied, Recorded, Role, TicketRecord,
};
use latchkey_keys::Uuid;

/// Witness: the rules let this request have its keys, and a control plane holds the lease.
#[derive(Debug)]
#[must_use = "abandon it if the request fails"]
pub struct Admitted {
    ek: EkDigest,
    ask: Ask,
    seen: BootSeen,
    key_version: u32,
    name: NodeName,
    role: Role,
    /// Whether it needs the lease.
    leases: bool,
}

impl Admitted {
    /// The disk whose key may be fetched.
    pub fn disk(&self) -> Uuid {
        self.ask.disk()
    }

    /// The TPM that asks.
    pub fn ek(&self) -> EkDigest {
        self.ek
    }

    /// The name that it has, or gets if nobody comes first.
    pub fn name(&self) -> &NodeName {
        &self.name
    }

    /// Whether it becomes a control plane.
    pub fn is_control_plane(&self) -> bool {
        self.leases
    }

    /// The version of the master secret that this disk's key comes from; 0 is the current one.
    pub fn key_version(&self) -> u32 {
        self.key_version
    }
}

/// What is to be done for an admitted request: write the record, if any, then grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The record as it is to be, `None` if it is so already.
    pub record: Option<NodeRecord>,
    /// What the ticket says.
    pub grant: Grant,
}

/// What a ticket says beside keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The node's name.
    pub name: NodeName,
    /// The node's role.
    pub role: Role,
    /// The disk's epoch.
    pub epoch: u64,
}

impl State {
    /// Checks name, role and disk rules, and the machine's record of itself; then takes the control-plane lease, if the request is
    /// for one.
    ///
    /// # Errors
    /// A refusal changes nothing.
    pub fn admit(
        &mut self,
        rules: &Rules,
        ek: EkDigest,
        ask: Ask,
        seen: BootSeen,
        now: Now,
    ) -> Result<Admitted, Refusal> {
        let Drafted { grant, key_version, leases, .. } = self.draft(rules, ek, &ask, &seen, (0, None), now)?;
        // The holder's own ticket, still good, is not given back by a request that comes to nothing.
        if leases && !self.lease.is_some_and(|lease| lease.is_of(ek) && lease.is_issued() && !lease.ended(now.uptime)) {
            self.lease = Some(Lease::requested(ek, now.uptime));
        }
        Ok(Admitted { ek, ask, seen, key_version, name: grant.name, role: grant.role, leases })
    }

    /// Decides an admitted request, of a machine that is not shut out, on the state as it is now. `key_version` is the one that the key service used, `ticket` what the
    /// ticket's token is known by: from then on the token of an earlier one is nobody's.
    ///
    /// # Errors
    /// As [`Self::admit`], when others came first in the meantime.
    pub fn conclude(
        &self,
        rules: &Rules,
        admitted: &Admitted,
        not_denied: &NotDenied,
        (key_version, ticket): (u32, Option<&TicketRecord>),
        now: Now,
    ) -> Result<Plan, Refusal> {
        if not_denied.ek() != admitted.ek {
            return Err(Refusal::Denied);
        }
        let drafted = self.draft(rules, admitted.ek, &admitted.ask, &admitted.seen, (key_version, ticket), now)?;
        // The lease was taken for the role at admission: a promotion in between has none, and a worker gets nothing of a turn.
        if drafted.grant.role != admitted.role {
            return Err(Refusal::RoleDenied);
        }
        Ok(Plan { record: drafted.record, grant: drafted.grant })
    }

    /// Takes over the plan's record, if it has one, which is on disk now; a control plane's lease begins anew with its ticket, and
    /// the witness says so.
    pub fn commit(&mut self, admitted: &Admitted, written: Option<Recorded>, now: Now) -> Option<ControlPlaneTurn> {
        if let Some(record) = written {
            self.insert(record);
        }
        if admitted.leases {
            self.lease = Some(Lease::issued(admitted.ek, now.uptime));
        }
        self.lease.as_ref().filter(|_| admitted.leases).and_then(ControlPlaneTurn::of)
    }

    /// Gives the lease back, unless an earlier ticket still needs it. Another request of the same TPM that is under way
    /// takes it again when it is concluded, if it is free then.
    #[expect(clippy::needless_pass_by_value, reason = "an admitted request ends once")]
    pub fn abandon(&mut self, admitted: Admitted) {
        if admitted.leases {
            self.lease = self.lease.filter(|lease| !lease.is_of(admitted.ek) || lease.is_issued());
        }
    }

    fn draft(
        &self,
        rules: &Rules,
        ek: EkDigest,
        ask: &Ask,
        seen: &BootSeen,
        (key_version, ticket): (u32, Option<&TicketRecord>),
        now: Now,
    ) -> Result<Drafted, Refusal> {
        let decided = rules.enrolment.of(&ek);
        if let Some(rule) = decided.pinned.filter(|rule| rule.role.role().is_none()) {
            return Err(not_let_in(rule.role));
        }
        let mut drafted = match ask {
            Ask::Join(ask) => self.draft_join(rules, decided, ek, ask, key_version, now),
            Ask::Rejoin(disk) => self.draft_rejoin(ek, *disk),
        }?;
        // After the rules: what is told of a machine's firmware is about one that is let in otherwise.
        self.check_boot(&ek, seen)?;
        if let Some(record) = &mut drafted.record {
            record.keep(seen, now.unix);
            if let Some(ticket) = ticket {
                // Its addresses stay its own until its report says others.
                record.ticket = Some(ticket.clone());
            }
        }
        let known = self.nodes.get(&ek).map(|record| &**record);
        drafted.record = drafted.record.filter(|record| known != Some(record));
        Ok(drafted)
    }

    /// Holds the machine against its record, if there is one.
    fn check_boot(&self, ek: &EkDigest, seen: &BootSeen) -> Result<(), Refusal> {
        let finding = self.nodes.get(ek).map(|record| record.judge(seen)).unwrap_or_default();
        match finding {
            Finding { already_locked: true, .. } => Err(Refusal::AlreadyLocked),
            Finding { refused, .. } if !refused.is_empty() => Err(Refusal::FirmwareChanged),
            _ => Ok(()),
        }
    }

    fn draft_rejoin(&self, ek: EkDigest, uuid: Uuid) -> Result<Drafted, Refusal> {
        let record = self.nodes.get(&ek).ok_or(self.unknown(&ek))?;
        if self.damage.takes_disk(&uuid, true) {
            return Err(Refusal::RecordsDamaged);
        }
        let Some(disk) = record.disk(uuid) else {
            return Err(if record.retired.contains(&uuid) { Refusal::DiskRetired } else { Refusal::DiskUnknown });
        };
        let grant = Grant { name: record.name.clone(), role: record.role, epoch: disk.epoch };
        Ok(Drafted { record: None, grant, key_version: disk.key_version, leases: false })
    }

    fn draft_join(
        &self,
        rules: &Rules,
        decided: Decided<'_>,
        ek: EkDigest,
        ask: &JoinAsk,
        key_version: u32,
        now: Now,
    ) -> Result<Drafted, Refusal> {
        let known = self.nodes.get(&ek).map(|record| &**record);
        if known.is_none() && self.damage.names_ek(&ek) {
            return Err(Refusal::RecordsDamaged);
        }
        let role = role(decided, known, ask.role)?;
        let name = self.name(rules, decided, known, ek, &ask.name)?;
        if rules.reserved.is_name(name.as_str(), holder(role)) {
            return Err(Refusal::NameReserved);
        }
        if self.damage.takes_disk(&ask.disk, true) {
            return Err(Refusal::RecordsDamaged);
        }
        if self.disks.get(&ask.disk).is_some_and(|owner| *owner != ek) {
            return Err(Refusal::DiskTaken);
        }
        self.check_claims(rules, known, &name, ask.disk)?;
        let leases = role == Role::ControlPlane;
        if leases && self.lease.is_some_and(|lease| !lease.is_of(ek) && !lease.ended(now.uptime)) {
            return Err(Refusal::LeaseHeld);
        }
        let mut record = match known {
            None => NodeRecord::first(ek, name, role, ask.disk, key_version, now.unix),
            Some(record) => {
                let disks = disks_with(record, ask.disk, decided.default.on_new_disk, key_version, now)?;
                NodeRecord { name, role, disks, ..record.clone() }
            }
        };
        if leases {
            record.joining_since = Some(now.unix);
        }
        let disk = record.disk(ask.disk).ok_or(Refusal::DiskUnknown)?;
        let grant = Grant { name: record.name.clone(), role, epoch: disk.epoch };
        let key_version = disk.key_version;
        Ok(Drafted { record: Some(record), grant, key_version, leases })
    }

    fn name(
        &self,
        rules: &Rules,
        decided: Decided<'_>,
        known: Option<&NodeRecord>,
        ek: EkDigest,
        requested: &str,
    ) -> Result<NodeName, Refusal> {
        let pinned = decided.pinned.and_then(|rule| rule.name.clone());
        let name = match (pinned.or_else(|| known.map(|record| record.name.clone())), decided.default.name) {
            (Some(name), _) => name,
            (None, NameRule::AsRequested) => requested.parse().map_err(|_| Refusal::NodeNameInvalid)?,
            (None, NameRule::FromEk) => {
                format!("node-{ek:.12}", ek = ek.to_string()).parse().map_err(|_| Refusal::NodeNameInvalid)?
            }
        };
        if self.damage.takes_name(&name, true) {
            return Err(Refusal::RecordsDamaged);
        }
        let owned = self.names.get(&name).is_some_and(|owner| *owner != ek);
        let reserved =
            rules.enrolment.pinned.iter().any(|rule| rule.name.as_ref() == Some(&name) && rule.ek_sha256 != ek);
        if owned || reserved { Err(Refusal::NameTaken) } else { Ok(name) }
    }

    /// Nobody gets a name or a disk that a file names which cannot be used, unless it is on a good record of their own; and
    /// nobody at all what two good records claim. What is on no record of their own nobody gets while nothing is given.
    fn check_claims(
        &self,
        rules: &Rules,
        known: Option<&NodeRecord>,
        name: &NodeName,
        disk: Uuid,
    ) -> Result<(), Refusal> {
        let own_name = known.is_some_and(|record| record.name == *name);
        let own_disk = known.is_some_and(|record| record.uuids().any(|uuid| uuid == disk));
        let taken = self.damage.takes_name(name, own_name) || self.damage.takes_disk(&disk, own_disk);
        if taken {
            return Err(Refusal::RecordsDamaged);
        }
        if rules.gives || (own_name && own_disk) { Ok(()) } else { Err(Refusal::NotUpgraded) }
    }

    /// A TPM without a record; perhaps it had one.
    pub(super) fn unknown(&self, ek: &EkDigest) -> Refusal {
        if self.damage.names_ek(ek) { Refusal::RecordsDamaged } else { Refusal::NodeUnknown }
    }
}

struct Drafted {
    /// The record as it is to be.
    record: Option<NodeRecord>,
    grant: Grant,
    key_version: u32,
    leases: bool,
}
