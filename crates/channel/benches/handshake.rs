//! Complete handshakes, both ends in one thread: `cargo bench -p latchkey-channel --bench handshake`.
//!
//! Nothing is left out but the network and the TPM: TLS with fresh keys at both ends, five messages, appraisal of both
//! sides, both verdicts, one byte of application data. The TPM is a fake in software (same structures, same
//! algorithms), because a real one takes longer for one quote than everything else together; what the fake costs is
//! measured on its own and taken off.

#[path = "../tests/channel/support/mod.rs"]
#[expect(dead_code, clippy::unwrap_used, reason = "shared with the tests")]
mod support;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use latchkey_attestation::LockExpectation;
use latchkey_bench::pipe::pipe;
use latchkey_bench::{Bench, Clock, Figure, processor_time};
use latchkey_channel::message::{Evidence, Identity};
use latchkey_channel::{
    Attester, Kind, Kinds, NoProof, PinnedKeyAttester, PinnedKeyVerifier, ProofError, ProofRequest, Purpose, Terms,
    accept, connect,
};
use smol::io::{AsyncReadExt, AsyncWriteExt};

use support::fake_tpm::FakeTpm;
use support::world::{CLUSTER, TIME, demand, fresh_node, locked_node, terms};

const PER_BATCH: u32 = 20;
const BATCHES: u32 = 150;

fn main() {
    let bench = Bench::from_args();
    let (client, server) = tpm_against_pinned_key();
    report(&bench, "join", "join: TPM against pinned key", Purpose::Join, &client, &server);
    let (client, server) = tpm_against_tpm();
    report(&bench, "join-tpm", "join: TPM against TPM", Purpose::Join, &client, &server);
    let (client, server) = nothing_against_tpm();
    report(&bench, "init", "init: nothing against TPM", Purpose::Init, &client, &server);
}

fn tpm_against_pinned_key() -> (Terms, Terms) {
    let (node, service) = (fresh_node(), PinnedKeyAttester::generate().expect("randomness"));
    let of_node = demand(&[&node], LockExpectation::Unlocked);
    let pin = PinnedKeyVerifier::new([service.hash()]);
    (terms(Clocked(node), pin), terms(service, of_node))
}

fn tpm_against_tpm() -> (Terms, Terms) {
    let (node, service) = (fresh_node(), locked_node(CLUSTER));
    let of_node = demand(&[&node], LockExpectation::Unlocked);
    let of_service = demand(&[&service], LockExpectation::LockedTo(CLUSTER));
    (terms(Clocked(node), of_service), terms(Clocked(service), of_node))
}

fn nothing_against_tpm() -> (Terms, Terms) {
    let node = fresh_node();
    let of_node = demand(&[&node], LockExpectation::Unlocked);
    (terms(NoProof, of_node), terms(Clocked(node), NoProof))
}

fn report(bench: &Bench, id: &str, what: &str, purpose: Purpose, client: &Terms, server: &Terms) {
    smol::block_on(Box::pin(async {
        batch(purpose, client, server).await;
        let mut times = Vec::new();
        for _ in 0..BATCHES {
            times.push(batch(purpose, client, server).await);
        }
        let (ours, fake): (Vec<_>, Vec<_>) = times.into_iter().unzip();
        let figure = |id: &str, what: &str, times: &[Duration]| {
            bench.report(&Figure::from_batches(id, what, Clock::Processor, PER_BATCH, times));
        };
        figure(&format!("channel/{id}"), &format!("handshake, {what}"), &ours);
        figure(&format!("channel/{id}-fake-tpm"), "  the fake TPM of it, not counted", &fake);
    }));
}

/// The processor time of a batch of handshakes, and of the fake TPM beside them.
async fn batch(purpose: Purpose, client: &Terms, server: &Terms) -> (Duration, Duration) {
    let (start, fake) = (processor_time(), FAKE_TPM.load(Ordering::Relaxed));
    for _ in 0..PER_BATCH {
        handshake(purpose, client, server).await;
    }
    let fake = Duration::from_nanos(FAKE_TPM.load(Ordering::Relaxed) - fake);
    (processor_time().saturating_sub(start + fake), fake)
}

async fn handshake(purpose: Purpose, client: &Terms, server: &Terms) {
    let (near, far) = pipe();
    let reception = |_| Some(server.clone());
    let one = async {
        let mut stream = connect(near, purpose, client.clone(), TIME).await.expect("admitted");
        stream.write_all(b"!").await.expect("open");
        stream.flush().await.expect("open");
    };
    let other = async {
        let mut stream = accept(far, &reception, TIME).await.expect("admitted");
        let mut byte = [0];
        stream.read_exact(&mut byte).await.expect("open");
    };
    Box::pin(smol::future::zip(one, other)).await;
}

/// Nanoseconds of processor time that fake TPMs took.
static FAKE_TPM: AtomicU64 = AtomicU64::new(0);

/// A fake TPM whose work is counted apart.
struct Clocked(FakeTpm);

impl Attester for Clocked {
    fn kinds(&self) -> Kinds {
        self.0.kinds()
    }

    fn identity(&self, kind: Kind) -> Result<Identity, ProofError> {
        clocked(|| Attester::identity(&self.0, kind))
    }

    fn prove(&self, request: &ProofRequest) -> Result<Evidence, ProofError> {
        clocked(|| self.0.prove(request))
    }
}

fn clocked<T>(work: impl FnOnce() -> T) -> T {
    let start = processor_time();
    let result = work();
    let nanoseconds = processor_time().saturating_sub(start).as_nanos();
    FAKE_TPM.fetch_add(u64::try_from(nanoseconds).unwrap_or_default(), Ordering::Relaxed);
    result
}
