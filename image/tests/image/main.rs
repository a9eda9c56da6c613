//! Images of a small sample system, and what other programs think of them.
//!
//! Where a program is missing, the test that asks it says so and passes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod checks;
mod container_archives;
mod container_boot;
mod container_image;
mod container_store;
mod disk;
mod documents;
mod fetched;
mod in_toto;
mod kubernetes;
mod manifest;
mod sample;
mod secure_boot;
mod state;
mod systemd;
