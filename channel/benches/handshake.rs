//! Complete handshakes per second and core, both ends in one thread: `cargo bench -p latchkey-channel`.
//!
//! Nothing is left out but the network and the TPM: TLS with fresh keys and certificates at both ends, five messages,
//! appraisal of both sides, both verdicts, one byte of application data. The TPM is a fake in software (same
//! structures, same algorithms, its own signing and activation counted), because a real one takes longer for one quote
//! than everything else together. Times are processor time of this process (from `/proc`), so that a busy machine
//! measures the same.

#[path = "../tests/support/mod.rs"]
#[expect(dead_code, clippy::unwrap_used, reason = "shared with the tests")]
mod support;

use std::time::{Duration, Instant};

use latchkey_channel::{LockDemand, NoProof, PinnedKeyAppraiser, PinnedKeyProver, Role, Terms, accept, connect};
use smol::io::{AsyncReadExt, AsyncWriteExt};

use support::world::{CLUSTER, TIME, demand, fresh_node, locked_node, terms, wire};

fn main() {
    let (client, server) = tpm_against_pinned_key();
    report("join: TPM against pinned key", Role::Join, &client, &server);
    let (client, server) = tpm_against_tpm();
    report("join: TPM against TPM", Role::Join, &client, &server);
    let (client, server) = nothing_against_tpm();
    report("init: nothing against TPM", Role::Init, &client, &server);
}

fn tpm_against_pinned_key() -> (Terms, Terms) {
    let (node, service) = (fresh_node(), PinnedKeyProver::generate().expect("randomness"));
    let of_node = demand(&[&node], LockDemand::Open);
    let pin = PinnedKeyAppraiser::new([service.hash()]);
    (terms(node, pin), terms(service, of_node))
}

fn tpm_against_tpm() -> (Terms, Terms) {
    let (node, service) = (fresh_node(), locked_node(CLUSTER));
    let of_node = demand(&[&node], LockDemand::Open);
    let of_service = demand(&[&service], LockDemand::LockedTo(CLUSTER));
    (terms(node, of_service), terms(service, of_node))
}

fn nothing_against_tpm() -> (Terms, Terms) {
    let node = fresh_node();
    let of_node = demand(&[&node], LockDemand::Open);
    (terms(NoProof, of_node), terms(node, NoProof))
}

fn report(name: &str, role: Role, client: &Terms, server: &Terms) {
    measure(role, client, server, Duration::from_millis(300));
    let (count, busy) = measure(role, client, server, Duration::from_secs(3));
    let per_second = f64::from(count) / busy.as_secs_f64();
    println!("{name:<30} {per_second:>6.0} handshakes/s and core {:>9.1?} each, {count} measured", busy / count);
}

/// How many handshakes, and the processor time they took.
fn measure(role: Role, client: &Terms, server: &Terms, at_least: Duration) -> (u32, Duration) {
    let (start, before, mut count) = (Instant::now(), processor_time(), 0);
    while start.elapsed() < at_least {
        handshake(role, client, server);
        count += 1;
    }
    (count, processor_time().saturating_sub(before))
}

/// Time on a processor of all threads of this process: the first field of `schedstat` (proc(5)), nanoseconds.
fn processor_time() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux");
    let of_task = |task: std::io::Result<std::fs::DirEntry>| {
        let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    };
    Duration::from_nanos(tasks.filter_map(of_task).sum())
}

fn handshake(role: Role, client: &Terms, server: &Terms) {
    let (near, far) = wire();
    let reception = |_| Some(server.clone());
    let one = async {
        let mut stream = connect(near, role, client.clone(), TIME).await.expect("admitted");
        stream.write_all(b"!").await.expect("open");
        stream.flush().await.expect("open");
    };
    let other = async {
        let mut stream = accept(far, &reception, TIME).await.expect("admitted");
        let mut byte = [0];
        stream.read_exact(&mut byte).await.expect("open");
    };
    smol::block_on(smol::future::zip(one, other));
}
