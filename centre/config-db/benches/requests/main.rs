//! config-db as its clients meet it, beside `PostgreSQL`'s own benchmark on the same disk: `cargo bench -p latchkey-config-db --bench
//! requests`.
//!
//! The service is this program again, in a process of its own: the real server and the embedded engine, a fake in the place of the KDC,
//! and a caller with a token and 50 permissions. `./dev bench` builds it static for that, with musl, as config-db ships. 16 connections ask,
//! each as soon as it was answered; the peer's 16 clients do the same. Rounds of ours and of the peer's take turns, so that what else
//! the machine does disturbs both. Each figure is time of the clock by requests: one over the rate. The load makers run on the same
//! processors as what they load.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot prepare its rig shall fail there")]

mod content;
mod load;
mod postgres;
mod service;
mod watchers;

use std::time::{Duration, Instant};

use latchkey_bench::{Bench, Clock, Figure, Quantity};
use latchkey_config_db::Allocator;
use load::Connections;
use postgres::{Postgres, SELECT, UPDATE};
use service::Service;
use watchers::Watchers;

/// As the service has it.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

const ROUNDS: u32 = 7;
/// Requests of a round.
const GETS: u32 = 20_000;
const WRITES: u32 = 24_000;
/// Rounds with the engine in `PostgreSQL`, and what each of them writes.
const OTHER: (u32, u32) = (3, 2_000);
/// As many as a watcher may be behind are never under way.
const WATCHED_WRITES: u32 = 400;
const WATCHERS: u32 = 100;
/// For both databases: it outlives a restart by its definition (hier(7)), so it is on a disk.
const DISK: &str = "/var/tmp";

fn main() {
    if let Some(place) = std::env::args().skip_while(|argument| argument != service::SERVE).nth(1) {
        return service::serve(&place);
    }
    let bench = Bench::from_args();
    let postgres = Postgres::start();
    if let Err(why) = &postgres {
        eprintln!("pgbench and the PostgreSQL engine are left out: {why}");
    }
    let postgres = postgres.ok();
    let directory = tempfile::tempdir_in(DISK).unwrap();
    let place = directory.path().to_str().unwrap();
    service::fill(place);
    let service = Service::start(place);
    memory(&bench, &service, "memory-ready", "memory with 10 000 entries, ready, bytes");
    let mut connections = Connections::open(service.address, &service.token());
    requests(&bench, &mut connections, postgres.as_ref());
    watched(&bench, &service, &mut connections);
    memory(&bench, &service, "memory-served", "memory with 10 000 entries, after all that, bytes");
    drop(service);
    if let Some(postgres) = &postgres {
        other_engine(&bench, &postgres.connection_string());
    }
}

/// The same requests, with the engine that keeps everything in `PostgreSQL`.
fn other_engine(bench: &Bench, place: &str) {
    service::fill(place);
    let service = Service::start(place);
    let mut connections = Connections::open(service.address, &service.token());
    let measured = Rounds::of(&mut connections, None, OTHER);
    measured.report(bench, "config-db/postgres", "PostgreSQL engine");
}

fn memory(bench: &Bench, service: &Service, id: &str, what: &str) {
    bench.count(&Quantity::new(&format!("config-db/{id}"), what, service.memory()));
}

fn requests(bench: &Bench, connections: &mut Connections, postgres: Option<&Postgres>) {
    let measured = Rounds::of(connections, postgres, (ROUNDS, WRITES));
    measured.report(bench, "config-db/http", "16 connections");
    for (id, what, rounds) in [
        ("pgbench/select", "pgbench: one row selected, prepared, 16 clients", &measured.selects),
        ("pgbench/update", "pgbench: one row updated, prepared, 16 clients", &measured.updates),
    ] {
        report(bench, id, what, 1000, rounds);
    }
}

/// How long the requests of each round took, and the peer's thousand; the first round is the warm-up.
#[derive(Default)]
struct Rounds {
    writes: u32,
    gets: Vec<Duration>,
    puts: Vec<Duration>,
    patches: Vec<Duration>,
    selects: Vec<Duration>,
    updates: Vec<Duration>,
}

impl Rounds {
    fn of(connections: &mut Connections, postgres: Option<&Postgres>, (count, writes): (u32, u32)) -> Self {
        let mut rounds = Self { writes, ..Self::default() };
        for round in 0..=count {
            let change = |number| round * writes + number;
            rounds.gets.push(connections.ask(GETS, 200, content::get));
            rounds.puts.push(connections.ask(writes, 204, |number| content::put(number, change(number))));
            rounds.patches.push(connections.ask(writes, 204, |number| content::patch(number, change(number))));
            rounds.selects.extend(postgres.map(|postgres| postgres.thousand(SELECT)));
            // Last: its server cleans up behind itself.
            rounds.updates.extend(postgres.map(|postgres| postgres.thousand(UPDATE)));
        }
        rounds
    }

    fn report(&self, bench: &Bench, id: &str, how: &str) {
        for (name, what, count, rounds) in [
            ("get", "GET of an entry", GETS, &self.gets),
            ("put", "durable PUT", self.writes, &self.puts),
            ("patch", "durable PATCH", self.writes, &self.patches),
        ] {
            report(bench, &format!("{id}-{name}"), &format!("{what}, {how}"), count, rounds);
        }
    }
}

fn report(bench: &Bench, id: &str, what: &str, count: u32, rounds: &[Duration]) {
    if let Some((_, rounds)) = rounds.split_first() {
        bench.report(&Figure::from_batches(id, what, Clock::Wall, count, rounds));
    }
}

/// From the first request to the last frame.
fn watched(bench: &Bench, service: &Service, connections: &mut Connections) {
    let mut watchers = Watchers::open(WATCHERS, service.address, &service.token());
    let mut round = |round: u32| -> Duration {
        let began = Instant::now();
        std::thread::scope(|scope| {
            let told = scope.spawn(|| watchers.told(u64::from(WATCHED_WRITES) * u64::from(WATCHERS)));
            connections
                .ask(WATCHED_WRITES, 204, |number| content::watched_put(number, round * WATCHED_WRITES + number));
            told.join().unwrap();
        });
        began.elapsed()
    };
    round(0);
    let rounds: Vec<Duration> = (1..=ROUNDS * 3).map(&mut round).collect();
    let what = "durable PUT, 16 connections, 100 searches told";
    bench.report(&Figure::from_batches("config-db/http-put-watched", what, Clock::Wall, WATCHED_WRITES, &rounds));
    let (what, frames) = ("frame of 100 searches, told over WebSockets", WATCHED_WRITES * WATCHERS);
    bench.report(&Figure::from_batches("config-db/http-frames", what, Clock::Wall, frames, &rounds));
}
