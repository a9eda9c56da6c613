//! Reads, durable writes and notifications of the embedded engine, without HTTP, with an access list of 50 lines.

use std::sync::Arc;
use std::time::{Duration, Instant};

use latchkey_bench::{Bench, Clock, Figure, Quantity};
use latchkey_config_db::engine::Embedded;
use latchkey_config_db::watch::Target;
use latchkey_config_db::{Caller, ConfigDb, Json, Preconditions, Read, Uuid, Write};
use latchkey_factory_plus::grants::Access;
use latchkey_factory_plus::notify::Request;
use latchkey_factory_plus::uuids::class::{APPLICATION, INDIVIDUAL};
use latchkey_factory_plus::uuids::permission::{READ_CONFIG, WRITE_CONFIG};
use serde_json::json;

const APP: Uuid = Uuid::constant("a0000000-0000-4000-8000-000000000001");
const ENTRIES: u32 = 10_000;
const GRANTS: u8 = 50;
const WRITERS: u32 = 16;
const WATCHERS: u32 = 100;
const BATCHES: u32 = 15;
const EACH: u32 = 50;

fn main() {
    let bench = Bench::from_args();
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let before = resident();
    let db = ConfigDb::start(Embedded::at(directory.path().join("db"))).expect("a database");
    fill(&db);
    let memory = resident().saturating_sub(before);
    bench.count(&Quantity::new("config-db/memory", "memory that 10 000 entries need, bytes", memory));
    let caller = caller();
    let read = Read::Entry(APP, object(77), Preconditions::default());
    bench.measure("config-db/get", "GET of an entry, from memory", || db.read(&caller, &read));
    for (writers, id, what) in
        [(1, "config-db/put", "durable PUT, alone"), (WRITERS, "config-db/put-16", "durable PUT, 16 wait")]
    {
        let batches: Vec<Duration> = (0..BATCHES).map(|batch| puts(&db, &caller, writers, batch)).collect();
        bench.report(&Figure::from_batches(id, what, Clock::Wall, writers * EACH, &batches));
    }
    let batches: Vec<Duration> = (0..BATCHES).map(|batch| watched(&db, &caller, batch)).collect();
    let frames = WRITERS * EACH * WATCHERS;
    bench.report(&Figure::from_batches(
        "config-db/put-watched",
        "durable PUT, 16 wait, 100 searches told",
        Clock::Wall,
        WRITERS * EACH,
        &batches,
    ));
    bench.report(&Figure::from_batches(
        "config-db/frames",
        "frame of a search, as text",
        Clock::Wall,
        frames,
        &batches,
    ));
}

fn object(number: u32) -> Uuid {
    Uuid::NIL.named(&number.to_string())
}

fn value(number: u32) -> Json {
    Json::of(&json!({
        "chart": object(number), "name": format!("Cluster_{number}"), "namespace": "fplus-edge",
        "hosts": [{"hostname": "a", "arch": "amd64", "k8s_version": "v1.31.2", "control_plane": true, "n": number}],
    }))
}

/// Fifty lines, of which the last two are those that matter.
fn caller() -> Caller {
    let other = (2..GRANTS).map(|number| Access { permission: READ_CONFIG, target: Uuid::from_random([number; 16]) });
    let own = [READ_CONFIG, WRITE_CONFIG].map(|permission| Access { permission, target: APP });
    Caller::of(None, other.chain(own).collect::<Arc<[Access]>>())
}

fn fill(db: &ConfigDb) {
    let create = |class, uuid| db.write(Caller::root(), Write::CreateObject { class, uuid: Some(uuid) });
    smol::block_on(async {
        create(APPLICATION, APP).await.expect("an application");
        for first in (0..ENTRIES).step_by(1000) {
            let numbers = first..first + 1000;
            let created: Vec<_> = numbers.clone().map(|number| create(INDIVIDUAL, object(number))).collect();
            for created in created {
                created.await.expect("an object");
            }
            let none = Preconditions::default;
            let put: Vec<_> = numbers
                .map(|number| db.write(Caller::root(), Write::Put(APP, object(number), value(number), none())))
                .collect();
            for put in put {
                put.await.expect("an entry");
            }
        }
    });
}

/// Each writer writes [`EACH`] values, one after the other.
fn puts(db: &ConfigDb, caller: &Caller, writers: u32, batch: u32) -> Duration {
    let start = Instant::now();
    smol::block_on(write_all(db, caller, writers, batch));
    start.elapsed()
}

async fn write_all(db: &ConfigDb, caller: &Caller, writers: u32, batch: u32) {
    let executor = smol::LocalExecutor::new();
    let tasks: Vec<_> = (0..writers)
        .map(|writer| {
            executor.spawn(async move {
                for number in 0..EACH {
                    let at = object((writer * 7919 + number * 104_729) % ENTRIES);
                    // Another value each time.
                    let value = value(((batch + 1) * WRITERS + writer) * EACH + number + ENTRIES);
                    let write = Write::Put(APP, at, value, Preconditions::default());
                    db.write(caller.clone(), write).await.expect("a durable write");
                }
            })
        })
        .collect();
    executor
        .run(async {
            for task in tasks {
                task.await;
            }
        })
        .await;
}

/// The same, until each of [`WATCHERS`] searches had every frame.
fn watched(db: &ConfigDb, caller: &Caller, batch: u32) -> Duration {
    let reader = std::thread::spawn({
        let subscriptions: Vec<_> = (0..WATCHERS)
            .map(|_| {
                let uuid = Uuid::random();
                let request = Request::Search { uuid, parent: format!("v2/app/{APP}/object/"), filter: None };
                let mut subscription = db.subscribe(uuid, Target::of(request).expect("a search"));
                smol::block_on(subscription.next(caller)).expect("what is there");
                subscription
            })
            .collect();
        let caller = caller.clone();
        move || {
            let executor = smol::LocalExecutor::new();
            let tasks: Vec<_> = subscriptions
                .into_iter()
                .map(|mut subscription| {
                    let caller = &caller;
                    executor.spawn(async move {
                        for _ in 0..WRITERS * EACH {
                            let frame = subscription.next(caller).await.expect("a frame");
                            assert!(frame.contains("\"child\""), "{frame}");
                        }
                    })
                })
                .collect();
            smol::block_on(executor.run(async {
                for task in tasks {
                    task.await;
                }
            }));
        }
    });
    let start = Instant::now();
    smol::block_on(write_all(db, caller, WRITERS, batch + 1000));
    reader.join().expect("all frames");
    start.elapsed()
}

/// Memory of this process that is not shared with files.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) * 1024
}
