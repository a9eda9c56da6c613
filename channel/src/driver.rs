//! The handshake over a real transport: this file does the waiting, `handshake` does the deciding.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use smol::Timer;
use smol::future::or;
use smol::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use crate::error::{ChannelError, Misuse, Step};
use crate::frame::{self, FrameFault, Slot};
use crate::handshake::{AwaitHello, Concluded, Reception, Start};
use crate::message::{Evidence, Identity, Message};
use crate::nonce::Nonce;
use crate::proof::{Attester, ProofFailed, ProofRequest, Terms};
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
    let progress = Progress::new();
    let work = async {
        let (mut stream, session) = establish(io, Side::Client).await?;
        let result = drive_client(&mut stream, session, purpose, terms, &progress).await;
        finish(stream, result).await
    };
    within(time, &progress, work).await
}

/// Accepts a client over `io`. The whole handshake may take `time`; `reception` says what is served.
///
/// On any error the transport is gone and nothing has been sent but handshake messages.
pub async fn accept<S>(io: S, reception: &dyn Reception, time: Duration) -> Result<Proven<S>, ChannelError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let progress = Progress::new();
    let work = async {
        let (mut stream, session) = establish(io, Side::Server).await?;
        let result = drive_server(&mut stream, session, reception, &progress).await;
        finish(stream, result).await
    };
    within(time, &progress, work).await
}

async fn establish<S>(io: S, side: Side) -> Result<(TlsStream<S>, Session), ChannelError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    tls::establish(io, side, allowance(side)).await.map_err(ChannelError::Tls)
}

pub(crate) async fn drive_client<S>(
    stream: &mut TlsStream<S>,
    session: Session,
    purpose: Purpose,
    terms: Terms,
    progress: &Progress,
) -> Result<Concluded, ChannelError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let attester = Arc::clone(&terms.attester);
    let start = Start::new(session, purpose, terms)?;

    progress.at(Step::Identity);
    let identity = identity(&attester, start.shows()).await?;
    let (hello, await_challenge) = start.hello(identity, nonce()?)?;
    send(stream, &hello).await?;

    progress.at(Step::Greeting);
    let challenged = await_challenge.challenged(receive(stream, Slot::Challenge).await?, now())?;

    progress.at(Step::Evidence);
    let evidence = evidence(&attester, challenged.request()).await?;
    let (proof, await_verdict) = challenged.proof(evidence)?;
    send(stream, &proof).await?;

    progress.at(Step::Verdict);
    let (verdict, concluded) = await_verdict.concluded(receive(stream, Slot::ServerVerdict).await?, now())?;
    send(stream, &verdict).await?;
    Ok(concluded)
}

async fn drive_server<S>(
    stream: &mut TlsStream<S>,
    session: Session,
    reception: &dyn Reception,
    progress: &Progress,
) -> Result<Concluded, ChannelError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    progress.at(Step::Greeting);
    let hello = receive(stream, Slot::Hello).await?;
    let greeted = AwaitHello::new(session).greeted(hello, now(), reception)?;
    let attester = Arc::clone(&greeted.terms().attester);

    progress.at(Step::Identity);
    let identity = identity(&attester, greeted.shows()).await?;
    let (challenge, await_proof) = greeted.challenge(identity, nonce()?)?;
    send(stream, &challenge).await?;

    progress.at(Step::Verdict);
    let appraised = await_proof.appraised(receive(stream, Slot::Proof).await?, now())?;

    progress.at(Step::Evidence);
    let evidence = evidence(&attester, appraised.request()).await?;
    let (admitted, await_verdict) = appraised.admit(evidence)?;
    send(stream, &admitted).await?;

    progress.at(Step::Verdict);
    await_verdict.concluded(&receive(stream, Slot::ClientVerdict).await?)
}

/// Hands the stream over, or tells the peer why not.
pub(crate) async fn finish<S>(
    mut stream: TlsStream<S>,
    result: Result<Concluded, ChannelError>,
) -> Result<Proven<S>, ChannelError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    match result {
        Ok(concluded) => {
            stream.lift_allowance();
            Ok(Proven::new(stream, concluded))
        }
        Err(error) => {
            // Best effort: our own reason for failing matters more than whether the peer hears it.
            if let Some(reply) = error.reply() {
                let _ = frame::send(&mut stream, &reply).await;
                let _ = stream.close().await;
            }
            Err(error)
        }
    }
}

/// Asks the attester for an identity, off the executor if that takes long.
async fn identity(attester: &Arc<dyn Attester>, kind: Kind) -> Result<Identity, ChannelError> {
    ask(attester, move |attester| attester.identity(kind)).await
}

/// Asks the attester for evidence, off the executor if that takes long.
async fn evidence(attester: &Arc<dyn Attester>, request: &ProofRequest) -> Result<Evidence, ChannelError> {
    let request = request.clone();
    ask(attester, move |attester| attester.prove(&request)).await
}

async fn ask<T: Send + 'static>(
    attester: &Arc<dyn Attester>,
    question: impl FnOnce(&dyn Attester) -> Result<T, ProofFailed> + Send + 'static,
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
    frame::receive(stream, slot).await.map_err(|fault| match fault {
        FrameFault::Io(error) => match TlsError::from_io(error) {
            TlsError::Transport(error) => ChannelError::Frame { slot, fault: FrameFault::Io(error) },
            protocol => ChannelError::Tls(protocol),
        },
        fault => ChannelError::Frame { slot, fault },
    })
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), message: &Message) -> Result<(), ChannelError> {
    frame::send(stream, message).await.map_err(ChannelError::Send)
}

fn nonce() -> Result<Nonce, Misuse> {
    Nonce::random().ok_or(Misuse::NoRandomness)
}

/// Seconds since the Unix epoch; a clock before it is at 0, where no certificate is valid yet.
fn now() -> u64 {
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

async fn within<T>(
    time: Duration,
    progress: &Progress,
    work: impl Future<Output = Result<T, ChannelError>>,
) -> Result<T, ChannelError> {
    let too_late = async {
        Timer::after(time).await;
        Err(ChannelError::Deadline { step: progress.step(), allowed: time })
    };
    or(work, too_late).await
}

/// How far a handshake has come, for the error of the one that takes too long.
pub(crate) struct Progress(AtomicU8);

impl Progress {
    pub(crate) fn new() -> Self {
        Self(AtomicU8::new(Step::Tls as u8))
    }

    fn at(&self, step: Step) {
        self.0.store(step as u8, Ordering::Relaxed);
    }

    fn step(&self) -> Step {
        let now = self.0.load(Ordering::Relaxed);
        [Step::Tls, Step::Identity, Step::Greeting, Step::Evidence]
            .into_iter()
            .find(|step| *step as u8 == now)
            .unwrap_or(Step::Verdict)
    }
}
