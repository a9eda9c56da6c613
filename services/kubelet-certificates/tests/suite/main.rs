//! Who gets a kubelet's certificate, and who does not: decided without a cluster.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod attacks;
mod csr;
