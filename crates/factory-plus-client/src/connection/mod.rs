//! Connections: TCP, TLS where the URL says so, HTTP/1.1 on them.

mod pool;
mod stream;

pub(crate) use pool::{Outgoing, Pool};
pub(crate) use stream::{Stream, connect};
