//! The node agent as a library: the binary is a thin `main`.

pub mod life;
pub mod platform;
