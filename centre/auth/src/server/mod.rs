//! The interface over HTTP and change notification: carries [`crate::api`] on a server.

mod feed;
mod handler;

use std::sync::Arc;

use latchkey_factory_plus::{Realm, uuids};
use latchkey_factory_plus_server::{About, HttpConfig, HttpServer, ServerError, Software, Verifier};

use crate::keeper::Keeper;
use feed::Lists;
pub use handler::Requests;

/// A server of this service that does not listen yet. Callers are verified by `verifier`.
///
/// # Errors
/// [`ServerError`].
pub fn server(
    http: &HttpConfig,
    realm: Realm,
    verifier: Arc<dyn Verifier>,
    keeper: &Keeper,
) -> Result<HttpServer<Requests>, ServerError> {
    let about = About {
        // The version of the original that has this interface; clients compare it.
        version: "2.0.0",
        service: uuids::service::AUTH,
        device: None,
        software: Software { vendor: "Latchkey", application: "latchkey-auth", revision: env!("CARGO_PKG_VERSION") },
    };
    let server = HttpServer::new(http, about, realm, verifier, Requests::of(keeper.clone()))?;
    Ok(server.feed(Arc::new(Lists::of(keeper.clone()))))
}
