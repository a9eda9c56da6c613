//! The interface over HTTP and change notification: carries [`crate::paths`] and [`crate::operation`] on a server.

mod callers;
mod feed;
mod handler;

use std::sync::Arc;

use latchkey_factory_plus::{Realm, uuids};
use latchkey_factory_plus_server::{About, HttpConfig, HttpServer, ServerError, Software, Verifier};

use crate::ConfigDb;
pub use callers::Callers;
use feed::Changes;
pub use handler::Requests;

/// A server of this service that does not listen yet.
pub fn server(
    http: &HttpConfig,
    realm: Realm,
    verifier: Arc<dyn Verifier>,
    database: &ConfigDb,
    callers: &Callers,
) -> Result<HttpServer<Requests>, ServerError> {
    let about = About {
        // The version of the original that has this interface; clients compare it.
        version: "2.0.0",
        service: uuids::service::CONFIG_DB,
        device: Some(uuids::account::CONFIG_DB),
        software: Software {
            vendor: "Latchkey",
            application: "latchkey-config-db",
            revision: env!("CARGO_PKG_VERSION"),
        },
    };
    let requests = Requests::new(database.clone(), callers.clone());
    let server = HttpServer::new(http, about, realm, verifier, requests)?;
    Ok(server.feed(Arc::new(Changes::new(database.clone(), callers.clone()))))
}
