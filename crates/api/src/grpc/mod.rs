//! gRPC over HTTP/2 on any byte stream: unary and server-streaming calls, no runtime.
//!
//! A [`Server`] serves one connection at a time for whoever accepts them; a [`Channel`] calls over one connection.
//! Both take any `AsyncRead + AsyncWrite` of `futures`, so TLS and attested streams work alike. Messages are never
//! compressed. The protocol is "gRPC over HTTP/2" (grpc/grpc, `doc/PROTOCOL-HTTP2.md`).

mod client;
mod error;
pub mod frame;
mod guard;
mod io;
mod keepalive;
mod limits;
mod percent;
mod server;
mod status;
mod timeout;
mod transfer;
mod wire;

pub use client::{Channel, Driver, Streaming};
pub use error::ConnectionError;
pub use limits::{Keepalive, Limits};
pub use server::{Inbound, Replies, Request, Running, Server, Service};
pub use status::{Code, Status};
