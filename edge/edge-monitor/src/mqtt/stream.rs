//! A byte stream to the broker.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_rustls::TlsConnector;
use futures_rustls::client::TlsStream;
use rustls::pki_types::ServerName;
use smol::Timer;
use smol::future::FutureExt as _;
use smol::io::{AsyncRead, AsyncWrite};
use smol::net::TcpStream;

use super::BrokerUrl;

/// Until there is a connection, TLS included.
const CONNECT: Duration = Duration::from_secs(4);

/// The way to a broker.
#[derive(Debug, Clone)]
pub struct Route {
    /// Where it is.
    pub url: BrokerUrl,
    /// Whom to believe that he is it; none for a URL without TLS.
    pub tls: Option<Arc<rustls::ClientConfig>>,
}

/// There is no stream.
#[derive(Debug, thiserror::Error)]
#[error(
    "the broker at {url} cannot be reached: {why}; see that it runs, and that its certificate is one of `broker.authority`"
)]
pub struct OpenError {
    url: BrokerUrl,
    why: io::Error,
}

/// TCP, with TLS or without.
#[derive(Debug)]
pub enum Stream {
    /// Without TLS.
    Plain(TcpStream),
    /// With TLS.
    Tls(Box<TlsStream<TcpStream>>),
}

/// Connects to a broker.
///
/// # Errors
/// It cannot be reached within some seconds, or its certificate is not believed.
pub async fn open(route: &Route) -> Result<Stream, OpenError> {
    let failed = |why| OpenError { url: route.url.clone(), why };
    let opening = async {
        let tcp = TcpStream::connect((route.url.host(), route.url.port())).await?;
        tcp.set_nodelay(true)?;
        let Some(tls) = &route.tls else { return Ok(Stream::Plain(tcp)) };
        let name = ServerName::try_from(route.url.host().to_owned()).map_err(io::Error::other)?;
        Ok(Stream::Tls(Box::new(TlsConnector::from(Arc::clone(tls)).connect(name, tcp).await?)))
    };
    let late = async {
        Timer::after(CONNECT).await;
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {} s", CONNECT.as_secs())))
    };
    opening.or(late).await.map_err(failed)
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_close(cx),
            Self::Tls(stream) => Pin::new(stream).poll_close(cx),
        }
    }
}
