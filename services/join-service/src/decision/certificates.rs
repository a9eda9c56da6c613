//! Who gets a kubelet's certificate: what is on record of tickets and nodes, as `latchkey_kubelet_certificates` asks it.

use super::rules::holder;
use super::state::{Now, State};
use latchkey_attestation::EkDigest;
use latchkey_cluster_store::{NodeRecord, Recorded, Role, TicketRecord};
use latchkey_kubelet_certificates::{
    Approval, AttestedNode, CLOCK_SKEW, CertificateRefusal, Claim, ClientAsk, RenewalAsk, Reserved, ServingAsk, Ticket,
    TicketState,
};
use std::net::IpAddr;

/// What is decided about a node that asks for a serving certificate.
#[derive(Debug)]
pub enum Serving {
    /// This.
    Decided(Result<Approval, CertificateRefusal>),
    /// Its addresses are not on record yet: it joins still, and its report says them.
    NotReported,
}

impl State {
    /// The machine whose last ticket has this token. Tokens are drawn by chance, and one that is over may come again: of several
    /// machines it is the one whose ticket still counts, if that is one.
    pub fn ticket_holder(&self, token: &str, now: Now) -> Option<EkDigest> {
        let of = |record: &&Recorded| record.ticket.as_ref().is_some_and(|ticket| ticket.token == token);
        let counts = |record: &&Recorded| record.ticket.as_ref().is_some_and(|ticket| is_live(ticket, now));
        let mut live = self.records().filter(of).filter(counts);
        match (live.next(), live.next()) {
            (Some(one), None) => Some(one.ek_sha256),
            (Some(_), Some(_)) => None,
            _ => self.records().find(of).map(|record| record.ek_sha256),
        }
    }

    /// Decides by the ticket of this machine. A record, if one has to be written before the claim stands.
    ///
    /// # Errors
    /// The ticket is not, or no longer, good for this request.
    pub fn use_ticket(
        &self,
        ask: &ClientAsk,
        holder: &EkDigest,
        is_denied: bool,
        now: Now,
    ) -> Result<(Claim, Option<NodeRecord>), CertificateRefusal> {
        let token = ask.token().as_str();
        let record =
            self.record(holder).filter(|record| record.ticket.as_ref().is_some_and(|known| known.token == token));
        let on_record = record.and_then(|record| Some((record, record.ticket.as_ref()?)));
        let ticket = on_record.map(|(record, ticket)| Ticket {
            node: record.name.as_str(),
            ends_at: ticket.ends_at,
            state: match ticket {
                _ if is_denied => TicketState::Denied,
                TicketRecord { reported: true, .. } => TicketState::Reported,
                _ if record.role == Role::ControlPlane && !self.holds_lease(holder, now) => TicketState::LeaseEnded,
                _ => TicketState::Live,
            },
            used_by: ticket.used_by.as_deref(),
        });
        let claim = ask.clone().decide(ticket.as_ref(), now.unix)?;
        let used = |record: &Recorded| {
            let mut record = (**record).clone();
            let ticket = record.ticket.as_mut().filter(|ticket| ticket.used_by.is_none())?;
            ticket.used_by = Some(claim.uid().to_owned());
            Some(record)
        };
        let next = record.and_then(used);
        Ok((claim, next))
    }

    /// The request that a machine's ticket was used for.
    pub fn used_by(&self, holder: &EkDigest) -> Option<&str> {
        self.record(holder)?.ticket.as_ref()?.used_by.as_deref()
    }

    /// Decides by the record of the node that asks.
    pub fn serve(
        &self,
        reserved: &Reserved,
        ask: &ServingAsk,
        is_denied: impl Fn(&EkDigest) -> bool,
        now: Now,
    ) -> Serving {
        let Some(record) = self.named(ask.node()) else { return Serving::Decided(ask.clone().decide(None, reserved)) };
        let denied = is_denied(&record.ek_sha256);
        let joins = match &record.ticket {
            Some(ticket) if ticket.reported => false,
            // What it says may be others than those that are on record of the join before.
            Some(ticket) => record.addresses.is_empty() || says_where_it_serves(ticket, now),
            None => record.addresses.is_empty(),
        };
        if joins && !denied {
            return Serving::NotReported;
        }
        let addresses = self.free_for(&record.ek_sha256, &record.addresses);
        let node = AttestedNode { addresses: &addresses, ..attested(record, denied) };
        Serving::Decided(ask.clone().decide(Some(&node), reserved))
    }

    /// Decides by the record of the node that asks.
    ///
    /// # Errors
    /// It is not on record, is shut out, or asks for another's name.
    pub fn renew(
        &self,
        ask: &RenewalAsk,
        is_denied: impl Fn(&EkDigest) -> bool,
    ) -> Result<Approval, CertificateRefusal> {
        let node = self.named(ask.node()).map(|record| attested(record, is_denied(&record.ek_sha256)));
        ask.clone().decide(node.as_ref())
    }

    /// Those of these addresses that are on no other machine's record: whoever says an address first has it.
    pub(super) fn free_for(&self, ek: &EkDigest, addresses: &[IpAddr]) -> Vec<IpAddr> {
        let taken = |address: &IpAddr| {
            self.records().any(|record| record.ek_sha256 != *ek && record.addresses.contains(address))
        };
        addresses.iter().filter(|address| !taken(address)).copied().collect()
    }
}

/// As a node without addresses.
fn attested(record: &NodeRecord, denied: bool) -> AttestedNode<'_> {
    AttestedNode { name: record.name.as_str(), denied, dns: &[], addresses: &[], holder: holder(record.role) }
}

fn is_live(ticket: &TicketRecord, now: Now) -> bool {
    !ticket.reported && now.unix < ticket.ends_at.saturating_add(CLOCK_SKEW)
}

/// How long after the end of its ticket's token a node may still say where it serves: it has its certificate by then, and its report
/// is on the way. One that comes later, or never came, changes nothing that is on record.
const REPORT_GRACE: u64 = 900;

pub(super) fn says_where_it_serves(ticket: &TicketRecord, now: Now) -> bool {
    !ticket.reported && now.unix < ticket.ends_at.saturating_add(REPORT_GRACE)
}
