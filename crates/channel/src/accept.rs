//! A server's handshake over a real transport, in steps. Each step has a type that holds what is known of the client by then:
//!
//! ```text
//! greet ─▶ Greeting: purpose and claimed identity ─ terms ─▶ Claimed: the claim can be proven
//!       ─▶ Shown: its evidence ─▶ Proven
//! ```
//!
//! A step that fails has told the client why, where that is worth telling, and the transport is gone.

use std::sync::Arc;
use std::time::Duration;

use smol::io::{AsyncRead, AsyncWrite};

use crate::driver::{Line, evidence, identity, nonce, now};
use crate::error::{ChannelError, Step};
use crate::frame::Slot;
use crate::handshake::{self, AwaitHello, Concluded, Greeted, Heard, Reception};
use crate::message::{Evidence, Identity};
use crate::proof::Terms;
use crate::proven::Proven;
use crate::purpose::{Purpose, Side};

/// Accepts a client over `io`. The whole handshake may take `time`; `reception` says what is served. For servers that need to
/// know nothing of clients that fail; others take the steps of [`greet`].
///
/// On any error the transport is gone and nothing has been sent but handshake messages.
pub async fn accept<S>(io: S, reception: &dyn Reception, time: Duration) -> Result<Proven<S>, ChannelError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let greeting = greet(io, time).await?;
    match reception.terms(greeting.purpose()) {
        Some(terms) => greeting.challenge(terms).await?.evidence().await?.conclude().await,
        None => Err(greeting.refuse().await),
    }
}

/// TLS, and the client's hello. `time` is for the whole handshake, with the steps that follow.
pub async fn greet<S>(io: S, time: Duration) -> Result<Greeting<S>, ChannelError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut line, session) = Line::establish(io, Side::Server, time).await?;
    let heard = match line.receive(Step::Greeting, Slot::Hello).await {
        Ok(hello) => AwaitHello::new(session).heard(hello),
        Err(error) => Err(error),
    };
    match heard {
        Ok(heard) => Ok(Greeting { line, heard }),
        Err(error) => Err(line.turn_away(error).await),
    }
}

/// A client that said hello. Nothing is answered, and nothing it said is proven.
#[derive(Debug)]
pub struct Greeting<S> {
    line: Line<S>,
    heard: Heard,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Greeting<S> {
    /// Of a connection whose TLS somebody else established.
    #[cfg(feature = "test-rig")]
    pub(crate) async fn of(mut line: Line<S>, session: crate::tls::Session) -> Result<Self, ChannelError> {
        let hello = line.receive(Step::Greeting, Slot::Hello).await?;
        Ok(Self { heard: AwaitHello::new(session).heard(hello)?, line })
    }

    /// What it connected for.
    pub const fn purpose(&self) -> Purpose {
        self.heard.purpose()
    }

    /// Who it says it is.
    pub const fn identity(&self) -> &Identity {
        self.heard.identity()
    }

    /// Tells it that its purpose is not served here.
    pub async fn refuse(self) -> ChannelError {
        self.line.turn_away(self.heard.not_served()).await
    }

    /// Looks at its claim: whether this purpose allows it, and the verifier would take proof of it.
    pub async fn challenge(self, terms: Terms) -> Result<Claimed<S>, ChannelError> {
        let Self { line, heard } = self;
        match heard.greeted(terms, now()) {
            Ok(greeted) => Ok(Claimed { line, greeted }),
            Err(error) => Err(line.turn_away(error).await),
        }
    }
}

/// A client whose claim can be proven. It has not been challenged.
#[derive(Debug)]
pub struct Claimed<S> {
    line: Line<S>,
    greeted: Greeted,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Claimed<S> {
    /// Challenges it, and waits for its evidence.
    pub async fn evidence(self) -> Result<Shown<S>, ChannelError> {
        let Self { mut line, greeted } = self;
        match challenge(&mut line, greeted).await {
            Ok(shown) => Ok(Shown { line, shown }),
            Err(error) => Err(line.turn_away(error).await),
        }
    }
}

/// A client that has shown its evidence. It is not judged.
#[derive(Debug)]
pub struct Shown<S> {
    line: Line<S>,
    shown: handshake::Shown,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Shown<S> {
    /// The evidence, to be kept where more than the verdict is wanted of it.
    pub const fn evidence(&self) -> &Arc<Evidence> {
        self.shown.evidence()
    }

    /// Judges it; proves this side to a client that it admits, and hears the client's verdict.
    pub async fn conclude(self) -> Result<Proven<S>, ChannelError> {
        let Self { mut line, shown } = self;
        match conclude(&mut line, shown).await {
            Ok(concluded) => Ok(line.proven(concluded)),
            Err(error) => Err(line.turn_away(error).await),
        }
    }
}

async fn challenge<S>(line: &mut Line<S>, greeted: Greeted) -> Result<handshake::Shown, ChannelError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let made = identity(&greeted.terms().attester, greeted.shows());
    let identity = line.within(Step::Identity, made).await?;
    let (challenge, await_proof) = greeted.challenge(identity, nonce()?)?;
    line.send(Step::Verdict, &challenge).await?;
    await_proof.shown(line.receive(Step::Verdict, Slot::Proof).await?)
}

async fn conclude<S>(line: &mut Line<S>, shown: handshake::Shown) -> Result<Concluded, ChannelError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let appraised = shown.appraised(now())?;
    let made = evidence(&appraised.terms().attester, appraised.request());
    let evidence = line.within(Step::Evidence, made).await?;
    let (admitted, await_verdict) = appraised.admit(evidence)?;
    line.send(Step::Verdict, &admitted).await?;
    await_verdict.concluded(&line.receive(Step::Verdict, Slot::ClientVerdict).await?)
}
