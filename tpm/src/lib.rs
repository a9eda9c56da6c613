//! TPM 2.0 structures and commands in safe Rust.
