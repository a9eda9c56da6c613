//! A TCP balancer on every node, from an address of loopback to the API servers of all control planes, so that a node outlives the
//! control plane that it joined through. TLS stays between the node's programs and the API server: nothing is read here.
//!
//! ```text
//! kubelet, kube-proxy ─→ 127.0.0.1:7445 ─→ an API server that said a moment ago that it is ready
//!                             ↑ api_servers: a file; the agent writes the first one, later ones come from
//!                             └ the cluster's own list (Endpoints `kubernetes`), read with the kubelet's certificate
//! ```
//!
//! [`targets`] is the file; [`health`] decides whom to ask, without I/O; `probe` asks; `relay` carries bytes.

mod config;
pub mod health;
mod probe;
mod relay;
mod run;
pub mod serve;
pub mod targets;

pub use config::Config;
pub use run::run;
