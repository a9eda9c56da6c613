//! Calls that no method sees.

use crate::reception::Node;
use latchkey_api::grpc::Status;
use latchkey_service_runtime::log_limiter::LogLimiter;
use latchkey_service_runtime::request_id::RequestIds;

/// What a line shows of the path of a call, in characters.
const MAX_PATH: usize = 128;

/// One line for each call that no method ever saw, because it does not decode or asks for what is not here; the outcome is its
/// gRPC code. An admitted node can cause them at will, so their number is bounded.
pub fn audit_unhandled() -> impl Fn(&Node, &str, &Status) + Send + Sync + 'static {
    let (ids, noise) = (RequestIds::new(), LogLimiter::new());
    move |node, path, status| {
        if let Some(left_out) = noise.write_now() {
            let (path, ek): (String, _) = (path.chars().take(MAX_PATH).collect(), node.ek());
            tracing::warn!(
                target: "audit", request_id = ids.next(), audit_id = node.audit_id, peer = %node.address, %ek, path,
                outcome = status.code().name(), left_out, "Unhandled call"
            );
        }
    }
}
