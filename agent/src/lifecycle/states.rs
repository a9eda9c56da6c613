//! One struct per state of stage 1. Transitions consume the state; the next needs the witness of the last check.

#![expect(clippy::unused_self, reason = "a transition consumes the state it leaves")]

use latchkey_reason::Reason;
use latchkey_tpm::wire::extended;

use super::event::{Digest, DiskPhase, Grant, NodeRole, OfferId, Source};

/// The kernel command line was accepted; nothing else is known.
#[derive(Debug, Default)]
pub(super) struct Measured(());

/// The state disk was looked at; flows ask for a key.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) disk: Disk,
    /// The one offer whose key is being tried on the header copy.
    pub(super) checking: Option<Grant>,
    /// Offers that wait for their turn.
    pub(super) queue: Vec<Grant>,
    /// The flows that can still bring an offer for this disk.
    pub(super) flows: Vec<Source>,
    /// Why a flow is not among them: code and message of the first that failed.
    pub(super) broken: Option<(Reason, String)>,
}

/// What the probe found, and what became known of it since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disk {
    Fresh {
        attempts: u8,
    },
    Existing,
    /// The key fits, the token says that the bootstrap never finished: a join ticket is wanted.
    Unfinished {
        cluster_id: Digest,
    },
}

/// Facts from a token whose MAC was right: only a `KeyFits` event makes one.
#[derive(Clone, Copy, Debug)]
pub(super) struct AuthenticToken {
    pub(super) phase: DiskPhase,
    pub(super) role: NodeRole,
    pub(super) cluster_id: Digest,
    pub(super) epoch: u64,
    pub(super) attempts: u8,
}

/// A proven, authorised peer granted a key for this disk. The other flows are being stopped.
#[derive(Debug)]
pub(super) struct Keyed {
    grant: OfferId,
    cluster_id: Digest,
    format: Option<u8>,
}

/// PCR 15 holds the cluster's value: no code of this boot can obtain the key again.
#[derive(Debug)]
pub(super) struct Locked(Keyed);

/// The disk is open.
#[derive(Debug)]
pub(super) struct Opened(Keyed);

/// The hand-over is written; the agent has nothing left to do.
#[derive(Debug)]
pub(super) struct Left(());

/// Orders the lock on one cluster. Consumed by the driver that extends PCR 15.
#[derive(Debug, PartialEq, Eq)]
pub struct LockOrder {
    cluster_id: Digest,
}

/// Allows the disk to be opened, once. Made only by a node that is locked.
#[derive(Debug, PartialEq, Eq)]
pub struct OpenPermit {
    grant: OfferId,
    format: Option<u8>,
}

impl Measured {
    pub(super) fn fresh(self, attempts: u8) -> Waiting {
        Waiting::new(Disk::Fresh { attempts }, vec![Source::Init, Source::Join])
    }

    pub(super) fn existing(self) -> Waiting {
        Waiting::new(Disk::Existing, vec![Source::Rejoin, Source::Recovery])
    }
}

impl Waiting {
    fn new(disk: Disk, flows: Vec<Source>) -> Self {
        Self { disk, checking: None, queue: Vec::new(), flows, broken: None }
    }

    /// The key fits a disk whose bootstrap never finished: only a ticket for its cluster helps now.
    pub(super) fn unfinished(cluster_id: Digest) -> Self {
        Self::new(Disk::Unfinished { cluster_id }, vec![Source::Join])
    }

    /// A fresh disk takes the first grant of a cluster.
    pub(super) fn granted_fresh(self, grant: &Grant, cluster_id: Digest, attempts: u8) -> Keyed {
        Keyed { grant: grant.id, cluster_id, format: Some(attempts) }
    }

    /// A bootstrapped disk takes the grant whose key fits.
    pub(super) fn granted_existing(self, grant: &Grant, token: AuthenticToken) -> Keyed {
        Keyed { grant: grant.id, cluster_id: token.cluster_id, format: None }
    }

    /// An unfinished bootstrap goes on with a new ticket of the same cluster.
    pub(super) fn granted_unfinished(self, grant: &Grant, cluster_id: Digest) -> Keyed {
        Keyed { grant: grant.id, cluster_id, format: None }
    }
}

impl Keyed {
    pub(super) fn order(&self) -> LockOrder {
        LockOrder { cluster_id: self.cluster_id }
    }

    pub(super) fn grant(&self) -> OfferId {
        self.grant
    }

    /// Locked only if the TPM read back what the order must have made of a zero register.
    pub(super) fn locked(self, read_back: Digest) -> Result<Locked, Self> {
        if read_back == self.order().expected() { Ok(Locked(self)) } else { Err(self) }
    }
}

impl Locked {
    pub(super) fn permit(&self) -> OpenPermit {
        OpenPermit { grant: self.0.grant, format: self.0.format }
    }

    pub(super) fn opened(self) -> Opened {
        Opened(self.0)
    }

    pub(super) fn keyed(&self) -> &Keyed {
        &self.0
    }
}

impl Opened {
    pub(super) fn keyed(&self) -> &Keyed {
        &self.0
    }

    pub(super) fn left(self) -> (Left, OfferId, Digest) {
        (Left(()), self.0.grant, self.0.cluster_id)
    }
}

impl LockOrder {
    /// The 32 bytes that `TPM2_PCR_Event` hashes and extends: the cluster id.
    pub fn event(&self) -> &[u8; 32] {
        &self.cluster_id.0
    }

    /// What PCR 15 must read afterwards: `SHA256(0³² ‖ SHA256(cluster id))`. Anything else means that the register was not
    /// zero before, and that somebody else's code ran first.
    pub fn expected(&self) -> Digest {
        Digest(extended(&[0; 32], self.event()))
    }
}

impl OpenPermit {
    /// The offer whose key opens the disk.
    pub fn offer(&self) -> OfferId {
        self.grant
    }

    /// Format first, and with how many failed attempts in the new token; `None` for a disk that exists.
    pub fn format(&self) -> Option<u8> {
        self.format
    }

    /// As [`Self::format`], and uses the permit up: whoever opens a disk calls it.
    pub fn redeem(self) -> Option<u8> {
        self.format
    }
}
