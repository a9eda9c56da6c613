//! A cluster kept in plain files: the standalone back-end of the join service, made by `latchkey init`. [`RecordStore`] and
//! [`Documents`] say what a back-end is; the one in the API server of a cluster is the crate `latchkey-kubernetes-store`.
//!
//! ```text
//! DIRECTORY/
//!   cluster.json            name, cluster id, measurement salt, how many machines are shut out (CountedDenials); absent: the cluster
//!                           is not initialised yet (ClusterFile)
//!   enrolment.json          which TPM gets which role and name (Enrolment)
//!   policy.json             what evidence must show (latchkey_attestation::Policy)
//!   reference.json          reference values, and more of them in references/*.json (…::ReferenceValues)
//!   *.json.minisig[.new]    signatures of these, where the policy demands them (…::reference::Signature)
//!   revisions.json          the newest revision of each manifest that was accepted here: none older is, ever
//!   control-plane.json      keys of the cluster's authorities, where `latchkey init` made them (control_plane)
//!   payload                 optional: opaque bytes for the nodes' cluster step, at most 64 KiB
//!   denied/EK-DIGEST        TPMs that are shut out: only the names count, so no typo elsewhere takes a denial back (Denials)
//!   pending/EK-DIGEST.json  machines that no rule speaks of and that wait for the operator; nothing is decided by it
//!                           (PendingRecord)
//!   status/EK-DIGEST.json   what was last seen of a machine on record; nothing is decided by it (NodeStatus)
//!   nodes/EK-DIGEST.json    one record per TPM, with the machine's firmware and what of it waits for the operator (NodeRecord)
//!   .lock                   held while records are written; counts the writes (Writer)
//! ```
//!
//! The module [`registration`] is the same for a centre's enrol service, which takes up whole clusters.
//!
//! `nodes/` and `denied/` are made by `latchkey init` and refused where they are missing (PlaceCode): made anew in passing, they would say
//! that nobody is on record, and that nobody is shut out.
//!
//! Every file is closed, versioned JSON. Files are replaced, never changed in place: readers see the old one or the new
//! one, also after a power cut. Two programs may write at once: each takes a [`Writer`].

mod atomic;
pub mod certificate;
mod cluster;
pub mod control_plane;
mod counted;
mod damaged;
mod denial_socket;
mod denials;
mod documents;
mod enrolment;
mod error;
mod firmware;
mod folder;
mod kubernetes;
mod name;
pub mod object_documents;
pub mod objects;
mod pair;
mod pending;
mod places;
mod record;
mod record_store;
pub mod registration;
mod release;
mod revisions;
mod status;
mod store;
mod ticket;
mod trust;
mod writer;

pub use cluster::ClusterFile;
pub use counted::CountedDenials;
pub use damaged::DamagedRecord;
pub use denial_socket::{
    DENIAL_SOCKET, DenialAnswer, DenialAsk, DenialOutcome, DenialRefusal, DenialRequest, MAX_DENIAL_LINE,
};
pub use denials::{Denials, NotDenied};
pub use documents::{Documents, Heard};
pub use enrolment::{Decided, DefaultRule, Enrolment, NameRule, NewDisk, PinnedRule, RoleRule};
pub use error::{ContentError, StoreError};
pub use firmware::{BootSeen, ChangedFirmware, Finding, FirmwareRecord, TpmBoot, TpmRecord};
pub use folder::FolderRecords;
pub use kubernetes::{ClusterMaterial, KubernetesFile, NextComponents};
pub use name::{NodeName, NodeNameError};
pub use pair::signature_of;
pub use pending::{MAX_PENDING, PendingRecord};
pub use places::PlaceCode;
pub use record::{Disk, DiskState, MAX_DISKS, MAX_RETIRED, Moved, NodeRecord, Outcome, Recorded, Reported, Role};
pub use record_store::{Change, Listing, News, PutError, PutRefusal, RecordStore, RefusedMachine, Turn};
pub use release::{DiskRelease, ReleaseCode, ReleaseError, ReleaseRefusal};
pub use revisions::Revisions;
pub use status::NodeStatus;
pub use store::{ClusterStore, MAX_CONFIG, MAX_PAYLOAD, MAX_RECORD, Part};
pub use ticket::{MAX_ADDRESSES, TicketRecord, parse_addresses};
pub use writer::Writer;

/// Every reason code of this crate.
pub fn reason_codes() -> impl Iterator<Item = latchkey_reason::Reason> {
    let store = latchkey_reason::reasons::<ReleaseCode>().chain(latchkey_reason::reasons::<PlaceCode>());
    store.chain(latchkey_reason::reasons::<DenialRefusal>())
}
