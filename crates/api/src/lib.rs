//! The gRPC contracts of Latchkey and gRPC on smol.
//!
//! [`v1`] holds the messages, service traits, servers and clients made from `crates/api/proto`; [`grpc`] carries them over
//! any byte stream; [`OfferRefusal`] are the reason codes on which a peer acts; [`control_plane`] reads the files that all control
//! planes share, [`service_files`] those of the services that run on them.

pub mod control_plane;
pub mod grpc;
mod refusal;
mod secrets;
pub mod service_files;

pub use refusal::{OfferRefusal, SentCode, reason_codes};

/// Package `latchkey.v1`, generated from `crates/api/proto` by `latchkey-api-codegen`. The contracts say what fields mean.
///
/// Messages with secrets print `[secret]` for them and wipe them when dropped. They therefore implement `Drop`:
/// list every field when making one, and move a secret out with its `take_…` method.
#[allow(missing_docs, clippy::pedantic, reason = "generated; documented in the .proto files")]
pub mod v1 {
    include!("generated/latchkey.v1.rs");
}
