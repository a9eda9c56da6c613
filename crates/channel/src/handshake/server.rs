//! The server's states.

use std::sync::Arc;

use super::{Concluded, Part, Pending, asked_for, demands, out_of_turn};
use crate::binding::{Bindings, Nonces};
use crate::error::ChannelError;
use crate::frame::Slot;
use crate::message::{Admitted, Challenge, Demand, Evidence, Hello, Identity, Message, Proof, VERSION};
use crate::nonce::Nonce;
use crate::proof::{PeerProof, ProofRequest, Terms};
use crate::purpose::{Kind, Kinds, Purpose, Side};
use crate::refusal::PeerRefusal;
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

    /// Takes the hello. Nothing of it is looked at but the version.
    pub fn heard(self, message: Message) -> Result<Heard, ChannelError> {
        let Message::Hello(hello) = message else {
            return Err(out_of_turn(Slot::Hello, &message));
        };
        if hello.version != VERSION {
            return Err(ChannelError::Version { got: hello.version });
        }
        Ok(Heard { session: self.session, hello })
    }
}

/// The client said hello; the terms for it are due.
#[derive(Debug)]
pub struct Heard {
    session: Session,
    hello: Box<Hello>,
}

impl Heard {
    /// What the client connected for.
    pub const fn purpose(&self) -> Purpose {
        self.hello.purpose
    }

    /// Who it says it is.
    pub const fn identity(&self) -> &Identity {
        &self.hello.identity
    }

    /// There are no terms for its purpose.
    pub fn not_served(&self) -> ChannelError {
        PeerRefusal::Purpose { got: self.purpose() }.into()
    }

    /// Looks at the client's claimed identity, before this side shows its own.
    pub fn greeted(self, terms: Terms, now: u64) -> Result<Greeted, ChannelError> {
        let Self { session, hello } = self;
        let part = Part { purpose: hello.purpose, side: Side::Server, terms };
        let shows = shows(&part, hello.accepts)?;
        let (demand, pending) = part.begin_appraisal(&hello.identity, now)?;
        Ok(Greeted { part, session, shows, demand, pending, client_nonce: hello.nonce })
    }
}

/// The strongest kind this side has that the client takes.
fn shows(part: &Part, accepted: Kinds) -> Result<Kind, ChannelError> {
    let offered = part.shows();
    if offered.is_empty() {
        return Err(part.nothing_to_show().into());
    }
    offered.and(accepted).strongest().ok_or_else(|| PeerRefusal::NothingInCommon { accepted, offered }.into())
}

/// The client's claim can be proven; the challenge is due.
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
    /// Takes the client's proof. Nothing of it is judged.
    pub fn shown(self, message: Message) -> Result<Shown, ChannelError> {
        let Message::Proof(proof) = message else {
            return Err(out_of_turn(Slot::Proof, &message));
        };
        let Proof { evidence, demand } = *proof;
        demands(self.shows, &demand)?;
        let Self { part, pending, bindings, .. } = self;
        Ok(Shown { part, pending, bindings, evidence: Arc::new(evidence), demand })
    }
}

/// The client has shown its evidence; the verdict is due.
#[derive(Debug)]
pub struct Shown {
    part: Part,
    pending: Pending,
    bindings: Bindings,
    evidence: Arc<Evidence>,
    demand: Demand,
}

impl Shown {
    /// The evidence.
    pub const fn evidence(&self) -> &Arc<Evidence> {
        &self.evidence
    }

    /// Appraises it.
    pub fn appraised(self, now: u64) -> Result<Appraised, ChannelError> {
        let Self { part, pending, bindings, evidence, demand } = self;
        let peer = pending.conclude(&evidence, &bindings.client, now)?;
        let request = ProofRequest::new(demand, bindings.server);
        Ok(Appraised { part, request, peer, bindings })
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
                Err(PeerRefusal::KindChanged { expected: Kind::None, got: admitted.evidence.kind() }.into())
            }
        }
    }
}
