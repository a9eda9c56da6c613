//! The handshake over a real transport: this file does the waiting, `handshake` does the deciding. The server's half is in
//! `accept`.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use smol::Timer;
use smol::future::or;
use smol::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use crate::error::{ChannelError, Step};
use crate::frame::{self, FrameError, Slot};
use crate::handshake::{Concluded, Start};
use crate::message::{Evidence, Identity, Message};
use crate::misuse::MisuseError;
use crate::nonce::Nonce;
use crate::proof::{Attester, ProofError, ProofRequest, Terms};
use crate::proven::Proven;
use crate::purpose::{Kind, Purpose, Side};
use crate::tls::{self, Session, TlsError, TlsStream};

/// Time for a whole handshake that suits a slow discrete TPM (a quote and a credential activation may take seconds)
/// and no idler.
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(30);

/// Connects over `io` for `purpose`. The whole handshake may take `time`.
///
/// On any error the transport is gone and nothing has been sent but handshake messages.
pub async fn connect<S>(io: S, purpose: Purpose, terms: Terms, time: Duration) -> Result<Proven<S>, ChannelError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (line, session) = Line::establish(io, Side::Client, time).await?;
    prove(line, session, purpose, terms).await
}

/// What follows TLS at the client.
pub(crate) async fn prove<S>(
    mut line: Line<S>,
    session: Session,
    purpose: Purpose,
    terms: Terms,
) -> Result<Proven<S>, ChannelError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    match drive_client(&mut line, session, purpose, terms).await {
        Ok(concluded) => Ok(line.proven(concluded)),
        Err(error) => Err(line.turn_away(error).await),
    }
}

async fn drive_client<S>(
    line: &mut Line<S>,
    session: Session,
    purpose: Purpose,
    terms: Terms,
) -> Result<Concluded, ChannelError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let attester = Arc::clone(&terms.attester);
    let start = Start::new(session, purpose, terms)?;

    let identity = line.within(Step::Identity, identity(&attester, start.shows())).await?;
    let (hello, await_challenge) = start.hello(identity, nonce()?)?;
    line.send(Step::Greeting, &hello).await?;

    let challenge = line.receive(Step::Greeting, Slot::Challenge).await?;
    let challenged = await_challenge.challenged(challenge, now())?;

    let evidence = line.within(Step::Evidence, evidence(&attester, challenged.request())).await?;
    let (proof, await_verdict) = challenged.proof(evidence)?;
    line.send(Step::Verdict, &proof).await?;

    let admitted = line.receive(Step::Verdict, Slot::ServerVerdict).await?;
    let (verdict, concluded) = await_verdict.concluded(admitted, now())?;
    line.send(Step::Verdict, &verdict).await?;
    Ok(concluded)
}

