//! One connection: TLS, then requests one after the other, then perhaps a WebSocket.

pub(crate) mod pace;
pub(crate) mod tls;
pub(crate) mod wire;

use crate::exchange::{self, Link};
use crate::handler::Handler;
use crate::notify;
use crate::server::Shared;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use latchkey_service_runtime::serve::{Connections, Stop, Visit};
use pace::Pace;
use smol::Timer;
use smol::future::FutureExt;
use smol::io::AsyncReadExt;
use smol::net::TcpStream;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use wire::{Stream, Wire};

/// The most headers of a request.
const MAX_HEADERS: usize = 100;

/// The least that hyper takes as buffer.
const MIN_BUFFER: usize = 64 * 1024;

/// After an answer to a request that was not read to its end, how much more is taken in, and for how long, so that the answer is
/// not lost: closing a socket with unread bytes resets it.
const LINGER: (usize, Duration) = (256 * 1024, Duration::from_secs(2));

impl<H: Handler> Connections for Shared<H> {
    async fn connection(self: Arc<Self>, visit: Visit, stop: Stop) {
        // A service's body or feed may panic while it is read; the thread serves others, too.
        if AssertUnwindSafe(self.attend(visit, stop)).catch_unwind().await.is_err() {
            self.metrics.panicked();
            tracing::error!("A connection ended by a panic");
        }
    }
}

impl<H: Handler> Shared<H> {
    /// A connection, from TLS to its end.
    async fn attend(self: &Arc<Self>, visit: Visit, stop: Stop) {
        let Visit { stream: socket, address, shown } = visit;
        let _open = self.metrics.opened();
        let Some(stream) = self.secure(socket.clone(), address).await else { return };
        let pace = Arc::new(Pace::new(self.paces));
        let link = Arc::new(Link::new(address, Arc::clone(&pace), shown));
        // Whatever keeps the connection for too long, it ends.
        let served = self.http(Wire::new(stream, Arc::clone(&pace)), &link, &stop);
        let overdue = async {
            pace.overdue().await;
            false
        };
        if !served.or(overdue).await {
            return;
        }
        if let Some((upgrade, id)) = link.take_upgrade() {
            if let Some(parts) = upgrade.await.ok().and_then(taken_back) {
                notify::serve(self, parts, (address, id), &stop).await;
            }
        } else if link.left_unread() {
            linger(socket).await;
        }
    }

    /// The TLS handshake, within its time.
    async fn secure(&self, socket: TcpStream, address: SocketAddr) -> Option<Stream> {
        let Some(tls) = &self.tls else { return Some(Stream::Plain(socket)) };
        let handshake = async { tls.acceptor().accept(socket).await };
        let late = async {
            Timer::after(self.paces.head).await;
            Err(std::io::ErrorKind::TimedOut.into())
        };
        match handshake.or(late).await {
            Ok(stream) => Some(Stream::Tls(Box::new(stream))),
            Err(error) => {
                if let Some(left_out) = self.noise.write_now() {
                    tracing::warn!(peer = %address, %error, left_out, "TLS handshake failed");
                }
                None
            }
        }
    }

    /// Requests, until there are no more: whether it ended in good order.
    async fn http(self: &Arc<Self>, wire: Wire, link: &Arc<Link>, stop: &Stop) -> bool {
        let service = service_fn(|request| exchange::exchange(Arc::clone(self), Arc::clone(link), request));
        let head_bytes = self.paces.head_bytes;
        let mut builder = http1::Builder::new();
        // The pace has the timers.
        builder.header_read_timeout(None).max_headers(MAX_HEADERS).max_header_size(head_bytes);
        builder.max_buf_size(head_bytes.max(MIN_BUFFER)).half_close(false);
        let mut connection = pin!(builder.serve_connection(wire, service).with_upgrades());
        let stopped = async {
            stop.wait().await;
            None
        };
        let ended = async { Some(connection.as_mut().await) }.or(stopped).await;
        let ended = if let Some(ended) = ended {
            ended
        } else {
            connection.as_mut().graceful_shutdown();
            connection.await
        };
        match ended {
            Ok(()) => true,
            Err(error) => {
                self.metrics.broken();
                if let Some(left_out) = self.noise.write_now() {
                    tracing::info!(peer = %link.peer, %error, left_out, "Connection ended early");
                }
                // A head that is none was answered: the answer should arrive.
                error.is_parse()
            }
        }
    }
}

/// Takes in what the peer still sends, for a while, so that it can read its answer.
async fn linger(mut socket: TcpStream) {
    let (most, time) = LINGER;
    let reading = async {
        let mut buffer = vec![0; 8192];
        let mut left = most;
        while let Ok(count @ 1..) = socket.read(&mut buffer).await {
            match left.checked_sub(count) {
                Some(rest) => left = rest,
                None => break,
            }
        }
    };
    let late = async {
        Timer::after(time).await;
    };
    reading.or(late).await;
}

/// The stream that hyper had, and what it read too much.
fn taken_back(upgraded: hyper::upgrade::Upgraded) -> Option<(Stream, Vec<u8>)> {
    let parts = upgraded.downcast::<Wire>().ok()?;
    Some((parts.io.into_stream(), parts.read_buf.to_vec()))
}
