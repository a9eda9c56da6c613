//! How a connection is received. What is known of its peer grows with each step, and each step is a type:
//! [`Connection`] (an address) → [`Greeted`] (what it wants, who it says it is) → [`Attesting`] (its evidence) →
//! [`Node`] (proven). A peer that fails leaves a [`ReceptionError`] with what was known by then.

use crate::service::Node;
use crate::snapshot::Snapshot;
use latchkey_attestation::{EkDigest, KnownBy, LockExpectation, Policy};
use latchkey_channel::message::{Evidence, Identity};
use latchkey_channel::{
    ChannelError, Kind, Kinds, PeerProof, PeerRefusal, PinnedKeyAttester, Proven, Purpose, Terms, TpmVerifier, greet,
};
use latchkey_measurements::diagnose::what_differs;
use latchkey_service_runtime::connections::Shown;
use smol::net::TcpStream;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// A connection with nothing but an address, and what it is met with: a reload never changes that.
pub(crate) struct Connection {
    pub(crate) address: SocketAddr,
    pub(crate) shown: Shown,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) attester: Arc<PinnedKeyAttester>,
}

/// Which TPM it says it is: claimed, not proven.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claimed {
    /// What the policy knows it by, which a denial takes; `None` if that key is none.
    pub(crate) identity: Option<EkDigest>,
    /// Which of its keys that is.
    pub(crate) known_by: KnownBy,
    /// Its endorsement key, which nobody vouches for where it is known by the other one; `None` if it is none.
    pub(crate) ek: Option<EkDigest>,
}

impl Claimed {
    fn of(identity: &Identity, policy: &Policy) -> Option<Self> {
        let Identity::Tpm(tpm) = identity else { return None };
        let known_by = policy.known_by();
        Some(Self { identity: known_by.claimed(tpm), known_by, ek: KnownBy::EndorsementKey.claimed(tpm) })
    }
}

/// It said hello.
struct Greeted {
    connection: Connection,
    purpose: Purpose,
    claimed: Option<Claimed>,
}

/// It has shown its evidence, which is not judged.
struct Attesting {
    greeted: Greeted,
    evidence: Arc<Evidence>,
}

/// Why a peer was not let in, and what it had shown by then.
#[derive(Debug)]
pub(crate) struct ReceptionError {
    pub(crate) error: Box<ChannelError>,
    pub(crate) purpose: Option<Purpose>,
    pub(crate) claimed: Option<Claimed>,
    /// Where its measurements were refused: the event of its log that tells, or why there is none to name.
    pub(crate) event: Option<String>,
}

impl Connection {
    /// The attested handshake.
    pub(crate) async fn receive(
        self,
        stream: TcpStream,
        time: Duration,
    ) -> Result<(Proven<TcpStream>, Node), ReceptionError> {
        let greeting = greet(stream, time).await.map_err(ReceptionError::of_nobody)?;
        let greeted = Greeted {
            purpose: greeting.purpose(),
            claimed: Claimed::of(greeting.identity(), &self.snapshot.policy),
            connection: self,
        };
        let Some(terms) = greeted.terms() else { return Err(greeted.failed(greeting.refuse().await)) };
        let claimed = greeting.challenge(terms).await.map_err(|error| greeted.failed(error))?;
        greeted.connection.shown.claimed();
        let shown = claimed.evidence().await.map_err(|error| greeted.failed(error))?;
        let attesting = Attesting { greeted, evidence: Arc::clone(shown.evidence()) };
        let proven = shown.conclude().await.map_err(|error| attesting.failed(error))?;
        let node = attesting.proven(&proven)?;
        Ok((proven, node))
    }
}

impl Greeted {
    /// What its purpose demands of it; `None` if the purpose is not served, or not yet.
    fn terms(&self) -> Option<Terms> {
        let Connection { snapshot, attester, .. } = &self.connection;
        let Snapshot { policy, references, cluster, processors, .. } = &**snapshot;
        let lock = match self.purpose {
            Purpose::Join | Purpose::Rejoin => LockExpectation::Unlocked,
            // Before there is a cluster nobody can be locked to it.
            Purpose::Report => LockExpectation::LockedTo(cluster.as_ref()?.cluster_id.locked_pcr15()),
            Purpose::Init | Purpose::Attach | Purpose::Recover | Purpose::Verify => return None,
        };
        let verifier = TpmVerifier::new(Arc::clone(policy), Arc::clone(references), lock);
        let verifier = verifier.with_collateral(Arc::clone(processors));
        Some(Terms { attester: Arc::clone(attester) as _, verifier: Arc::new(verifier) })
    }

    fn failed(&self, error: ChannelError) -> ReceptionError {
        ReceptionError { error: error.into(), purpose: Some(self.purpose), claimed: self.claimed, event: None }
    }
}

impl Attesting {
    fn failed(&self, error: ChannelError) -> ReceptionError {
        let event = self.event(&error);
        ReceptionError { event, ..self.greeted.failed(error) }
    }

    /// Measurements are judged after the TPM's signature: what is refused for them was quoted.
    fn event(&self, error: &ChannelError) -> Option<String> {
        let (Evidence::Tpm(evidence), Some(refusal)) = (&*self.evidence, error.refusal()) else { return None };
        let Snapshot { policy, references, .. } = &*self.greeted.connection.snapshot;
        what_differs(refusal, (policy, references), evidence.pcrs(), evidence.event_log())
    }

    fn proven(&self, proven: &Proven<TcpStream>) -> Result<Node, ReceptionError> {
        let PeerProof::Tpm(peer) = proven.peer() else {
            // The table of purposes lets nodes show nothing else.
            let refused = PeerRefusal::KindNotAccepted { accepted: Kinds::of(&[Kind::Tpm]), got: proven.peer().kind() };
            return Err(self.failed(refused.into()));
        };
        let Connection { address, shown, .. } = &self.greeted.connection;
        shown.admitted();
        Ok(Node {
            address: *address,
            purpose: proven.purpose(),
            audit_id: proven.audit_id(),
            admission: peer.admission().clone(),
            log: peer.verified().shared_unverified_event_log(),
        })
    }
}

impl ReceptionError {
    fn of_nobody(error: ChannelError) -> Self {
        Self { error: error.into(), purpose: None, claimed: None, event: None }
    }
}
