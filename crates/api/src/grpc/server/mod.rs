//! The server's side: services, and the connections they are served on.

mod answer;
mod call;
mod connection;
mod service;

pub use service::{Inbound, Replies, Request, Running, Service};

use super::{error::ConnectionError, limits::Limits, status::Status};
use smol::io::{AsyncRead, AsyncWrite};
use std::{collections::BTreeMap, fmt, future::Future, sync::Arc};

/// Is told of a call that ended before any handler was asked: of whom, the path (as the peer wrote it), and what it was told.
type Unhandled<C> = Arc<dyn Fn(&C, &str, &Status) + Send + Sync>;

/// Services by full name, shared by all calls.
struct Routes<C> {
    services: BTreeMap<&'static str, Arc<dyn Service<C>>>,
    unhandled: Option<Unhandled<C>>,
}

impl<C> Clone for Routes<C> {
    fn clone(&self) -> Self {
        Self { services: self.services.clone(), unhandled: self.unhandled.clone() }
    }
}

/// Serves gRPC on connections that the caller accepts.
///
/// `C` is what the caller knows about a connection, e.g. the proof of who the peer is; handlers get it with each
/// request. How many connections there are is the caller's to bound. Cloning is cheap.
pub struct Server<C> {
    routes: Arc<Routes<C>>,
    limits: Limits,
}

impl<C: Send + Sync + 'static> Server<C> {
    /// A server without services, which answers UNIMPLEMENTED to everything.
    pub fn new(limits: Limits) -> Self {
        Self { routes: Arc::new(Routes { services: BTreeMap::new(), unhandled: None }), limits }
    }

    /// Adds a service; one of the same name is replaced. Earlier clones do not have it.
    #[must_use]
    pub fn service(mut self, service: impl Service<C>) -> Self {
        Arc::make_mut(&mut self.routes).services.insert(service.name(), Arc::new(service));
        self
    }

    /// Tells `unhandled` of calls that end before any handler is asked: their message does not arrive or decode, or there is no
    /// such method. A service that keeps a record of its calls has no other way to learn of them.
    #[must_use]
    pub fn on_unhandled(mut self, unhandled: impl Fn(&C, &str, &Status) + Send + Sync + 'static) -> Self {
        Arc::make_mut(&mut self.routes).unhandled = Some(Arc::new(unhandled));
        self
    }

    /// Serves one connection until the peer closes it, it idles for too long, or it fails. Dropping the future closes
    /// the connection and cancels its calls.
    ///
    /// # Errors
    /// [`ConnectionError`] unless the end was orderly. A peer that misbehaves ends its own connection only.
    pub async fn serve<S>(&self, stream: S, context: C) -> Result<(), ConnectionError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        self.serve_until(stream, context, std::future::pending()).await
    }

    /// As [`Server::serve`]; when `stop` is ready, the peer is told to make no new calls (GOAWAY), and open calls are
    /// finished within [`Limits::drain`].
    ///
    /// # Errors
    /// As [`Server::serve`], and [`ConnectionError::Drain`].
    pub async fn serve_until<S>(
        &self,
        stream: S,
        context: C,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<(), ConnectionError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        connection::serve(Arc::clone(&self.routes), self.limits, stream, Arc::new(context), stop).await
    }
}

impl<C> Clone for Server<C> {
    fn clone(&self) -> Self {
        Self { routes: Arc::clone(&self.routes), limits: self.limits }
    }
}

impl<C> fmt::Debug for Server<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.routes.services.keys().collect();
        f.debug_struct("Server").field("services", &names).field("limits", &self.limits).finish()
    }
}
