//! The server's states.

use super::{Concluded, Part, Pending, asked_for, demands, out_of_turn};
use crate::binding::{Bindings, Nonces};
use crate::error::{ChannelError, Refused};
use crate::frame::Slot;
use crate::message::{Admitted, Challenge, Demand, Evidence, Identity, Message, VERSION};
use crate::nonce::Nonce;
use crate::proof::{PeerProof, ProofRequest, Terms};
use crate::purpose::{Kind, Kinds, Purpose, Side};
use crate::tls::Session;

/// What a listener serves: asked once per connection, so each gets the policy of its own moment.
///
/// Any `Fn(Purpose) -> Option<Terms>` is one.
pub trait Reception: Send + Sync {
    /// The terms for a client in this purpose, `None` if the purpose is not served here.
    fn terms(&self, purpose: Purpose) -> Option<Terms>;
}

impl<F: Fn(Purpose) -> Option<Terms> + Send + Sync> Reception for F {
    fn terms(&self, purpose: Purpose) -> Option<Terms> {
        self(purpose)
    }
}

/// The client's hello is due.
#[derive(Debug)]
pub struct AwaitHello {
    session: Session,
}

impl AwaitHello {
    /// A server that was connected to.
    pub const fn new(session: Session) -> Self {
        Self { session }
    }

    /// Takes the hello. The client's claimed identity is looked at before this side shows its own.
    pub fn greeted(self, message: Message, now: u64, reception: &dyn Reception) -> Result<Greeted, ChannelError> {
        let Message::Hello(hello) = message else {
            return Err(out_of_turn(Slot::Hello, &message));
        };
        if hello.version != VERSION {
            return Err(ChannelError::Version { got: hello.version });
        }
        let purpose = hello.purpose;
        let terms = reception.terms(purpose).ok_or(Refused::Purpose { got: purpose })?;
        let part = Part { purpose, side: Side::Server, terms };
        let shows = shows(&part, hello.accepts)?;
        let (demand, pending) = part.begin_appraisal(&hello.identity, now)?;
        Ok(Greeted { part, session: self.session, shows, demand, pending, client_nonce: hello.nonce })
    }
}

/// The strongest kind this side has that the client takes.
fn shows(part: &Part, accepted: Kinds) -> Result<Kind, ChannelError> {
    let offered = part.shows();
    if offered.is_empty() {
        return Err(part.nothing_to_show().into());
    }
    offered.and(accepted).strongest().ok_or_else(|| Refused::NothingInCommon { accepted, offered }.into())
}

/// The client said hello; the challenge is due.
#[derive(Debug)]
pub struct Greeted {
    part: Part,
    session: Session,
    shows: Kind,
    demand: Demand,
    pending: Pending,
    client_nonce: Nonce,
}

impl Greeted {
    /// The kind of identity that [`Self::challenge`] needs of the attester.
    pub const fn shows(&self) -> Kind {
        self.shows
    }

    /// This side's part, with the attester to ask.
    pub const fn terms(&self) -> &Terms {
        &self.part.terms
    }

    /// Challenges the client.
    pub fn challenge(self, identity: Identity, nonce: Nonce) -> Result<(Message, AwaitProof), ChannelError> {
        asked_for(self.shows, identity.kind())?;
        let nonces = Nonces { client: self.client_nonce, server: nonce };
        let bindings = Bindings::new(&self.session, self.part.purpose, &nonces);
        let challenge = Challenge { nonce, demand: self.demand, identity };
        let next = AwaitProof { part: self.part, shows: self.shows, pending: self.pending, bindings };
        Ok((Message::Challenge(Box::new(challenge)), next))
    }
}

/// The client's proof is due.
#[derive(Debug)]
pub struct AwaitProof {
    part: Part,
    shows: Kind,
    pending: Pending,
    bindings: Bindings,
}

impl AwaitProof {
    /// Appraises the client's evidence.
    pub fn appraised(self, message: Message, now: u64) -> Result<Appraised, ChannelError> {
        let Message::Proof(proof) = message else {
            return Err(out_of_turn(Slot::Proof, &message));
        };
        demands(self.shows, &proof.demand)?;
        let peer = self.pending.conclude(&proof.evidence, &self.bindings.client, now)?;
        let request = ProofRequest::new(proof.demand, self.bindings.server);
        Ok(Appraised { part: self.part, request, peer, bindings: self.bindings })
    }
}

/// The client is admitted, if it admits this side: its evidence is due.
#[derive(Debug)]
pub struct Appraised {
    part: Part,
    request: ProofRequest,
    peer: PeerProof,
    bindings: Bindings,
}

impl Appraised {
    /// What to ask of the attester.
    pub const fn request(&self) -> &ProofRequest {
        &self.request
    }

    /// This side's part, with the attester to ask.
    pub const fn terms(&self) -> &Terms {
        &self.part.terms
    }

    /// Admits the client and shows this side's evidence.
    pub fn admit(self, evidence: Evidence) -> Result<(Message, AwaitVerdict), ChannelError> {
        asked_for(self.request.demand().kind(), evidence.kind())?;
        let Part { purpose, side, .. } = self.part;
        let concluded = Concluded { purpose, side, peer: self.peer, bindings: self.bindings };
        Ok((Message::Admitted(Box::new(Admitted { evidence })), AwaitVerdict { concluded }))
    }
}

/// The client's verdict is due.
#[derive(Debug)]
pub struct AwaitVerdict {
    concluded: Concluded,
}

impl AwaitVerdict {
    /// Takes the client's verdict.
    pub fn concluded(self, message: &Message) -> Result<Concluded, ChannelError> {
        let Message::Admitted(admitted) = message else {
            return Err(out_of_turn(Slot::ClientVerdict, message));
        };
        match admitted.evidence {
            Evidence::None => Ok(self.concluded),
            Evidence::Tpm(_) | Evidence::PinnedKey(_) => {
                Err(Refused::KindChanged { expected: Kind::None, got: admitted.evidence.kind() }.into())
            }
        }
    }
}
