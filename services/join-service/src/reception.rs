//! What a connection is met with: terms from the snapshot of its moment, and a note of who it says it is.

use crate::snapshot::Snapshot;
use latchkey_attestation::EkDigest;
use latchkey_channel::message::{Demand, Identity};
use latchkey_channel::{
    Appraisal, AppraisalFailed, Appraiser, Claim, Kinds, LockDemand, PinnedKeyProver, Reception, Role, Terms,
    TpmAppraiser,
};
use std::sync::{Arc, Mutex, PoisonError};

/// One connection's reception.
pub(crate) struct Desk {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) prover: Arc<PinnedKeyProver>,
    pub(crate) note: Note,
}

/// What a peer says before it has proven anything, for the line about its refusal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Note(Arc<Mutex<Noted>>);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Noted {
    pub(crate) role: Option<Role>,
    /// Claimed, not proven.
    pub(crate) ek: Option<EkDigest>,
}

impl Note {
    pub(crate) fn read(&self) -> Noted {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, write: impl FnOnce(&mut Noted)) {
        write(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Reception for Desk {
    fn terms(&self, role: Role) -> Option<Terms> {
        self.note.write(|noted| noted.role = Some(role));
        let Snapshot { policy, references, cluster, .. } = &*self.snapshot;
        let lock = match role {
            Role::Join | Role::Rejoin => LockDemand::Open,
            // Before there is a cluster nobody can be locked to it.
            Role::Report => LockDemand::LockedTo(cluster.as_ref()?.cluster_id.locked_pcr15()),
            Role::Init | Role::Attach | Role::Recover | Role::Verify => return None,
        };
        let demands = TpmAppraiser::new(Arc::clone(policy), Arc::clone(references), lock);
        let appraiser = Arc::new(Noting { demands, note: self.note.clone() });
        Some(Terms { prover: Arc::clone(&self.prover) as _, appraiser })
    }
}

/// Demands what `demands` demands; writes down whom it was asked about.
struct Noting {
    demands: TpmAppraiser,
    note: Note,
}

impl Appraiser for Noting {
    fn accepts(&self) -> Kinds {
        self.demands.accepts()
    }

    fn begin(&self, claim: &Claim<'_>) -> Result<(Demand, Box<dyn Appraisal>), AppraisalFailed> {
        if let Identity::Tpm(identity) = claim.identity {
            let ek = EkDigest::of_public_area(identity.ek_public()).ok();
            self.note.write(|noted| noted.ek = ek);
        }
        self.demands.begin(claim)
    }
}
