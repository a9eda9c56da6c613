//! Durable writes: one writer, and sixteen that share the fsync.

use latchkey_bench::{Bench, Clock, Figure};
use latchkey_group_commit::{Change, Store};
use std::time::{Duration, Instant};

const WRITERS: u32 = 16;
const BATCHES: u32 = 20;
const EACH: u32 = 50;
const KEYS: u32 = 10_000;

fn main() {
    let bench = Bench::from_args();
    for (writers, id, what) in [
        (1, "group-commit/write", "durable write, alone"),
        (WRITERS, "group-commit/write-16", "durable write, 16 wait"),
    ] {
        bench.report(&measured(writers, id, what));
    }
}

fn measured(writers: u32, id: &str, what: &str) -> Figure {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let store = Store::open(directory.path().join("file"), &["entries"], |_, _, _| Ok(())).expect("a file");
    let all = (0..KEYS).map(|number| Change::put("entries", key(number), vec![b'x'; 300])).collect();
    smol::block_on(store.write(all)).expect("a durable write");
    let batches: Vec<Duration> = (0..BATCHES).map(|number| batch(&store, writers, number)).collect();
    Figure::from_batches(id, what, Clock::Wall, writers * EACH, &batches)
}

/// Spread over the whole file, as UUIDs are.
fn key(number: u32) -> [u8; 16] {
    (u128::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_be_bytes()
}

/// Each writer writes [`EACH`] values of 300 bytes, one after the other, to one of [`KEYS`].
fn batch(store: &Store, writers: u32, batch: u32) -> Duration {
    let start = Instant::now();
    let executor = smol::LocalExecutor::new();
    let tasks: Vec<_> = (0..writers)
        .map(|writer| {
            executor.spawn(async move {
                for number in 0..EACH {
                    let key = key((batch * 7_907 + writer * 7_919 + number * 104_729) % KEYS);
                    store.write(vec![Change::put("entries", key, vec![b'x'; 300])]).await.expect("a durable write");
                }
            })
        })
        .collect();
    smol::block_on(executor.run(async {
        for task in tasks {
            task.await;
        }
    }));
    start.elapsed()
}
