//! Brings a machine from power-on to an attested, encrypted cluster node, and leaves.

fn main() {}
