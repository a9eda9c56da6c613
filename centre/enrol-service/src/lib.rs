//! The enrol service: takes up clusters at a centre whose first node proves what it runs.
//!
//! The way of a request, in code order:
//!
//! 1. `latchkey-attesting-service` takes the attested handshake: a TPM that the policy trusts, an image of a manifest, and a lock on
//!    some cluster.
//! 2. [`decision`] judges the evidence once more by what is in force now, and says whose cluster it is: one that was taken up
//!    before, one that an invitation, the operator or a rule speaks of, or one that waits. It is pure: no I/O, no clock.
//! 3. `keeper` writes the record, with the cluster's UUID. Whatever was used for it stands in it, so that one write uses an
//!    invitation up and takes the cluster up.
//! 4. `centre` makes the object and the entries of that UUID, and waits until the cluster is set up; each step may be done again.
//! 5. `service` writes the decision's line, counts, and answers with manifests and a token.
//!
//! A crash, a lost connection or a second call at any step ends at 2 with the record, and so with the same cluster.

mod ask;
mod centre;
pub mod config;
pub mod decision;
mod keeper;
mod metrics;
mod pages;
mod run;
mod server;
mod service;
mod source;

pub use latchkey_attesting_service::identity;
pub use run::run;

/// Every reason code of this crate.
pub fn reason_codes() -> impl Iterator<Item = latchkey_reason::Reason> {
    latchkey_reason::reasons::<decision::Refusal>().chain(latchkey_reason::reasons::<decision::Waiting>())
}
