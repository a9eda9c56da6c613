//! Edge Sync between a real API server with a real etcd and a real configuration database: `./dev e2e api-server`.

#![expect(clippy::unwrap_used, reason = "in helpers of tests, too")]

mod centre;
mod clocks;
mod deployed;
mod edge;
mod faults;
mod front;
mod killed;
mod many;
mod program;
mod reported;
