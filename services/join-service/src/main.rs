//! Lets attested nodes into the cluster.

fn main() {}
