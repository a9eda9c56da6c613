//! The state and its transitions.

use super::damage::Damage;
use super::lease::{LEASE, Lease};
use super::refusal::Refusal;
use latchkey_attestation::EkDigest;
use latchkey_cluster_store::{Change, NodeName, Recorded, Role};
use latchkey_keys::Uuid;
use std::collections::BTreeMap;
use std::net::IpAddr;
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
    pub(super) nodes: BTreeMap<EkDigest, Recorded>,
    pub(super) names: BTreeMap<NodeName, EkDigest>,
    pub(super) disks: BTreeMap<Uuid, EkDigest>,
    pub(super) damage: Damage,
    pub(super) lease: Option<Lease>,
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
    /// of them ([`Self::reload`]), and so does one that is earlier than what is known: what was written last may be known before the
    /// news of what was written before it, or it is lost.
    #[must_use = "what was not taken over has to be read anew"]
    pub fn follow(&mut self, changes: impl IntoIterator<Item = Change>, now: Now) -> bool {
        if !self.damage.is_empty() {
            return false;
        }
        let (mut control_planes, mut went_back) = (false, false);
        for change in changes {
            let ek = match &change {
                Change::Recorded(record) => record.ek_sha256,
                Change::Gone(ek) => *ek,
            };
            control_planes |= self.nodes.get(&ek).is_some_and(|record| record.role == Role::ControlPlane);
            match change {
                Change::Recorded(record) => {
                    control_planes |= record.role == Role::ControlPlane;
                    went_back |= !self.insert(*record);
                }
                Change::Gone(ek) => self.remove(&ek),
            }
        }
        if control_planes {
            self.lease = self.lease_after(self.lease, now);
        }
        self.damage.is_empty() && !went_back
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

    /// Where control planes said that they are, after their bootstrap.
    pub fn control_plane_addresses(&self) -> Vec<IpAddr> {
        let control_planes = self.nodes.values().filter(|record| record.role == Role::ControlPlane);
        control_planes.flat_map(|record| record.addresses.iter().copied()).collect()
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

    fn lease_on_record(&self, now: Now) -> Option<Lease> {
        let recent = |since: u64| since.saturating_add(LEASE.as_secs()) > now.unix;
        let joining = self.nodes.values().filter(|record| record.joining_since.is_some_and(recent));
        let last = joining.max_by_key(|record| record.joining_since)?;
        Some(Lease::issued(last.ek_sha256, now.uptime))
    }

    /// Unless a later one is known; whether it was taken over.
    pub(super) fn insert(&mut self, record: Recorded) -> bool {
        let ek = record.ek_sha256;
        if self.nodes.get(&ek).is_some_and(|known| known.revision() > record.revision()) {
            return false;
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
        true
    }

    fn remove(&mut self, ek: &EkDigest) {
        if let Some(old) = self.nodes.remove(ek) {
            self.names.remove(&old.name);
            for uuid in old.uuids() {
                self.disks.remove(&uuid);
            }
        }
    }
}
