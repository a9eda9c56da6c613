//! Derives data keys from the master secret.

fn main() {}
