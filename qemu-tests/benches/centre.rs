//! A centre as its operator has it: `cargo bench -p latchkey-qemu-tests --bench centre`.
//!
//! The programs are those that ship, with a real KDC, a real broker and TLS. How long `latchkey centre up` takes to the page of a
//! new centre; how long from the PUT of a cluster's configuration until the cluster manager says that it is ready, one at a time, as
//! its client sees it; and a hundred configurations at once until the last of them is ready.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot prepare its rig shall fail there")]

use std::time::{Duration, Instant};

use latchkey_bench::{Bench, Clock, Figure};
use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::uuids::{application, class};

use latchkey_factory_plus_client::{ConfigDb, Precondition};
use latchkey_qemu_tests::build;
use latchkey_qemu_tests::centre::Centre;
use serde_json::{Value, json};

const CENTRES: usize = 3;
/// One after the other; the first are the warm-up.
const ALONE: (usize, usize) = (3, 50);
const AT_ONCE: usize = 100;

fn main() {
    let bench = Bench::from_args();
    let programs = match build::centre_packaged() {
        Ok(programs) => programs,
        Err(why) => return eprintln!("left out: {why}"),
    };
    let mut ups = Vec::new();
    let mut last = None;
    for number in 0..CENTRES {
        drop(last.take());
        let prepared = match Centre::prepared(&format!("bench-centre-{number}"), false) {
            Ok(prepared) => prepared,
            Err(why) => return eprintln!("left out: {why}"),
        };
        let mut centre = prepared.with_programs(programs.clone());
        ups.push(centre.start().unwrap().1);
        last = Some(centre);
    }
    bench.report(&Figure::from_batches("centre/up", "a new centre, until its page is told", Clock::Wall, 1, &ups));
    let centre = last.unwrap();
    let clusters = Clusters { chart: centre.chart().unwrap(), database: ConfigDb::of(&centre.client().unwrap()) };
    latchkey_test_support::block_on(async {
        let mut times = Vec::new();
        for number in 0..ALONE.0 + ALONE.1 {
            let uuid = clusters.object().await;
            times.push(clusters.ready(uuid, &format!("Alone_{number}")).await);
        }
        let mut times = times.split_off(ALONE.0);
        bench.report(&Figure::from_batches(
            "centre/ready",
            "a configuration's PUT, until ready",
            Clock::Wall,
            1,
            &times,
        ));
        times.sort_unstable();
        let slowest = times.split_off(times.len() - 1);
        let what = "the slowest of 50";
        bench.report(&Figure::from_batches("centre/ready-slowest", what, Clock::Wall, 1, &slowest));

        let mut objects = Vec::new();
        for _ in 0..AT_ONCE {
            objects.push(clusters.object().await);
        }
        let begin = Instant::now();
        let all = objects.iter().enumerate().map(|(number, uuid)| {
            let (clusters, uuid) = (&clusters, *uuid);
            async move { clusters.ready(uuid, &format!("Once_{number}")).await }
        });
        let executor = smol::LocalExecutor::new();
        let tasks: Vec<_> = all.map(|one| executor.spawn(one)).collect();
        executor
            .run(async {
                for task in tasks {
                    task.await;
                }
            })
            .await;
        let what = "100 configurations at once, until the last is ready";
        bench.report(&Figure::from_batches("centre/hundred", what, Clock::Wall, 1, &[begin.elapsed()]));
    });
}

struct Clusters {
    chart: Value,
    database: ConfigDb,
}

impl Clusters {
    async fn object(&self) -> Uuid {
        self.database.create_object(class::EDGE_CLUSTER, None).await.unwrap().1.uuid
    }

    /// From the PUT until the entry that the cluster manager keeps says so; the client hears of each change.
    async fn ready(&self, uuid: Uuid, name: &str) -> Duration {
        let configuration = json!({ "chart": self.chart, "name": name, "namespace": "fplus-edge" });
        let mut watch = self.database.watch_entry(application::EDGE_CLUSTER_SETUP_STATUS, uuid);
        let begin = Instant::now();
        let app = application::EDGE_CLUSTER_CONFIGURATION;
        self.database.put_entry(app, uuid, &configuration, &Precondition::None).await.unwrap();
        loop {
            watch.changed().await;
            if watch.reading().is_some_and(|reading| reading.body.is_some_and(|body| body["ready"] == true)) {
                return begin.elapsed();
            }
        }
    }
}
