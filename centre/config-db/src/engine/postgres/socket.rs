//! A socket of smol's, as tokio-postgres wants it: tokio's traits, and none of its runtime.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use smol::io::{AsyncRead, AsyncWrite};
use smol::net::TcpStream;
use smol::net::unix::UnixStream;
use tokio::io::ReadBuf;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use crate::engine::EngineError;

/// The port that a connection string does not name.
const PORT: u16 = 5432;

pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Connects to the first host that answers.
pub(super) async fn connect(config: &Config) -> Result<Socket, EngineError> {
    let mut failure = EngineError("the connection string names no host".into());
    for (number, host) in config.get_hosts().iter().enumerate() {
        let ports = config.get_ports();
        let port = ports.get(number).or(ports.first()).copied().unwrap_or(PORT);
        let (name, connected) = match host {
            Host::Tcp(name) => {
                (format!("{name}:{port}"), TcpStream::connect((name.as_str(), port)).await.map(Socket::Tcp))
            }
            Host::Unix(directory) => {
                let path = directory.join(format!(".s.PGSQL.{port}"));
                (path.display().to_string(), UnixStream::connect(path).await.map(Socket::Unix))
            }
        };
        match connected {
            Ok(socket) => return Ok(socket),
            Err(error) => failure = EngineError(format!("cannot connect to PostgreSQL at {name}: {error}")),
        }
    }
    Err(failure)
}

impl Socket {
    fn reading(&mut self) -> Pin<&mut (dyn AsyncRead + Unpin)> {
        match self {
            Self::Tcp(stream) => Pin::new(stream),
            Self::Unix(stream) => Pin::new(stream),
        }
    }

    fn writing(&mut self) -> Pin<&mut (dyn AsyncWrite + Unpin)> {
        match self {
            Self::Tcp(stream) => Pin::new(stream),
            Self::Unix(stream) => Pin::new(stream),
        }
    }
}

impl tokio::io::AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = ready!(self.reading().poll_read(cx, buffer.initialize_unfilled()))?;
        buffer.advance(read);
        Poll::Ready(Ok(()))
    }
}

impl tokio::io::AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.writing().poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writing().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writing().poll_close(cx)
    }
}
