//! `krb-keys run` between a real API server with a real etcd and a real MIT KDC with its kadmind: `./dev e2e api-server`.

#![expect(clippy::unwrap_used, reason = "in helpers of tests, too")]

mod cases;
mod edge;
mod front;
mod killed;
mod program;
mod rights;
