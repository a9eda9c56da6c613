//! Who is served at once, and who gives way when more come.
//!
//! A connection costs memory and a descriptor from the moment it is accepted, and shows what it is worth only later. So a full
//! table does not refuse whoever comes next, it takes a slot back:
//!
//! 1. From the site that holds most, there from the host that holds most: who opens a thousand connections pushes itself out.
//! 2. There from who has shown least, and of these the oldest. Among equals whoever comes last stays, so a flood from as many
//!    networks as there are slots leaves an honest peer as much time as it takes to fill the table once.
//! 3. Who was admitted stays. A part of the slots ([`SlotLimits::reserve`]) is for sites that were admitted before.
//! 4. Who has claimed an identity that is let in, and must yet prove it, gives way after all others, for a bounded time; at most
//!    half of the slots are kept so, because claims are cheap to copy.
//!
//! No host has more than [`SlotLimits::per_host`] slots, no site more than three quarters of all.

mod networks;
#[cfg(test)]
mod tests;

use crate::PeerNetwork;
use networks::{Known, Networks, Place};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

/// Who says nothing for so long gives way before those who have said something.
const SILENCE: Duration = Duration::from_secs(1);

/// How long a claimed identity keeps its slot from equals: evidence of a slow discrete TPM takes some seconds.
const CLAIM_TIME: Duration = Duration::from_secs(10);

/// Bounds of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotLimits {
    /// Connections at a time; at least 1.
    pub total: u32,
    /// The same from one host.
    pub per_host: u32,
    /// How many of them are only for sites from which somebody was admitted before.
    pub reserve: u32,
}

/// What a connection has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Nothing.
    Silent,
    /// Some bytes.
    Started,
    /// An identity that would be let in; the proof is due.
    Claimed,
    /// All that is asked for.
    Admitted,
}

/// A connection's name in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotId(u64);

/// What becomes of a connection that has just come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It has a slot; whoever had it before (no longer in the table) must be cut off.
    Seated {
        /// Its name.
        slot: SlotId,
        /// Who must go.
        displaced: Option<SlotId>,
    },
    /// It must go.
    Refused(Full),
}

/// What is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The host's part.
    Host,
    /// The site's part.
    Site,
    /// The table, and nobody in it has less of a claim.
    Table,
}

/// How full the table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Connections in the table.
    pub open: usize,
    /// Of these, who were not admitted.
    pub strangers: usize,
    /// Sites with a connection in the table.
    pub sites: usize,
}

#[derive(Debug)]
struct Connection {
    host: Place,
    site: Place,
    since: Duration,
    standing: Standing,
}

/// The table.
#[derive(Debug)]
pub struct ConnectionSlots {
    limits: SlotLimits,
    /// The oldest first: names only grow.
    connections: BTreeMap<SlotId, Connection>,
    hosts: Networks,
    sites: Networks,
    known: Known,
    /// Connections from sites that are not known.
    unknown: u32,
    claimed: u32,
    admitted: u32,
    last: u64,
}

impl ConnectionSlots {
    /// An empty table.
    pub fn new(limits: SlotLimits) -> Self {
        let limits = SlotLimits { total: limits.total.max(1), ..limits };
        Self {
            limits: SlotLimits { reserve: limits.reserve.min(limits.total - 1), ..limits },
            connections: BTreeMap::new(),
            hosts: Networks::default(),
            sites: Networks::default(),
            known: Known::default(),
            unknown: 0,
            claimed: 0,
            admitted: 0,
            last: 0,
        }
    }

    /// A connection from `host` has come.
    pub fn arrive(&mut self, host: PeerNetwork, now: Duration) -> Arrival {
        let known = self.known.contains(host.site());
        let newcomer = Connection {
            host: self.hosts.enter(host, false),
            site: self.sites.enter(host.site(), known),
            since: now,
            standing: Standing::Silent,
        };
        let displaced = match self.room_for(&newcomer, now) {
            Ok(displaced) => displaced,
            Err(full) => {
                self.hosts.leave(newcomer.host, true);
                self.sites.leave(newcomer.site, true);
                return Arrival::Refused(full);
            }
        };
        if let Some(slot) = displaced {
            self.release(slot);
        }
        self.unknown += u32::from(!known);
        self.last += 1;
        let slot = SlotId(self.last);
        self.connections.insert(slot, newcomer);
        Arrival::Seated { slot, displaced }
    }

