//! Several endpoints at once: the first that succeeds counts, one that hangs holds nobody up.

use std::time::Duration;

use latchkey_channel::{ChannelCode, HANDSHAKE_TIME, Proven, Purpose, Terms};
use latchkey_reason::{Reason, reason_codes};
use smol::future::FutureExt as _;
use smol::net::TcpStream;

/// How long a TCP connection may take.
const CONNECT: Duration = Duration::from_secs(5);

reason_codes! {
    /// Why there is no connection to a join service.
    pub(crate) enum DialCode {
        /// It does not answer.
        Unreachable = "join-service-unreachable":
            "check the address, whether the service runs there, and the network between";
    }
}

/// Runs one future per service, all at once, until the first succeeds; else says why each failed. Dropped, it drops all of
/// them: none outlives it.
pub(crate) async fn first<T, E, F>(services: &[String], run: impl Fn(String) -> F) -> Result<T, Vec<E>>
where
    T: Send + 'static,
    E: Send + 'static,
    F: Future<Output = Result<T, E>> + Send + 'static,
{
    let (found, results) = smol::channel::bounded(services.len().max(1));
    let runs = smol::Executor::new();
    for service in services.iter().cloned() {
        let (found, run) = (found.clone(), run(service));
        runs.spawn(async move {
            let _ = found.send(run.await).await;
        })
        .detach();
    }
    drop(found);
    let collect = async {
        let mut failures = Vec::new();
        while let Ok(result) = results.recv().await {
            match result {
                Ok(found) => return Ok(found),
                Err(failure) => failures.push(failure),
            }
        }
        Err(failures)
    };
    runs.run(collect).await
}

/// Why there is no channel to a service.
#[derive(Debug, thiserror::Error)]
#[error("{code}: {message}")]
pub(crate) struct DialError {
    pub(crate) code: Reason,
    pub(crate) message: String,
}

impl DialError {
    /// Whether another try may find it there.
    pub(crate) fn may_pass(&self) -> bool {
        let broken = [ChannelCode::Transport, ChannelCode::Deadline, ChannelCode::FrameTruncated].map(Reason::from);
        self.code == Reason::from(DialCode::Unreachable) || broken.contains(&self.code)
    }
}

/// Connects to `host:port` and proves both sides.
pub(crate) async fn dial(service: &str, purpose: Purpose, terms: Terms) -> Result<Proven<TcpStream>, DialError> {
    let unreachable =
        |why: String| DialError { code: DialCode::Unreachable.into(), message: format!("{service}: {why}") };
    let connect = async { TcpStream::connect(service).await.map_err(|error| unreachable(error.to_string())) };
    let late = async {
        smol::Timer::after(CONNECT).await;
        Err(unreachable(format!("no answer within {} s", CONNECT.as_secs())))
    };
    let stream = connect.or(late).await?;
    // Messages are small and waited for. Without it everything works, only later.
    let _ = stream.set_nodelay(true);
    latchkey_channel::connect(stream, purpose, terms, HANDSHAKE_TIME)
        .await
        .map_err(|error| DialError { code: error.code(), message: format!("{service}: {error}") })
}
