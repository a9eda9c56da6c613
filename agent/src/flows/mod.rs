//! The flows: what brings a key to a waiting node, and what serves whoever asks it.
//!
//! | flow | listens or asks | on a disk that is | file |
//! |---|---|---|---|
//! | init | listens | fresh | [`init`] |
//! | join | asks | fresh, or unfinished | [`ticket`] |
//! | rejoin | asks | existing | [`ticket`] |
//! | recovery | listens | existing | [`recovery`] |
//!
//! A flow only ever offers: it sends an [`Offer`] and waits for the verdict of the life machine. It can't open a disk
//! or extend a register.

pub(crate) mod init;
pub(crate) mod init_auth;
pub(crate) mod listener;
mod parse;
pub(crate) mod progress;
pub(crate) mod race;
pub(crate) mod recovery;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod ticket;
mod tries;
mod watched;

use latchkey_api::OfferRefusal;
use latchkey_api::v1::Components;
use latchkey_keys::{ClusterId, Secret, Uuid};
use latchkey_reason::{Reason, reasons};
use smol::channel::{Receiver, Sender, TrySendError, bounded};

use crate::handover::Task;
use crate::lifecycle::{NodeRole, Source, Verdict};

/// Every reason code of the flows themselves.
pub(crate) fn reason_codes() -> impl Iterator<Item = Reason> {
    reasons::<race::DialCode>().chain(reasons::<ticket::TicketCode>())
}

/// A key that a proven and authorised peer offers.
pub(crate) struct Offer {
    /// Who.
    pub(crate) source: Source,
    /// Opens the disk.
    pub(crate) disk_key: Secret<32>,
    /// Gives the cluster id, with the salt.
    pub(crate) measurement_secret: Secret<32>,
    /// What came with it.
    pub(crate) terms: Terms,
    /// Where the verdict goes. A flow that is gone does not care.
    pub(crate) answer: Sender<Verdict>,
}

/// What an offer says beyond the key.
pub(crate) enum Terms {
    /// For a fresh disk, or one whose bootstrap never finished: membership.
    Member(Box<Membership>),
    /// For an existing disk: its own token says the rest. The epoch that is on record, where there is a record.
    Known {
        /// Counts the first joins of this TPM.
        epoch: Option<u64>,
        /// What its cluster has of Kubernetes, where somebody says it: for images without.
        components: Option<Box<Components>>,
    },
}

/// A place in a cluster.
pub(crate) struct Membership {
    /// Derived from the secret and the salt.
    pub(crate) cluster_id: ClusterId,
    /// For the disk's token.
    pub(crate) measurement_salt: [u8; 32],
    /// Name of the cluster; empty where the ticket does not say.
    pub(crate) cluster_name: String,
    /// Decided by the join service, or by metadata on the first node.
    pub(crate) node_name: String,
    /// Decided by the join service.
    pub(crate) role: NodeRole,
    /// Counts the first joins of this TPM.
    pub(crate) epoch: u64,
    /// What stage 2 has to do.
    pub(crate) task: Task,
}

/// What every flow knows of its node.
#[derive(Clone)]
pub(crate) struct Node {
    /// The name asked for in metadata, or made from the endorsement key.
    pub(crate) name: String,
    /// Of the header that is or will be on the disk.
    pub(crate) disk_uuid: Uuid,
    /// To the driver.
    pub(crate) offers: Sender<Box<Offer>>,
}

impl Node {
    /// Offers a key; the verdict comes later, or never when the driver is gone. The offer is made when this returns:
    /// what becomes of whoever made it no longer matters.
    pub(crate) fn offer(
        &self,
        source: Source,
        disk_key: Secret<32>,
        measurement_secret: Secret<32>,
        terms: Terms,
    ) -> Receiver<Verdict> {
        let (answer, verdict) = bounded(1);
        let offer = Offer { source, disk_key, measurement_secret, terms, answer };
        if let Err(TrySendError::Full(offer)) = self.offers.try_send(Box::new(offer)) {
            let message = "other keys are being tried".into();
            // The first and only message of this channel always has room.
            let _ = offer.answer.try_send(Verdict::Refused { code: OfferRefusal::Busy, message });
        }
        verdict
    }
}
