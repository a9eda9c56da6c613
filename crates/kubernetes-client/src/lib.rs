//! Asks one Kubernetes API server, and follows its objects.
//!
//! 1. [`Connection`]: the way to the API server, from a kubeconfig or from what a pod is given, and the thread that kube's runtime
//!    lives on. Whoever uses it may live on any runtime, or on none.
//! 2. [`Connection::run`], [`Connection::wait`]: one request, which ends in time; its failure is an [`ApiError`] with its reason code.
//! 3. [`Connection::follow`]: the objects of one kind as the API server has them, for a program on smol: listed, watched, listed
//!    anew now and then; [`Follower`] says whether it is up to date.
//! 4. [`listen`]: what [`Connection::follow`] is made of, for who lives on the client's thread and keeps objects in his own way.
//! 5. [`Events`]: kube's watch with pauses that fit it.
//!
//! Every request has a time until its answer begins, a watch as well. What the API server answers is bounded before kube reads it. [`kube`] and [`k8s_openapi`] are given on, so that every program
//! has the same.

mod authorization;
mod bounded;
mod connection;
mod error;
mod follow;
mod kubeconfig;
mod mounted;
mod pod;
mod watch;
mod yaml;

pub use connection::Connection;
pub use error::{ApiCode, ApiError, failed, is_absent, is_conflict, one_line, watch_failed};
pub use follow::{Follower, Key, NotTaken, Objects, Sink, Standing, View, listen};
pub use kubeconfig::MAX_KUBECONFIG;
pub use mounted::read_mounted;
pub use pod::SERVICE_ACCOUNT;
pub use watch::{Events, PAGE, Pauses, WATCH_SECONDS, config};
pub use {k8s_openapi, kube};

/// Every reason code of this crate.
pub fn reason_codes() -> impl Iterator<Item = latchkey_reason::Reason> {
    latchkey_reason::reasons::<ApiCode>()
}
