//! Who gets a kubelet's certificate, and who does not: decided without a cluster (`attacks`), and before a real one
//! (`issued`) with the rights that our chart gives (`chart`).
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod asker;
mod attacks;
mod chart;
mod cluster;
mod csr;
mod issued;
mod nodes;
