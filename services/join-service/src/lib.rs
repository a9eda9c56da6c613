//! The join service: lets attested nodes into the cluster.
//!
//! The way of a request, in code order:
//!
//! 1. `server` takes a connection within rates and places, before anything is spent on it.
//! 2. The crate `latchkey-attesting-service` takes the steps of the attested handshake, with terms from the snapshot of the moment:
//!    policy, reference values, and the node lock that `server` demands for the purpose.
//! 3. [`decision`] says who gets which role, name and disk, takes the control-plane lease, and only then admits the
//!    request to the keys. It is pure: no I/O, no clock.
//! 4. `keys` fetches the keys that were admitted, from the key service or a file.
//! 5. `store` decides once more on what stands, writes the record, and only then is there a ticket.
//! 6. `service` writes the decision's line, counts, and answers.
//!
//! `documents` and `watch` follow the cluster's documents: a good one is swapped in, a bad one keeps the old one and says so.
//! Where documents and records are kept, the [`BackEnd`] says.

mod api_certificate;
mod approver;
mod back_end;
pub mod config;
mod control_plane;
mod credentials;
pub mod decision;
mod denial_socket;
mod denials;
mod documents;
mod keys;
mod metrics;
mod pages;
mod run;
mod server;
mod service;
mod service_files;
mod store;
mod tokens;
mod watch;

pub use back_end::BackEnd;
pub use documents::{Cluster, Described};
pub use keys::{KeyError, KeySource};
pub use latchkey_attesting_service::identity;
pub use run::run;
pub use server::Prepared;

/// Every reason code of this crate.
pub fn reason_codes() -> impl Iterator<Item = latchkey_reason::Reason> {
    latchkey_reason::reasons::<decision::Refusal>().chain(latchkey_reason::reasons::<decision::Warning>())
}
