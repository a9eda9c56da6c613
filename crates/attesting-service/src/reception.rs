//! How a connection is received. What is known of its peer grows with each step, and each step is a type:
//! [`Connection`] (an address) → [`Greeted`] (what it wants, who it says it is) → [`Attesting`] (its evidence) →
//! [`Node`] (proven). A peer that fails leaves a [`ReceptionError`] with what was known by then.

use crate::snapshot::Snapshot;
use latchkey_attestation::{
    Admission, Digest, EkDigest, KnownBy, LockExpectation, PcrValues, Policy, References, Refusal, VerifiedEvidence,
};
use latchkey_channel::message::{Evidence, Identity};
use latchkey_channel::{
    ChannelError, Kind, Kinds, PeerProof, PeerRefusal, PinnedKeyAttester, Proven, Purpose, Terms, TpmVerifier, greet,
};
use latchkey_reason::Reason;
use latchkey_service_runtime::connections::Shown;
use latchkey_service_runtime::log_limiter::LogLimiter;
use latchkey_service_runtime::serve::Stop;
use smol::future::FutureExt;
use smol::net::TcpStream;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Which node lock a service demands for a purpose; `None` if it does not serve the purpose, or not yet.
pub type Demand<O> = fn(&Snapshot<O>, Purpose) -> Option<LockExpectation>;

/// Says in one sentence which event of a refused machine's log tells; `None` where its measurements are not what was refused.
/// Its arguments: the refusal, what it was judged by, the PCR values that its TPM signed, and the log that it sent along.
pub type Diagnose = fn(&Refusal, (&Policy, &References), &PcrValues, Option<&[u8]>) -> Option<String>;

/// A connection with nothing but an address, and what it is met with: a reload never changes that.
#[derive(Debug)]
pub struct Connection<O> {
    /// Where it comes from.
    pub address: SocketAddr,
    /// What it has shown, for whoever shares out the places.
    pub shown: Shown,
    /// By what it is judged.
    pub snapshot: Arc<Snapshot<O>>,
    /// What this service shows.
    pub attester: Arc<PinnedKeyAttester>,
    /// What a node's lock must be.
    pub demand: Demand<O>,
    /// How a refusal for its measurements is explained.
    pub diagnose: Diagnose,
}

/// A peer that proved itself.
#[derive(Debug)]
pub struct Node {
    /// Where it comes from.
    pub address: SocketAddr,
    /// What the connection is for.
    pub purpose: Purpose,
    /// What the connection is called in logs of both sides.
    pub audit_id: String,
    /// What its evidence was admitted as.
    pub admission: Admission,
    /// What its TPM quoted, for who judges it again.
    pub verified: VerifiedEvidence,
}

impl Node {
    /// By what key the machine is known.
    pub fn ek(&self) -> EkDigest {
        self.admission.ek_digest()
    }

    /// Judges its evidence again, by what is in force now: the channel's proof is as old as the channel.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn still_admitted<O>(
        &self,
        snapshot: &Snapshot<O>,
        lock: LockExpectation,
        now: u64,
    ) -> Result<Admission, Refusal> {
        snapshot.policy.validate(&self.verified, &snapshot.references, lock, now)
    }

    /// The quoted value of PCR 15, `None` when it is zero.
    pub fn lock(&self) -> Option<Digest> {
        self.verified.pcrs().value(Policy::LOCK_PCR).filter(|value| *value != Digest::ZERO)
    }
}

/// Which TPM it says it is: claimed, not proven.
#[derive(Clone, Copy, Debug)]
pub struct Claimed {
    /// What the policy knows it by, which a denial takes; `None` if that key is none.
    pub identity: Option<EkDigest>,
    /// Which of its keys that is.
    pub known_by: KnownBy,
    /// Its endorsement key, which nobody vouches for where it is known by the other one; `None` if it is none.
    pub ek: Option<EkDigest>,
}

impl Claimed {
    fn of(identity: &Identity, policy: &Policy) -> Option<Self> {
        let Identity::Tpm(tpm) = identity else { return None };
        let known_by = policy.known_by();
        Some(Self { identity: known_by.claimed(tpm), known_by, ek: KnownBy::EndorsementKey.claimed(tpm) })
    }
}

/// It said hello.
struct Greeted<O> {
    connection: Connection<O>,
    purpose: Purpose,
    claimed: Option<Claimed>,
}

/// It has shown its evidence, which is not judged.
struct Attesting<O> {
    greeted: Greeted<O>,
    evidence: Arc<Evidence>,
}

