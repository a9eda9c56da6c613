//! For tests: a real Kubernetes API server with its etcd, and the controller manager where it is asked for, as plain
//! processes on loopback: no kubelet, no network, no container runtime.
//!
//! ```no_run
//! use latchkey_api_server_rig::ApiServer;
//!
//! let server = ApiServer::start();
//! let eve = server.client(&server.user("eve", None));
//! assert_eq!(eve.get("/api/v1/secrets").status(), 403);
//! ```
//!
//! The authorization mode is `Node,RBAC`, with `NodeRestriction` and bootstrap tokens, as kubeadm sets it up. The
//! programs come from the cache that `qemu-tests/kubernetes/build` fills; [`ApiServer::start`] says how where they
//! are missing.

mod authority;
mod client;
pub mod gate;
mod kubeconfig;
mod programs;
pub mod proxy;
mod server;

pub use authority::{Authority, Credentials};
pub use client::{Answer, Client, Watch};
pub use programs::{VERSION, is_built_or_skip, program};
pub use server::{ApiServer, Peer, Setup};
