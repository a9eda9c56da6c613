//! Unary calls over an in-memory pipe, both ends in one thread, one at a time and many at once:
//! `cargo bench -p latchkey-api --bench calls`.
#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark")]

use latchkey_api::{
    grpc::{Channel, Limits, Request, Server, Status},
    v1,
};
use latchkey_bench::{Bench, Clock, Figure, pipe::pipe, processor_time};

const CALLS: u32 = 160;
const BATCHES: usize = 200;

struct Keys;

impl v1::Keys<()> for Keys {
    async fn get_data_key(
        &self,
        request: Request<(), v1::GetDataKeyRequest>,
    ) -> Result<v1::GetDataKeyResponse, Status> {
        Ok(v1::GetDataKeyResponse { data_key: vec![7; request.message.length as usize], version: 1 })
    }
}

/// Makes `CALLS` calls from `callers` tasks, again and again, all on one thread and one connection.
fn calls(callers: u32) -> Figure {
    let executor = smol::LocalExecutor::new();
    let (near, far) = pipe();
    let server = Server::new(Limits::default()).service(v1::KeysServer::new(Keys));
    let batches = smol::block_on(executor.run(async {
        let _serving = executor.spawn(async move { server.serve(far, ()).await });
        let (channel, driver) = Channel::open(near, Limits::default()).await.unwrap();
        let _driver = executor.spawn(driver);
        let mut batches = Vec::new();
        for _ in 0..BATCHES {
            let began = processor_time();
            let tasks: Vec<_> =
                (0..callers).map(|_| executor.spawn(caller(channel.clone(), CALLS / callers))).collect();
            for task in tasks {
                task.await;
            }
            batches.push(processor_time().saturating_sub(began));
        }
        // The first are the warm-up.
        batches.split_off(BATCHES / 10)
    }));
    let what = format!("unary gRPC call, {callers} at a time, both ends");
    Figure::from_batches(&format!("api/unary-{callers}"), &what, Clock::Processor, CALLS, &batches)
}

async fn caller(channel: Channel, calls: u32) {
    let keys = v1::KeysClient::new(channel);
    let request = v1::GetDataKeyRequest { key_id: "measurement-secret".into(), length: 32, version: 0 };
    for _ in 0..calls {
        keys.get_data_key(&request, None).await.unwrap();
    }
}

fn main() {
    let bench = Bench::from_args();
    for callers in [1, 16] {
        bench.report(&calls(callers));
    }
}
