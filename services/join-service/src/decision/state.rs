//! The state and its transitions.

use super::ask::{Ask, JoinAsk, ReportAsk};
use super::certificates::says_where_it_serves;
use super::damage::Damage;
use super::lease::{ControlPlaneTurn, LEASE, Lease};
use super::refusal::Refusal;
use super::rules::{Rules, disks_with, holder, not_let_in, role};
use latchkey_attestation::EkDigest;
use latchkey_cluster_store::{
    BootSeen, Change, Decided, DiskState, Finding, NameRule, NodeName, NodeRecord, Outcome, Recorded, Reported, Role,
    TicketRecord, TpmBoot,
};
use latchkey_keys::Uuid;
use latchkey_kubelet_certificates::Reserved;
use std::collections::BTreeMap;
use std::time::Duration;

/// The moment of a request, on two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Seconds since the Unix epoch, for records.
    pub unix: u64,
    /// Since the service started, for leases: it never jumps.
    pub uptime: Duration,
}

/// All that is known of nodes.
#[derive(Clone, Debug, Default)]
pub struct State {
    nodes: BTreeMap<EkDigest, Recorded>,
    names: BTreeMap<NodeName, EkDigest>,
    disks: BTreeMap<Uuid, EkDigest>,
    damage: Damage,
    lease: Option<Lease>,
}

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
    /// The state of a service that starts with these records. A control plane that got a ticket within the last
    /// [`LEASE`] and has not reported is still joining: it holds the lease.
    pub fn new(records: impl IntoIterator<Item = Recorded>, damage: Damage, now: Now) -> Self {
        let mut state = Self { damage, ..Self::default() };
        for record in records {
            state.insert(record);
        }
        state.lease = state.lease_on_record(now);
        state
    }

    /// Takes over what was read anew from disk. Another service may share the directory: its tickets hold the lease as ours do,
    /// and the reports it took free it.
    pub fn reload(&mut self, records: impl IntoIterator<Item = Recorded>, damage: Damage, now: Now) {
        let (before, old) = (self.lease.take(), std::mem::take(self));
        self.damage = damage;
        self.damage
            .inherit(&old.damage, |ek| old.nodes.get(ek).map(|record| (record.name.clone(), record.uuids().collect())));
        for record in records {
            self.insert(record);
        }
        self.lease = self.lease_after(before, now);
    }

    /// Takes over what has changed, one by one. Whether it could be: records that cannot be used, or contradict each other, need all
    /// of them ([`Self::reload`]).
    #[must_use = "what was not taken over has to be read anew"]
    pub fn follow(&mut self, changes: impl IntoIterator<Item = Change>, now: Now) -> bool {
        if !self.damage.is_empty() {
            return false;
        }
        let mut control_planes = false;
        for change in changes {
            let ek = match &change {
                Change::Recorded(record) => record.ek_sha256,
                Change::Gone(ek) => *ek,
            };
            control_planes |= self.nodes.get(&ek).is_some_and(|record| record.role == Role::ControlPlane);
            match change {
                Change::Recorded(record) => {
                    control_planes |= record.role == Role::ControlPlane;
                    self.insert(*record);
                }
                Change::Gone(ek) => self.remove(&ek),
            }
        }
        if control_planes {
            self.lease = self.lease_after(self.lease, now);
        }
        self.damage.is_empty()
    }

    /// The lease, with what others did: their tickets hold it as ours do, and the reports they took free it.
    fn lease_after(&self, before: Option<Lease>, now: Now) -> Option<Lease> {
        // Whose record cannot be read may be joining still.
        let joins = |lease: &Lease| match self.nodes.get(&lease.holder()) {
            Some(record) => record.joining_since.is_some(),
            None => self.damage.names_ek(&lease.holder()),
        };
        let (ours, requested) = (before.filter(|lease| lease.is_issued() && joins(lease)), before);
        let requested = requested.filter(|lease| !lease.is_issued());
        ours.or_else(|| self.lease_on_record(now)).or(requested)
    }

    /// The record of a TPM.
    pub fn record(&self, ek: &EkDigest) -> Option<&Recorded> {
        self.nodes.get(ek)
    }

    /// The record of the node of this name, unless records contradict each other there.
    pub(super) fn named(&self, name: &str) -> Option<&Recorded> {
        let name: NodeName = name.parse().ok()?;
        self.names.get(&name).filter(|_| !self.damage.takes_name(&name, true)).and_then(|ek| self.nodes.get(ek))
    }

    /// That records do not contradict each other about whose this name is. What they do about a name decides nothing that is final.
    ///
    /// # Errors
    /// [`Refusal::RecordsDamaged`].
    pub fn check_name(&self, name: &str) -> Result<(), Refusal> {
        let Ok(name) = name.parse::<NodeName>() else { return Ok(()) };
        let damaged = self.damage.takes_name(&name, self.names.contains_key(&name));
        if damaged { Err(Refusal::RecordsDamaged) } else { Ok(()) }
    }

    /// The same of the name of a machine on record.
    ///
    /// # Errors
    /// [`Refusal::RecordsDamaged`].
    pub fn check_holder(&self, ek: &EkDigest) -> Result<(), Refusal> {
        self.nodes.get(ek).map_or(Ok(()), |record| self.check_name(record.name.as_str()))
    }

    /// The machine of the node of this name.
    pub fn node_named(&self, name: &str) -> Option<EkDigest> {
        self.named(name).map(|record| record.ek_sha256)
    }

    /// All records.
    pub(super) fn records(&self) -> impl Iterator<Item = &Recorded> {
        self.nodes.values()
    }

    /// Whether this machine may join as a control plane now.
    pub(super) fn holds_lease(&self, ek: &EkDigest, now: Now) -> bool {
        self.lease.is_some_and(|lease| lease.is_of(*ek) && !lease.ended(now.uptime))
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Record files that cannot be used, and what they name.
    pub fn damage(&self) -> &Damage {
        &self.damage
    }

    /// Whether a control plane is joining.
    pub fn is_leased(&self, now: Now) -> bool {
        self.lease.is_some_and(|lease| !lease.ended(now.uptime))
    }

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

    /// Decides an admitted request on the state as it is now. `key_version` is the one that the key service used, `ticket` what the
    /// ticket's token is known by: from then on the token of an earlier one is nobody's.
    ///
    /// # Errors
    /// As [`Self::admit`], when others came first in the meantime.
    pub fn conclude(
        &self,
        rules: &Rules,
        admitted: &Admitted,
        key_version: u32,
        ticket: Option<&TicketRecord>,
        now: Now,
    ) -> Result<Plan, Refusal> {
        let drafted = self.draft(rules, admitted.ek, &admitted.ask, &admitted.seen, (key_version, ticket), now)?;
        // The lease was taken for the role at admission. A promotion in between has none.
        if drafted.grant.role == Role::ControlPlane && admitted.role != Role::ControlPlane {
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

    /// The record after a report: success confirms the disk and retires the node's others. The node proved its lock in `boot`.
    ///
    /// # Errors
    /// A TPM or disk that is not on record.
    pub fn report(
        &self,
        reserved: &Reserved,
        ek: EkDigest,
        report: &ReportAsk,
        boot: TpmBoot,
        now: Now,
    ) -> Result<NodeRecord, Refusal> {
        let mut record = self.nodes.get(&ek).ok_or(self.unknown(&ek))?.clone().into_inner();
        let disk = record.disks.iter_mut().find(|disk| disk.uuid == report.disk).ok_or(Refusal::DiskUnknown)?;
        if report.outcome == Outcome::Succeeded {
            disk.state = DiskState::Confirmed;
            let (kept, replaced): (Vec<_>, Vec<_>) = record.disks.drain(..).partition(|disk| disk.uuid == report.disk);
            record.disks = kept;
            record.retired.extend(replaced.iter().map(|disk| disk.uuid));
            // Once for each ticket, and soon after it: a machine that was taken over later does not say where it serves.
            if record.ticket.as_ref().is_some_and(|ticket| says_where_it_serves(ticket, now)) {
                let mut addresses = self.free_for(&ek, &report.addresses);
                addresses.retain(|address| !reserved.is_address(*address, holder(record.role)));
                record.addresses = addresses;
            }
        }
        if let Some(ticket) = &mut record.ticket {
            ticket.reported = true;
        }
        record.joining_since = None;
        record.keep_lock(boot);
        record.reported = Some(Reported { at: now.unix, disk: report.disk, outcome: report.outcome.clone() });
        Ok(record)
    }

    /// Takes over the record of a report that is on disk now: whatever the outcome, this node is not joining any more.
    pub fn commit_report(&mut self, record: Recorded) {
        self.lease = self.lease.filter(|lease| !lease.is_of(record.ek_sha256));
        self.insert(record);
    }

    /// The record of a TPM with what was seen of its machine; `None` where there is no news, or no record.
    pub fn kept(&self, ek: &EkDigest, seen: &BootSeen, now: Now) -> Option<NodeRecord> {
        let before = self.nodes.get(ek).filter(|record| record.judge(seen).is_news())?;
        let mut record = (**before).clone();
        record.keep(seen, now.unix);
        (record != **before).then_some(record)
    }

    /// Takes over a record that is on disk now and of which nothing is another but what was seen of its machine.
    pub fn commit_kept(&mut self, record: Recorded) {
        self.insert(record);
    }

    /// The records of machines whose firmware is not the one on record.
    pub fn firmware_changed(&self) -> impl Iterator<Item = &Recorded> {
        let changed = |record: &&Recorded| record.firmware.as_ref().is_some_and(|known| known.changed.is_some());
        self.nodes.values().filter(changed)
    }

    /// Machines whose firmware the operator accepted, and when.
    pub fn firmware_accepted(&self) -> impl Iterator<Item = (&Recorded, u64)> {
        self.nodes.values().filter_map(|record| Some((record, record.firmware.as_ref()?.accepted_at?)))
    }

    fn lease_on_record(&self, now: Now) -> Option<Lease> {
        let recent = |since: u64| since.saturating_add(LEASE.as_secs()) > now.unix;
        let joining = self.nodes.values().filter(|record| record.joining_since.is_some_and(recent));
        let last = joining.max_by_key(|record| record.joining_since)?;
        Some(Lease::issued(last.ek_sha256, now.uptime))
    }

    fn insert(&mut self, record: Recorded) {
        let ek = record.ek_sha256;
        // What was written last may be known before the news of what was written before it.
        if self.nodes.get(&ek).is_some_and(|known| known.revision() > record.revision()) {
            return;
        }
        self.remove(&ek);
        // Only a record that somebody wrote by hand contradicts another one: then neither gets what both name.
        if let Some(other) = self.names.insert(record.name.clone(), ek).filter(|other| *other != ek) {
            self.damage.contest_name(&record.name, [ek, other]);
        }
        for uuid in record.uuids() {
            if let Some(other) = self.disks.insert(uuid, ek).filter(|other| *other != ek) {
                self.damage.contest_disk(uuid, [ek, other]);
            }
        }
        self.nodes.insert(ek, record);
    }

    fn remove(&mut self, ek: &EkDigest) {
        if let Some(old) = self.nodes.remove(ek) {
            self.names.remove(&old.name);
            for uuid in old.uuids() {
                self.disks.remove(&uuid);
            }
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
        self.check_damage(known, &name, ask.disk)?;
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
    /// nobody at all what two good records claim.
    fn check_damage(&self, known: Option<&NodeRecord>, name: &NodeName, disk: Uuid) -> Result<(), Refusal> {
        let own_name = known.is_some_and(|record| record.name == *name);
        let own_disk = known.is_some_and(|record| record.uuids().any(|uuid| uuid == disk));
        let taken = self.damage.takes_name(name, own_name) || self.damage.takes_disk(&disk, own_disk);
        if taken { Err(Refusal::RecordsDamaged) } else { Ok(()) }
    }

    /// A TPM without a record; perhaps it had one.
    fn unknown(&self, ek: &EkDigest) -> Refusal {
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
