//! The checked-in protobuf types: `cargo run -p latchkey-api-codegen` makes them of `proto/`.
#![allow(clippy::all, clippy::pedantic, missing_docs, unreachable_pub, reason = "generated")]

include!("generated/sparkplug.b.rs");
