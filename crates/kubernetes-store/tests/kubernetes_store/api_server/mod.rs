//! The store in a real API server with a real etcd: `./dev e2e api-server`.

#![expect(clippy::unwrap_used, reason = "in helpers of tests, too")]

mod cluster;
mod documents;
mod faults;
mod naming;
mod people;
mod pods;
mod races;
mod records;
mod rights;

use cluster::Cluster;