    /// A connection has shown more than before. It never falls back by this.
    pub fn shows(&mut self, slot: SlotId, standing: Standing, now: Duration) {
        let Some(connection) = self.connections.get(&slot) else { return };
        let (before, host, site) = (connection.standing, connection.host, connection.site);
        if standing <= before || standing == Standing::Claimed && !self.may_claim(site, now) {
            return;
        }
        self.claimed -= u32::from(before == Standing::Claimed);
        match standing {
            Standing::Silent | Standing::Started => {}
            Standing::Claimed => self.claimed += 1,
            Standing::Admitted => {
                self.admitted += 1;
                self.hosts.prove(host);
                self.sites.prove(site);
                self.unknown -= self.sites.becomes_known(site);
                self.known.insert(self.sites.network(site));
            }
        }
        if let Some(connection) = self.connections.get_mut(&slot) {
            connection.standing = standing;
        }
    }

    /// A connection has ended. One that is not in the table (any more) changes nothing.
    pub fn release(&mut self, slot: SlotId) {
        let Some(Connection { host, site, standing, .. }) = self.connections.remove(&slot) else { return };
        self.claimed -= u32::from(standing == Standing::Claimed);
        self.admitted -= u32::from(standing == Standing::Admitted);
        self.unknown -= u32::from(!self.sites.at(site).known);
        self.hosts.leave(host, standing != Standing::Admitted);
        self.sites.leave(site, standing != Standing::Admitted);
    }

    /// Whether somebody from this host's site was admitted before.
    pub fn knows(&self, host: PeerNetwork) -> bool {
        self.known.contains(host.site())
    }

    /// How full it is.
    pub fn usage(&self) -> Usage {
        let strangers = self.connections.len() - usize::try_from(self.admitted).unwrap_or(0);
        Usage { open: self.connections.len(), strangers, sites: self.sites.len() }
    }

    /// Who gives way for `newcomer`, which is counted in its networks already; nobody while there is room.
    fn room_for(&self, newcomer: &Connection, now: Duration) -> Result<Option<SlotId>, Full> {
        let SlotLimits { total, per_host, reserve } = self.limits;
        let open = u32::try_from(self.connections.len()).unwrap_or(u32::MAX);
        let site = self.sites.at(newcomer.site);
        if self.hosts.at(newcomer.host).held > per_host {
            return self.least_entitled(newcomer, now, |other| other.host == newcomer.host).map(Some).ok_or(Full::Host);
        }
        if site.held > (total / 2 + total / 4).max(1) {
            return self.least_entitled(newcomer, now, |other| other.site == newcomer.site).map(Some).ok_or(Full::Site);
        }
        if !site.known && self.unknown >= total - reserve {
            let unknown = |other: &Connection| !self.sites.at(other.site).known;
            return self.least_entitled(newcomer, now, unknown).map(Some).ok_or(Full::Table);
        }
        if open >= total {
            return self.least_entitled(newcomer, now, |_| true).map(Some).ok_or(Full::Table);
        }
        Ok(None)
    }

    /// Of those that are `among` the candidates, who gives way for `newcomer`.
    fn least_entitled(
        &self,
        newcomer: &Connection,
        now: Duration,
        among: impl Fn(&Connection) -> bool,
    ) -> Option<SlotId> {
        let fair = self.sites.at(newcomer.site).strangers;
        let candidates =
            self.connections.iter().filter(|(_, other)| other.standing < Standing::Admitted && among(other));
        let claims = candidates.filter_map(|(slot, other)| {
            let (own, of_site) = (other.site == newcomer.site, self.sites.at(other.site).strangers);
            let age = now.saturating_sub(other.since);
            let claimed = other.standing == Standing::Claimed;
            // Nobody gives way to a site that would then hold more than its own.
            let gives_way = if claimed { age >= CLAIM_TIME || !own && of_site > fair } else { own || of_site >= fair };
            let silent = other.standing == Standing::Silent && age >= SILENCE;
            let of_host = self.hosts.at(other.host).strangers;
            let entitled = (!claimed, of_site, own, of_host, silent, Reverse(slot));
            (gives_way && (own || of_site >= fair)).then_some((entitled, *slot))
        });
        claims.max().map(|(_, slot)| slot)
    }

    /// Whether one more of `site` may be kept for its claim; another's claim may lose its precedence for it.
    fn may_claim(&mut self, site: Place, now: Duration) -> bool {
        let most = (self.limits.total.saturating_sub(self.admitted) / 2).max(1);
        if self.claimed < most {
            return true;
        }
        let fair = self.sites.at(site).strangers;
        let claims = self.connections.iter().filter(|(_, other)| other.standing == Standing::Claimed);
        let weaker = claims.filter_map(|(slot, other)| {
            let of_site = self.sites.at(other.site).strangers;
            let old = now.saturating_sub(other.since) >= CLAIM_TIME;
            (of_site > fair || old && of_site == fair).then_some(((of_site, Reverse(*slot)), *slot))
        });
        let Some((_, weakest)) = weaker.max() else { return false };
        if let Some(connection) = self.connections.get_mut(&weakest) {
            connection.standing = Standing::Started;
            self.claimed -= 1;
        }
        true
    }
}
