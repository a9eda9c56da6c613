//! What is on record decides.

use crate::names::{Holder, Reserved};
use crate::pkcs10::CertificateRequest;
use crate::posted::{NODE_USER, TokenId};
use crate::refusal::CertificateRefusal as Refusal;
use std::net::IpAddr;

/// How far the clocks of two machines may be apart, in seconds. The API server lets no token ask after its end, by its own clock; here
/// the end is looked at by another one.
pub const CLOCK_SKEW: u64 = 300;

/// A ticket as it is on record.
#[derive(Clone, Copy, Debug)]
pub struct Ticket<'a> {
    /// The node that it was issued to.
    pub node: &'a str,
    /// When its token's time is over, in seconds since the Unix epoch.
    pub ends_at: u64,
    /// What became of it.
    pub state: TicketState,
    /// The `uid` of the request that it was used for, if it was.
    pub used_by: Option<&'a str>,
}

/// What became of a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TicketState {
    /// Its node is joining.
    Live,
    /// Its node has reported.
    Reported,
    /// It is a control plane's, which does not hold the lease any more.
    LeaseEnded,
    /// Its node was shut out since.
    Denied,
}

/// A node as it is on record.
#[derive(Clone, Copy, Debug)]
pub struct AttestedNode<'a> {
    /// Its name, which is a name of its host as well.
    pub name: &'a str,
    /// Whether the operator shut it out.
    pub denied: bool,
    /// Further names of its host.
    pub dns: &'a [String],
    /// Its addresses.
    pub addresses: &'a [IpAddr],
    /// What it is in the cluster.
    pub holder: Holder,
}

/// A node that joins, and asks for its client certificate.
#[derive(Clone, Debug)]
pub struct ClientAsk {
    pub(crate) uid: String,
    pub(crate) token: TokenId,
    pub(crate) request: CertificateRequest,
}

/// A node that renews its client certificate.
#[derive(Clone, Debug)]
pub struct RenewalAsk {
    pub(crate) uid: String,
    pub(crate) node: String,
    pub(crate) request: CertificateRequest,
}

/// A node that asks for a serving certificate.
#[derive(Clone, Debug)]
pub struct ServingAsk {
    pub(crate) uid: String,
    pub(crate) node: String,
    pub(crate) request: CertificateRequest,
}

/// The request that a ticket is to be used for. It is to be written durably, so that of several only one is: then
/// [`Claim::stands`].
#[derive(Debug, PartialEq, Eq)]
pub struct Claim {
    uid: String,
    token: TokenId,
}

/// Witness: this request may be approved, and no other.
#[derive(Debug, PartialEq, Eq)]
pub struct Approval {
    uid: String,
}

impl Approval {
    /// The `uid` of the request. What is written has to demand it: a request that was deleted and posted anew is
    /// another.
    pub fn uid(&self) -> &str {
        &self.uid
    }
}

impl Claim {
    /// The token whose ticket is used up.
    pub fn token(&self) -> &TokenId {
        &self.token
    }

    /// The `uid` of the request.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// With the claim that stands on record now: this one, or one that came first.
    ///
    /// # Errors
    /// Another request came first.
    pub fn stands(self, on_record: &str) -> Result<Approval, Refusal> {
        if on_record == self.uid { Ok(Approval { uid: self.uid }) } else { Err(Refusal::TicketUsed) }
    }
}

impl ClientAsk {
    /// The token that asks. Its ticket decides.
    pub fn token(&self) -> &TokenId {
        &self.token
    }

    /// Decides by the ticket that is on record for the token, if there is one; `now` is in seconds since the Unix
    /// epoch.
    ///
    /// # Errors
    /// The ticket is not, or no longer, good for this.
    pub fn decide(self, ticket: Option<&Ticket<'_>>, now: u64) -> Result<Claim, Refusal> {
        let ticket = ticket.ok_or(Refusal::TicketUnknown)?;
        if !is_user_of(&self.request, ticket.node) {
            return Err(Refusal::NameForeign);
        }
        match ticket.state {
            TicketState::Live => {}
            TicketState::Reported => return Err(Refusal::TicketReported),
            TicketState::LeaseEnded => return Err(Refusal::TicketLeaseEnded),
            TicketState::Denied => return Err(Refusal::NodeDenied),
        }
        if now >= ticket.ends_at.saturating_add(CLOCK_SKEW) {
            return Err(Refusal::TicketExpired);
        }
        if ticket.used_by.is_some_and(|uid| uid != self.uid) {
            return Err(Refusal::TicketUsed);
        }
        Ok(Claim { uid: self.uid, token: self.token })
    }
}

impl RenewalAsk {
    /// The node that asks. Its record decides.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Decides by the record of the node of this name, if there is one: who is shut out, or gone from the record, renews nothing.
    /// Which machine asks is not seen here: the name, by the certificate that it has.
    ///
    /// # Errors
    /// The node is not on record, was shut out, or asks for another's name.
    pub fn decide(self, node: Option<&AttestedNode<'_>>) -> Result<Approval, Refusal> {
        own(&self.node, &self.request, node)?;
        Ok(Approval { uid: self.uid })
    }
}

impl ServingAsk {
    /// The node that asks. Its record decides.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Decides by the record of the node of this name, if there is one. A kubelet that does not know all of its
    /// addresses yet asks for fewer than are on record, which makes it nobody else.
    ///
    /// # Errors
    /// The node was not attested, or asks for what is not its own, or nobody's.
    pub fn decide(self, node: Option<&AttestedNode<'_>>, reserved: &Reserved) -> Result<Approval, Refusal> {
        let node = own(&self.node, &self.request, node)?;
        let CertificateRequest { dns, addresses, .. } = &self.request;
        if dns.is_empty() && addresses.is_empty() {
            return Err(Refusal::ServingWithoutNames);
        }
        let known = |name: &String| name == node.name || node.dns.contains(name);
        if !dns.iter().all(known) || !addresses.iter().all(|address| node.addresses.contains(address)) {
            return Err(Refusal::ServingNameForeign);
        }
        let is_reserved = |address: &IpAddr| reserved.is_address(*address, node.holder);
        if dns.iter().any(|name| reserved.is_name(name, node.holder)) || addresses.iter().any(is_reserved) {
            return Err(Refusal::ServingNameReserved);
        }
        Ok(Approval { uid: self.uid })
    }
}

/// The record of the node that asks, if it has one, is let in, and asks in its own name.
fn own<'a, 'b>(
    asks: &str,
    request: &CertificateRequest,
    node: Option<&'a AttestedNode<'b>>,
) -> Result<&'a AttestedNode<'b>, Refusal> {
    let node = node.filter(|node| node.name == asks).ok_or(Refusal::NodeUnknown)?;
    if node.denied {
        return Err(Refusal::NodeDenied);
    }
    if is_user_of(request, node.name) { Ok(node) } else { Err(Refusal::NameForeign) }
}

/// Whether the certificate would make whoever has it the user of this node.
fn is_user_of(request: &CertificateRequest, node: &str) -> bool {
    request.common_name.strip_prefix(NODE_USER) == Some(node) && !node.is_empty()
}
