//! The store in a real API server with a real etcd: `./dev e2e api-server`.

#![expect(clippy::unwrap_used, reason = "in helpers of tests, too")]

mod cluster;
mod documents;
mod faults;
mod proxy;
mod races;
mod records;

use cluster::Cluster;
