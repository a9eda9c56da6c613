//! The node agent as a library: the binary is a thin `main`.

pub mod cluster;
mod flows;
pub mod handover;
pub mod lifecycle;
pub mod platform;
pub mod stage1;
pub mod stage2;