/// Why a peer was not let in, and what it had shown by then.
#[derive(Debug)]
pub struct ReceptionError {
    /// What failed.
    pub error: Box<ChannelError>,
    /// What it wanted, if it said so.
    pub purpose: Option<Purpose>,
    /// Who it said it is, if it did.
    pub claimed: Option<Claimed>,
    /// Where its measurements were refused: the event of its log that tells, or why there is none to name.
    pub event: Option<String>,
}

impl<O: Clone> Connection<O> {
    /// The attested handshake, not beyond a stop: `None` then.
    pub async fn receive_until(
        self,
        stream: TcpStream,
        time: Duration,
        stop: &Stop,
    ) -> Option<Result<(Proven<TcpStream>, Node), ReceptionError>> {
        let received = async { Some(Box::pin(self.receive(stream, time)).await) };
        let stopped = async {
            stop.wait().await;
            None
        };
        received.or(stopped).await
    }

    /// The attested handshake.
    ///
    /// # Errors
    /// [`ReceptionError`].
    pub async fn receive(self, stream: TcpStream, time: Duration) -> Result<(Proven<TcpStream>, Node), ReceptionError> {
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

impl<O: Clone> Greeted<O> {
    /// What its purpose demands of it; `None` if the purpose is not served, or not yet.
    fn terms(&self) -> Option<Terms> {
        let Connection { snapshot, attester, demand, .. } = &self.connection;
        let Snapshot { policy, references, processors, .. } = &**snapshot;
        let lock = demand(snapshot, self.purpose)?;
        let verifier = TpmVerifier::new(Arc::clone(policy), Arc::clone(references), lock);
        let verifier = verifier.with_collateral(Arc::clone(processors));
        Some(Terms { attester: Arc::clone(attester) as _, verifier: Arc::new(verifier) })
    }

    fn failed(&self, error: ChannelError) -> ReceptionError {
        ReceptionError { error: error.into(), purpose: Some(self.purpose), claimed: self.claimed, event: None }
    }
}

impl<O: Clone> Attesting<O> {
    fn failed(&self, error: ChannelError) -> ReceptionError {
        let event = self.event(&error);
        ReceptionError { event, ..self.greeted.failed(error) }
    }

    /// Measurements are judged after the TPM's signature: what is refused for them was quoted.
    fn event(&self, error: &ChannelError) -> Option<String> {
        let (Evidence::Tpm(evidence), Some(refusal)) = (&*self.evidence, error.refusal()) else { return None };
        let Connection { snapshot, diagnose, .. } = &self.greeted.connection;
        let Snapshot { policy, references, .. } = &**snapshot;
        diagnose(refusal, (policy, references), evidence.pcrs(), evidence.event_log())
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
            verified: peer.verified().clone(),
        })
    }
}

impl ReceptionError {
    /// Its line. A refusal of evidence is a decision and has its line always: their number is bounded by the connection rates. What
    /// anybody can cause without evidence comes at a bounded rate.
    pub fn log(&self, address: SocketAddr, noise: &LogLimiter) {
        let Self { error, purpose, claimed, event } = self;
        let purpose = purpose.map_or("-", Purpose::name);
        let shown = |digest: Option<EkDigest>| digest.map_or_else(|| "-".to_owned(), |digest| digest.to_string());
        let ek = shown(claimed.and_then(|claimed| claimed.ek));
        let identity = shown(claimed.and_then(|claimed| claimed.identity));
        let known_by = claimed.map_or("-", |claimed| claimed.known_by.name());
        if let ChannelError::Refused(refused) = &**error {
            let difference = error.refusal().and_then(|refusal| refusal.difference());
            let component = difference.map_or_else(String::new, |difference| format!("{:?}", difference.component));
            let event = event.as_deref().unwrap_or_default();
            tracing::warn!(
                target: "audit", peer = %address, purpose, claimed_identity = identity, known_by, claimed_ek = ek, outcome = "refused", code = %refused.code(),
                peer_reason = ?refused.coarse(), component, event, detail = %refused, "Admission"
            );
        } else if let Some(left_out) = noise.write_now() {
            tracing::warn!(peer = %address, purpose, claimed_identity = identity, known_by, claimed_ek = ek, code = %error.code(), %error, remedy = error.code().remedy, left_out, "Handshake failed");
        }
    }

    /// The reason code of a refusal of evidence; `None` if it failed otherwise.
    pub fn refused(&self) -> Option<Reason> {
        if let ChannelError::Refused(refused) = &*self.error { Some(refused.code()) } else { None }
    }

    fn of_nobody(error: ChannelError) -> Self {
        Self { error: error.into(), purpose: None, claimed: None, event: None }
    }
}
