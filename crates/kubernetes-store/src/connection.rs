//! The way to the API server, as a store needs it.

use crate::error::of_api;
use latchkey_cluster_store::StoreError;
use latchkey_cluster_store::certificate::end_of_pem;
use latchkey_kubernetes_client::Connection;

/// When the certificate by which this service is known to the API server ends, in seconds since the Unix epoch; `None` where it is
/// known by a token.
pub(crate) fn certificate_ends(connection: &Connection) -> Option<u64> {
    connection.certificate().and_then(end_of_pem)
}

/// Waits for what a request is answered, not longer than one may take. Blocks: never on the client's own thread.
pub(crate) fn wait<T>(
    connection: &Connection,
    about: &str,
    request: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    connection.wait(about, request).unwrap_or_else(|error| Err(of_api(error)))
}

/// The answer, if it comes in time: for who is on the client's thread.
pub(crate) async fn in_time<T>(
    about: &str,
    request: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    Connection::in_time(about, request).await.unwrap_or_else(|error| Err(of_api(error)))
}
