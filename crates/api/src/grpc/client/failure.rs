//! What failures below gRPC mean for a call.

use crate::grpc::status::{Code, Status};
use h2::Reason;

/// The status for an HTTP/2 error (gRPC over HTTP/2, Errors; the peer's `RST_STREAM` codes by its table).
pub(super) fn status(error: &h2::Error) -> Status {
    let code = match error.reason() {
        Some(reason) if error.is_reset() => reset_code(reason),
        // GOAWAY, failed streams, and calls on a channel that is closed already.
        _ => Code::Unavailable,
    };
    Status::new(code, format!("HTTP/2: {error}"))
}

fn reset_code(reason: Reason) -> Code {
    match reason {
        Reason::REFUSED_STREAM => Code::Unavailable,
        Reason::CANCEL => Code::Cancelled,
        Reason::ENHANCE_YOUR_CALM => Code::ResourceExhausted,
        Reason::INADEQUATE_SECURITY => Code::PermissionDenied,
        Reason::STREAM_CLOSED => Code::Unknown,
        _ => Code::Internal,
    }
}
