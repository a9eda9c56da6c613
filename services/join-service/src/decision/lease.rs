//! One control plane joins at a time: two new members of etcd at once can cost it its quorum.

use latchkey_attestation::EkDigest;
use std::time::Duration;

/// How long a control plane may take to join and report before the next may try.
pub const LEASE: Duration = Duration::from_mins(10);

/// Who is joining, until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    holder: EkDigest,
    until: Duration,
    /// Whether a ticket went out. Before that, a request that fails gives the lease back.
    issued: bool,
}

/// Witness: by the rules and its record this machine is a control plane, its record stands, and it alone may join as one now.
/// Nobody gets the keys of the cluster's authorities without it.
#[derive(Debug)]
pub struct ControlPlaneTurn(());

impl ControlPlaneTurn {
    /// For whom the lease was just written.
    pub(super) fn of(lease: &Lease) -> Option<Self> {
        lease.issued.then_some(Self(()))
    }
}

impl Lease {
    /// For a request that still has to get its keys.
    pub(super) fn requested(holder: EkDigest, now: Duration) -> Self {
        Self { holder, until: now.saturating_add(LEASE), issued: false }
    }

    /// For a ticket that goes out now.
    pub(super) fn issued(holder: EkDigest, now: Duration) -> Self {
        Self { issued: true, ..Self::requested(holder, now) }
    }

    pub(super) fn holder(&self) -> EkDigest {
        self.holder
    }

    pub(super) fn is_of(&self, ek: EkDigest) -> bool {
        self.holder == ek
    }

    pub(super) fn is_issued(&self) -> bool {
        self.issued
    }

    pub(super) fn ended(&self, now: Duration) -> bool {
        now >= self.until
    }
}
