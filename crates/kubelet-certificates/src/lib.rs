//! Who gets a kubelet's certificate.
//!
//! Kubernetes has two signers for kubelets, and issues what somebody approves: any node's name to any bootstrap
//! token, serving certificates to tokens, foreign names to nodes. So that a ticket for one node makes no other,
//! somebody who knows the tickets has to look. This is the look: pure, no I/O, no clock. What carries it out reads
//! requests, asks the records, and writes:
//!
//! ```text
//! read(posted) ─→ Client(ask)  ─(ticket)→ ClientAsk::decide ─→ Claim ─(written, once)→ Claim::stands ─→ Approval
//!        │   ├──→ Renewal(ask) ─(node)──→ RenewalAsk::decide ───────────────────────────────────────→ Approval
//!        │   └──→ Serving(ask) ─(node)──→ ServingAsk::decide ───────────────────────────────────────→ Approval
//!        ├─ Deny: the refusal is written into the request
//!        └─ Leave: it is somebody else's
//! ```
//!
//! [`Approval`] is the witness without which nothing is approved.

mod decision;
mod names;
mod pkcs10;
mod posted;
mod refusal;

pub use decision::{Approval, AttestedNode, CLOCK_SKEW, Claim, ClientAsk, RenewalAsk, ServingAsk, Ticket, TicketState};
pub use names::{Holder, Network, NoNetwork, Reserved};
pub use pkcs10::{CertificateRequest, MAX_NAMES, MAX_PEM};
pub use posted::{Left, Posted, Reading, TokenId, read};
pub use refusal::CertificateRefusal;

/// The signer of kubelets' client certificates.
pub const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// The signer of kubelets' serving certificates.
pub const SERVING_SIGNER: &str = "kubernetes.io/kubelet-serving";
/// The group that the tokens of tickets are in.
pub const TOKEN_GROUP: &str = "system:bootstrappers:latchkey";

/// Every reason code of this crate.
pub fn reason_codes() -> impl Iterator<Item = latchkey_reason::Reason> {
    latchkey_reason::reasons::<CertificateRefusal>()
}
