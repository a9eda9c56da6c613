//! The client's states.

use super::{Concluded, Part, Pending, asked_for, demands, out_of_turn};
use crate::binding::{Bindings, Nonces};
use crate::error::ChannelError;
use crate::frame::Slot;
use crate::message::{Admitted, Demand, Evidence, Hello, Identity, Message, Proof, VERSION};
use crate::misuse::MisuseError;
use crate::nonce::Nonce;
use crate::proof::{ProofRequest, Terms};
use crate::purpose::{Kind, Kinds, Purpose, Side};
use crate::tls::Session;

/// Nothing is said yet.
#[derive(Debug)]
pub struct Start {
    part: Part,
    session: Session,
    shows: Kind,
    accepts: Kinds,
}

impl Start {
    /// A client that connected for `purpose`.
    pub fn new(session: Session, purpose: Purpose, terms: Terms) -> Result<Self, MisuseError> {
        let part = Part { purpose, side: Side::Client, terms };
        let shows = part.shows().strongest().ok_or_else(|| part.nothing_to_show())?;
        let accepts = part.accepts()?;
        Ok(Self { part, session, shows, accepts })
    }

    /// The kind of identity that [`Self::hello`] needs of the attester.
    pub const fn shows(&self) -> Kind {
        self.shows
    }

    /// Says hello.
    pub fn hello(self, identity: Identity, nonce: Nonce) -> Result<(Message, AwaitChallenge), ChannelError> {
        asked_for(self.shows, identity.kind())?;
        let hello = Hello { version: VERSION, purpose: self.part.purpose, nonce, identity, accepts: self.accepts };
        let next = AwaitChallenge { part: self.part, session: self.session, shows: self.shows, nonce };
        Ok((Message::Hello(Box::new(hello)), next))
    }
}

/// The server's challenge is due.
#[derive(Debug)]
pub struct AwaitChallenge {
    part: Part,
    session: Session,
    shows: Kind,
    nonce: Nonce,
}

impl AwaitChallenge {
    /// Takes the challenge. The server's claimed identity is looked at before this side proves anything.
    pub fn challenged(self, message: Message, now: u64) -> Result<Challenged, ChannelError> {
        let Message::Challenge(challenge) = message else {
            return Err(out_of_turn(Slot::Challenge, &message));
        };
        demands(self.shows, &challenge.demand)?;
        let (demand, pending) = self.part.begin_appraisal(&challenge.identity, now)?;
        let nonces = Nonces { client: self.nonce, server: challenge.nonce };
        let bindings = Bindings::new(&self.session, self.part.purpose, &nonces);
        let request = ProofRequest::new(challenge.demand, bindings.client);
        Ok(Challenged { part: self.part, request, demand, pending, bindings })
    }
}

/// This side must prove itself.
#[derive(Debug)]
pub struct Challenged {
    part: Part,
    request: ProofRequest,
    demand: Demand,
    pending: Pending,
    bindings: Bindings,
}

impl Challenged {
    /// What to ask of the attester.
    pub const fn request(&self) -> &ProofRequest {
        &self.request
    }

    /// Shows the evidence and demands the server's.
    pub fn proof(self, evidence: Evidence) -> Result<(Message, AwaitVerdict), ChannelError> {
        asked_for(self.request.demand().kind(), evidence.kind())?;
        let proof = Proof { evidence, demand: self.demand };
        let next = AwaitVerdict { part: self.part, pending: self.pending, bindings: self.bindings };
        Ok((Message::Proof(Box::new(proof)), next))
    }
}

/// The server's verdict and evidence are due.
#[derive(Debug)]
pub struct AwaitVerdict {
    part: Part,
    pending: Pending,
    bindings: Bindings,
}

impl AwaitVerdict {
    /// Appraises the server's evidence. The message must be sent before any application byte.
    pub fn concluded(self, message: Message, now: u64) -> Result<(Message, Concluded), ChannelError> {
        let Message::Admitted(admitted) = message else {
            return Err(out_of_turn(Slot::ServerVerdict, &message));
        };
        let peer = self.pending.conclude(&admitted.evidence, &self.bindings.server, now)?;
        let Part { purpose, side, .. } = self.part;
        let verdict = Message::Admitted(Box::new(Admitted { evidence: Evidence::None }));
        Ok((verdict, Concluded { purpose, side, peer, bindings: self.bindings }))
    }
}
