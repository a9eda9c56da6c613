//! latchkey, the command line.

fn main() {}