/// A connection under way: TLS is established, and until a moment the peer is to be proven.
#[derive(Debug)]
pub(crate) struct Line<S> {
    stream: TlsStream<S>,
    deadline: Deadline,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Line<S> {
    /// The TLS handshake. `time` is for the whole handshake.
    pub(crate) async fn establish(io: S, side: Side, time: Duration) -> Result<(Self, Session), ChannelError> {
        let deadline = Deadline::after(time);
        let tls = async { tls::establish(io, side, allowance(side)).await.map_err(ChannelError::Tls) };
        let (stream, session) = deadline.of(Step::Tls, tls).await?;
        Ok((Self { stream, deadline }, session))
    }

    /// A connection whose TLS somebody else established.
    #[cfg(feature = "test-rig")]
    pub(crate) fn established(stream: TlsStream<S>, time: Duration) -> Self {
        Self { stream, deadline: Deadline::after(time) }
    }

    /// Does a step's work, if the deadline allows.
    pub(crate) async fn within<T>(
        &self,
        step: Step,
        work: impl Future<Output = Result<T, ChannelError>>,
    ) -> Result<T, ChannelError> {
        self.deadline.of(step, work).await
    }

    /// Sends one message, in this step.
    pub(crate) async fn send(&mut self, step: Step, message: &Message) -> Result<(), ChannelError> {
        let Self { stream, deadline } = self;
        let sent = async { frame::send(stream, message).await.map_err(ChannelError::Send) };
        deadline.of(step, sent).await
    }

    /// Receives one message, in this step.
    pub(crate) async fn receive(&mut self, step: Step, slot: Slot) -> Result<Message, ChannelError> {
        let Self { stream, deadline } = self;
        deadline.of(step, receive(stream, slot)).await
    }

    /// The handshake is done.
    pub(crate) fn proven(mut self, concluded: Concluded) -> Proven<S> {
        self.stream.lift_allowance();
        Proven::new(self.stream, concluded)
    }

    /// Tells the peer why not, where that is worth telling, and hangs up.
    pub(crate) async fn turn_away(mut self, error: ChannelError) -> ChannelError {
        if let Some(reply) = error.reply() {
            // Best effort: our own reason for failing matters more than whether the peer hears it.
            let peer_heard = async {
                let _ = frame::send(&mut self.stream, &reply).await;
                let _ = self.stream.close().await;
            };
            or(peer_heard, self.deadline.passed()).await;
        }
        error
    }
}

/// When a handshake must have ended; `None` is after the end of the clock.
#[derive(Clone, Copy, Debug)]
struct Deadline {
    at: Option<Instant>,
    allowed: Duration,
}

impl Deadline {
    fn after(allowed: Duration) -> Self {
        Self { at: Instant::now().checked_add(allowed), allowed }
    }

    async fn passed(self) {
        self.at.map_or_else(Timer::never, Timer::at).await;
    }

    async fn of<T>(self, step: Step, work: impl Future<Output = Result<T, ChannelError>>) -> Result<T, ChannelError> {
        let too_late = async {
            self.passed().await;
            Err(ChannelError::Deadline { step, allowed: self.allowed })
        };
        or(work, too_late).await
    }
}

/// Asks the attester for an identity, off the executor if that takes long.
pub(crate) async fn identity(attester: &Arc<dyn Attester>, kind: Kind) -> Result<Identity, ChannelError> {
    ask(attester, move |attester| attester.identity(kind)).await
}

/// Asks the attester for evidence, off the executor if that takes long.
pub(crate) async fn evidence(attester: &Arc<dyn Attester>, request: &ProofRequest) -> Result<Evidence, ChannelError> {
    let request = request.clone();
    ask(attester, move |attester| attester.prove(&request)).await
}

async fn ask<T: Send + 'static>(
    attester: &Arc<dyn Attester>,
    question: impl FnOnce(&dyn Attester) -> Result<T, ProofError> + Send + 'static,
) -> Result<T, ChannelError> {
    let answer = if attester.is_slow() {
        let attester = Arc::clone(attester);
        smol::unblock(move || question(attester.as_ref())).await
    } else {
        question(attester.as_ref())
    };
    answer.map_err(ChannelError::CannotProve)
}

async fn receive(stream: &mut (impl AsyncRead + Unpin), slot: Slot) -> Result<Message, ChannelError> {
    frame::receive(stream, slot).await.map_err(|error| match error {
        FrameError::Io(error) => match TlsError::from_io(error) {
            TlsError::Transport(error) => ChannelError::Frame { slot, error: FrameError::Io(error) },
            protocol => ChannelError::Tls(protocol),
        },
        error => ChannelError::Frame { slot, error },
    })
}

pub(crate) fn nonce() -> Result<Nonce, MisuseError> {
    Nonce::random().ok_or(MisuseError::NoRandomness)
}

/// Seconds since the Unix epoch; a clock before it is at 0, where no certificate is valid yet.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// What the peer of `side` may send until the stream is proven, TLS included, bytes.
const fn allowance(side: Side) -> u64 {
    let frames = match side {
        Side::Client => Slot::Challenge.limit() + Slot::ServerVerdict.limit(),
        Side::Server => Slot::Hello.limit() + Slot::Proof.limit() + Slot::ClientVerdict.limit(),
    };
    (frames + TLS_OVERHEAD) as u64
}

/// The TLS handshake has about 1 KiB, and each record of up to 16 KiB 22 bytes more.
const TLS_OVERHEAD: usize = 16 * 1024;
