//! The node's one open port: attested channels in, services behind them.
//!
//! The port is open only while the node waits (stage 1) or bootstraps (stage 2). Every connection costs the TPM a quote, so
//! few are served at once and each has a deadline.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use latchkey_api::grpc::{Replies, Server, Status};
use latchkey_api::v1::{InitEvent, Progress, init_event};
use latchkey_channel::{HANDSHAKE_TIME, Reception, Role};
use smol::channel::Receiver;
use smol::future::FutureExt as _;
use smol::lock::Semaphore;
use smol::net::{TcpListener, TcpStream};

/// Connections served at once; the next waits in the kernel's queue.
const CONNECTIONS: usize = 8;

/// Who came in, and what for. The peer is somebody; the secret it must know is asked for by the service.
#[derive(Debug)]
pub(crate) struct Visitor {
    role: Role,
}

impl Visitor {
    /// Refuses a call that does not fit the connection's role.
    pub(crate) fn expect(&self, roles: &[Role]) -> Result<(), Status> {
        if roles.contains(&self.role) {
            return Ok(());
        }
        let expected = roles.iter().map(|role| role.name()).collect::<Vec<_>>().join(" or ");
        let role = self.role;
        Err(Status::permission_denied(format!("this connection is for {role}; the call needs one for {expected}")))
    }
}

/// Serves connections until `stop` closes, then lets open calls finish.
pub(crate) async fn serve(
    listener: TcpListener,
    reception: impl Reception + 'static,
    server: Server<Visitor>,
    stop: Receiver<std::convert::Infallible>,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let reception = Arc::new(reception);
    let mut guests = Vec::new();
    loop {
        let accepted = async {
            let place = places.acquire_arc().await;
            Some((listener.accept().await, place))
        };
        let stopped = async {
            let _ = stop.recv().await;
            None
        };
        let Some((connection, place)) = stopped.or(accepted).await else { break };
        guests.retain(|guest: &smol::Task<()>| !guest.is_finished());
        // An accept error concerns one connection (it was reset before we took it).
        let Ok((stream, address)) = connection else { continue };
        let (reception, server, stop) = (Arc::clone(&reception), server.clone(), stop.clone());
        guests.push(smol::spawn(async move {
            if let Err(error) = Box::pin(entertain(stream, &*reception, &server, stop)).await {
                tracing::info!(peer = %address, "connection ended: {error}");
            }
            drop(place);
        }));
    }
    drop(listener);
    for guest in guests {
        guest.await;
    }
}

async fn entertain(
    stream: TcpStream,
    reception: &dyn Reception,
    server: &Server<Visitor>,
    stop: Receiver<std::convert::Infallible>,
) -> Result<(), String> {
    let handshake = Box::pin(latchkey_channel::accept(stream, reception, HANDSHAKE_TIME));
    let stopped = async {
        let _ = stop.recv().await;
        None
    };
    let Some(proven) = stopped.or(async { Some(handshake.await) }).await else { return Ok(()) };
    let proven = proven.map_err(|error| error.to_string())?;
    let visitor = Visitor { role: proven.role() };
    let stopped = async {
        let _ = stop.recv().await;
    };
    server.serve_until(proven, visitor, stopped).await.map_err(|error| error.to_string())
}

/// Dual-stack where the kernel has IPv6, else IPv4.
pub(crate) async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(listener),
        Err(_) => TcpListener::bind(("0.0.0.0", address.port())).await,
    }
}

/// Passes progress on until `work` ends. A follower that went away does not end the work.
pub(crate) async fn follow_until<T>(
    work: impl Future<Output = T>,
    progress: &Receiver<Progress>,
    replies: &mut Replies<InitEvent>,
) -> Result<T, Status> {
    enum Next<T> {
        Line(Progress),
        Done(T),
    }
    let mut work = std::pin::pin!(work);
    loop {
        let line = async {
            match progress.recv().await {
                Ok(line) => Next::Line(line),
                Err(_) => std::future::pending().await,
            }
        };
        match line.or(async { Next::Done(work.as_mut().await) }).await {
            Next::Line(line) => send(replies, line).await?,
            Next::Done(result) => {
                while let Ok(line) = progress.try_recv() {
                    send(replies, line).await?;
                }
                return Ok(result);
            }
        }
    }
}

async fn send(replies: &mut Replies<InitEvent>, line: Progress) -> Result<(), Status> {
    replies.send(&InitEvent { event: Some(init_event::Event::Progress(line)) }).await
}
