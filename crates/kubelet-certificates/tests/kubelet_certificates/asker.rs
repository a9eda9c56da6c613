//! Who asks, and what is decided without a cluster.

use super::csr::Csr;
use latchkey_kubelet_certificates::{
    Approval, AttestedNode, CLIENT_SIGNER, CertificateRefusal as Refusal, Claim, Holder, Posted, Reading, Reserved,
    SERVING_SIGNER, TOKEN_GROUP, Ticket, TicketState, read,
};
use std::net::IpAddr;

pub(super) const NOW: u64 = 1_800_000_000;
pub(super) const TICKET: Ticket<'static> =
    Ticket { node: "edge-1", ends_at: NOW + 900, state: TicketState::Live, used_by: None };
pub(super) const OWN: [&str; 1] = ["192.0.2.7"];

pub(super) struct Asker {
    pub(super) signer: &'static str,
    pub(super) username: String,
    pub(super) groups: Vec<String>,
    pub(super) usages: Vec<String>,
}

pub(super) fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

impl Asker {
    /// A machine with the token of a ticket, as its kubelet asks.
    pub(super) fn token() -> Self {
        Self {
            signer: CLIENT_SIGNER,
            username: "system:bootstrap:abc123".to_owned(),
            groups: texts(&["system:bootstrappers", TOKEN_GROUP, "system:authenticated"]),
            usages: texts(&["digital signature", "client auth"]),
        }
    }

    /// A node with its client certificate, as its kubelet asks for a serving one.
    pub(super) fn node(name: &str) -> Self {
        Self {
            signer: SERVING_SIGNER,
            username: format!("system:node:{name}"),
            groups: texts(&["system:nodes", "system:authenticated"]),
            usages: texts(&["digital signature", "server auth"]),
        }
    }

    pub(super) fn reads(&self, pem: &[u8]) -> Reading {
        let Self { signer, username, groups, usages } = self;
        read(&Posted { uid: "uid-1", signer, username, groups, usages, pem, decided: false })
    }

    pub(super) fn claim(&self, csr: &Csr, ticket: Option<&Ticket<'_>>) -> Result<Claim, Refusal> {
        match self.reads(&csr.pem()) {
            Reading::Client(ask) => ask.decide(ticket, NOW),
            Reading::Deny(refusal) => Err(refusal),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn serving(&self, csr: &Csr, node: Option<&AttestedNode<'_>>) -> Result<Approval, Refusal> {
        match self.reads(&csr.pem()) {
            Reading::Serving(ask) => ask.decide(node, &reserved()),
            Reading::Deny(refusal) => Err(refusal),
            other => panic!("{other:?}"),
        }
    }
}

/// Of a cluster whose API server is found at a name and an address.
pub(super) fn reserved() -> Reserved {
    Reserved::new(["10.96.0.0/12".parse().unwrap()], ["api.plant.example", "192.0.2.10"])
}

/// What `edge-1` is refused with the token of its ticket.
#[track_caller]
pub(super) fn refused(csr: &Csr) -> Refusal {
    Asker::token().claim(csr, Some(&TICKET)).unwrap_err()
}

/// The same for a serving certificate with these names, of a node whose record has `OWN`.
#[track_caller]
pub(super) fn serving(csr: &Csr) -> Result<Approval, Refusal> {
    let addresses: Vec<IpAddr> = OWN.iter().map(|address| address.parse().unwrap()).collect();
    let dns = texts(&["edge-1.plant.example"]);
    let node = AttestedNode { name: "edge-1", denied: false, dns: &dns, addresses: &addresses, holder: Holder::Worker };
    Asker::node("edge-1").serving(csr, Some(&node))
}
