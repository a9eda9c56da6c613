//! What a connection is met with: terms from the snapshot of its moment, and a note of who it says it is.

use crate::snapshot::Snapshot;
use latchkey_attestation::{EkDigest, LockExpectation, Policy, References};
use latchkey_channel::binding::Binding;
use latchkey_channel::message::{Demand, Evidence, Identity};
use latchkey_channel::{
    Appraisal, AppraisalFailed, Claim, Kinds, PeerProof, PinnedKeyAttester, Purpose, Reception, Refused, Terms,
    TpmVerifier, Verifier,
};
use latchkey_measurements::diagnose::what_differs;
use latchkey_service_runtime::connections::Shown;
use std::sync::{Arc, Mutex, PoisonError};

/// One connection's reception.
pub(crate) struct HandshakeContext {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) attester: Arc<PinnedKeyAttester>,
    pub(crate) note: Note,
    pub(crate) shown: Shown,
}

/// What a peer says of itself, for the line about its refusal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Note(Arc<Mutex<Noted>>);

#[derive(Clone, Debug, Default)]
pub(crate) struct Noted {
    pub(crate) role: Option<Purpose>,
    /// Claimed, not proven.
    pub(crate) ek: Option<EkDigest>,
    /// Where its measurements were refused: the event of its log that tells, or why there is none to name.
    pub(crate) event: Option<String>,
}

impl Note {
    pub(crate) fn read(&self) -> Noted {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn write(&self, write: impl FnOnce(&mut Noted)) {
        write(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Reception for HandshakeContext {
    fn terms(&self, role: Purpose) -> Option<Terms> {
        self.note.write(|noted| noted.role = Some(role));
        let Snapshot { policy, references, cluster, .. } = &*self.snapshot;
        let lock = match role {
            Purpose::Join | Purpose::Rejoin => LockExpectation::Unlocked,
            // Before there is a cluster nobody can be locked to it.
            Purpose::Report => LockExpectation::LockedTo(cluster.as_ref()?.cluster_id.locked_pcr15()),
            Purpose::Init | Purpose::Attach | Purpose::Recover | Purpose::Verify => return None,
        };
        let demands = TpmVerifier::new(Arc::clone(policy), Arc::clone(references), lock);
        let known = Known { policy: Arc::clone(policy), references: Arc::clone(references) };
        let verifier = Arc::new(Noting { demands, known, note: self.note.clone(), shown: self.shown.clone() });
        Some(Terms { attester: Arc::clone(&self.attester) as _, verifier })
    }
}

/// Demands what `demands` demands; writes down whom it was asked about, and what the log of a refused machine tells.
struct Noting {
    demands: TpmVerifier,
    known: Known,
    note: Note,
    shown: Shown,
}

/// What machines are compared with.
#[derive(Clone)]
struct Known {
    policy: Arc<Policy>,
    references: Arc<References>,
}

impl Verifier for Noting {
    fn accepts(&self) -> Kinds {
        self.demands.accepts()
    }

    fn begin(&self, claim: &Claim<'_>) -> Result<(Demand, Box<dyn Appraisal>), AppraisalFailed> {
        if let Identity::Tpm(identity) = claim.identity {
            let ek = EkDigest::of_public_area(identity.ek_public()).ok();
            self.note.write(|noted| noted.ek = ek);
        }
        let (demand, appraisal) = self.demands.begin(claim)?;
        self.shown.claimed();
        Ok((demand, Box::new(Explaining { appraisal, known: self.known.clone(), note: self.note.clone() })))
    }
}

struct Explaining {
    appraisal: Box<dyn Appraisal>,
    known: Known,
    note: Note,
}

impl Appraisal for Explaining {
    fn conclude(self: Box<Self>, evidence: &Evidence, binding: &Binding, now: u64) -> Result<PeerProof, Refused> {
        let Self { appraisal, known, note } = *self;
        appraisal.conclude(evidence, binding, now).inspect_err(|refused| {
            let event = known.event(evidence, refused);
            note.write(|noted| noted.event = event);
        })
    }
}

impl Known {
    /// Measurements are judged after the TPM's signature: what is refused for them was quoted.
    fn event(&self, evidence: &Evidence, refused: &Refused) -> Option<String> {
        let (Evidence::Tpm(evidence), Refused::Evidence(refusal)) = (evidence, refused) else { return None };
        what_differs(refusal, (&self.policy, &self.references), evidence.pcrs(), evidence.event_log())
    }
}
