//! HTTP/1.1, WebSocket and authentication: what every service of a Factory+ centre stands on.
//!
//! In the order in which a request meets them:
//!
//! 1. [`HttpConfig`]: how a service is reached; [`HttpServer`]: listening, metrics, reload, the graceful end.
//! 2. `connection`: TLS, the time that each thing may take, requests one after the other.
//! 3. `exchange`: the shape of a request, its [`Terms`], its caller; and what every response has.
//! 4. [`Verifier`], [`Tokens`], [`Authenticated`]: who it is.
//! 5. [`Handler`], [`Request`], [`Response`], [`Refusal`]: what a service makes of it.
//! 6. [`Feed`]: change notification at `/notify/v2`.
//!
//! `GET /ping` and `POST /token` are answered here.

mod about;
mod auth;
mod config;
mod connection;
mod cors;
mod exchange;
mod handler;
mod message;
mod metrics;
mod notify;
mod server;
#[cfg(feature = "testing")]
pub mod testing;

pub use about::{About, Software};
pub use auth::tokens::Tokens;
pub use auth::{Authenticated, Caller, Means, Negotiated, Password, Verdict, Verifier, VerifyError};
pub use bytes::Bytes;
pub use config::{HttpConfig, HttpConfigError, HttpLimits};
pub use connection::tls::TlsError;
pub use handler::{Handler, Terms};
pub use http;
pub use message::{
    Answer, BodyError, ContentType, Refusal, Request, RequestBody, Response, query_pairs, read_json, segments,
};
pub use notify::{Feed, FeedRefusal, Subscribing, Told, Updates};
pub use server::{HttpServer, Nothing, Running, ServerError};
