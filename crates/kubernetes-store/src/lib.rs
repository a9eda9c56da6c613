//! A cluster's records and documents in its own API server, so that any number of join services decide as one.
//!
//! | what | object | who writes it |
//! |---|---|---|
//! | a machine's record | `AttestedNode`, cluster-scoped, named by its EK digest; `spec` is [`latchkey_cluster_store::NodeRecord`] | join services |
//! | what was last seen of a machine, for people | its `status` | join services, beside the decisions |
//! | a refusal, for people | `Event` on the `AttestedNode`, or on the cluster's `ConfigMap` | join services, beside the decisions |
//! | that a name or a disk is one machine's | the records themselves, in the order of etcd: whose was the first (`naming`) | |
//! | that a control plane is joining | `Lease` `latchkey` | join services |
//! | policy, manifests, rules, cluster, denials, collateral | `ConfigMap`s `latchkey-policy`, `-references`, `-enrolment`, `-cluster`, `-denied`, `-collateral`; keys are the files of a cluster directory | the operator |
//! | revisions accepted, machines that wait | `ConfigMap`s `latchkey-revisions`, `latchkey-pending` | join services |
//! | where nodes find the API server, and its authority | `kubernetes.json` of `latchkey-cluster`; `ConfigMap` `kube-root-ca.crt` | the operator; the cluster itself |
//! | a ticket's way into the cluster | `Secret` `bootstrap-token-ID` in `kube-system`: [`tokens`] | join services, which cannot read it |
//! | who gets a kubelet's certificate | `CertificateSigningRequest`s: [`WaitingRequest`] | join services approve and deny |
//!
//! # How two services decide as one
//!
//! Every service has all records in memory, as the last complete listing had them and as a watch and answers told since, and decides
//! there. What it decides counts once it is written:
//!
//! 1. a machine that joins as a control plane takes the lease;
//! 2. the record is created, or replaced if it still is the revision that the decision was made on. A machine's record is its TPM's
//!    claim: two of one name cannot be;
//! 3. where it names what it did not name before, the service waits until its watch tells of that: then it knows everything that others
//!    wrote before, and whose claim was the first (`naming`).
//!
//! Who comes second is told which of these it was, and is refused or decides anew.
//!
//! # How old that is
//!
//! Records and documents are listed anew each ten seconds, after any failure, and whatever a watch says or does not say. A listing is the
//! truth, whatever its revisions: where etcd was restored they go backwards. What a document says is read after each, since a listing is
//! what the API server remembers, and what is read is etcd's. As of when something is known is when its last complete
//! listing was asked for; whoever decides looks how long ago that was.
//!
//! Each document is listed and watched by its name, and the rights that this crate needs are those of `charts/latchkey`: its tests run with them.
//!
//! # What is believed
//!
//! Whoever can write these objects decides who is let in, as whoever can write a cluster directory does; RBAC says who that is.
//! What is read is bounded and closed all the same: an object that is not what this release would have written costs what it names,
//! and no more.

mod beneath;
mod beside;
mod cache;
mod connection;
mod documents;
mod error;
mod events;
mod lease;
mod naming;
mod objects;
mod records;
mod requests;
mod rights;
mod status;
mod store;
mod sweep;
pub mod tokens;
mod watch;

pub use error::{ApiCode, ApiStoreCode, is_overload};
pub use latchkey_cluster_store::objects::{GROUP, NAMESPACE, VERSION};
pub use objects::{chart_definitions, node_definition};
pub use requests::{Answered, Standing, WaitingRequest};
pub use store::{KubernetesStore, OnChange};

/// Every reason code of this crate.
pub fn reason_codes() -> impl Iterator<Item = latchkey_reason::Reason> {
    latchkey_kubernetes_client::reason_codes().chain(latchkey_reason::reasons::<ApiStoreCode>())
}
