//! Unary calls per second over an in-memory pipe, one at a time and many at once. `cargo bench -p latchkey-api`.
#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark")]

#[path = "../tests/support/pipe.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the tests")]
mod pipe;

use latchkey_api::{
    grpc::{Channel, Limits, Request, Server, Status},
    v1,
};
use std::time::Instant;

const CALLS: u32 = 20_000;

struct Keys;

impl v1::Keys<()> for Keys {
    async fn get_data_key(
        &self,
        request: Request<(), v1::GetDataKeyRequest>,
    ) -> Result<v1::GetDataKeyResponse, Status> {
        Ok(v1::GetDataKeyResponse { data_key: vec![7; request.message.length as usize], version: 1 })
    }
}

/// Makes `CALLS` calls from `callers` tasks, all on one thread.
fn calls_per_second(callers: u32) -> f64 {
    let executor = smol::LocalExecutor::new();
    let (near, far) = pipe::pipe();
    let server = Server::new(Limits::default()).service(v1::KeysServer::new(Keys));
    smol::block_on(executor.run(async {
        let _serving = executor.spawn(async move { server.serve(far, ()).await });
        let (channel, driver) = Channel::open(near, Limits::default()).await.unwrap();
        let _driver = executor.spawn(driver);
        let began = Instant::now();
        let tasks: Vec<_> = (0..callers)
            .map(|_| {
                let keys = v1::KeysClient::new(channel.clone());
                executor.spawn(async move {
                    let request = v1::GetDataKeyRequest { key_id: "measurement-secret".into(), length: 32, version: 0 };
                    for _ in 0..CALLS / callers {
                        keys.get_data_key(&request, None).await.unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
        f64::from(CALLS) / began.elapsed().as_secs_f64()
    }))
}

fn main() {
    for callers in [1, 16] {
        println!("unary calls, {callers:>2} at a time, one thread: {:>9.0} per second", calls_per_second(callers));
    }
}
