//! A byte stream to a service.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_rustls::TlsConnector;
use futures_rustls::client::TlsStream;
use rustls_pki_types::ServerName;
use smol::io::{AsyncRead, AsyncWrite};
use smol::net::TcpStream;

use crate::error::{CallError, Place};
use crate::within::within;
use crate::{BaseUrl, Limits, Trust};

/// TCP, with TLS or without.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Connects to a service as far as `trust` allows it.
pub(crate) async fn connect(url: &BaseUrl, trust: &Trust, limits: &Limits, place: &Place) -> Result<Stream, CallError> {
    let tls = trust.way_to(url).map_err(|why| CallError::NotTrusted { place: place.clone(), why: why.into() })?;
    let opening = async {
        let tcp = TcpStream::connect((url.host(), url.port())).await?;
        tcp.set_nodelay(true)?;
        let Some(config) = tls else { return Ok(Stream::Plain(tcp)) };
        let name = ServerName::try_from(url.host().to_owned()).map_err(io::Error::other)?;
        Ok(Stream::Tls(Box::new(TlsConnector::from(config).connect(name, tcp).await?)))
    };
    match within(limits.connect, opening).await {
        Some(Ok(stream)) => Ok(stream),
        Some(Err(error)) => Err(CallError::unreachable(place, &error as &io::Error)),
        None => {
            Err(CallError::unreachable(place, &format_args!("no connection within {} s", limits.connect.as_secs_f32())))
        }
    }
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
