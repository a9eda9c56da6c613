//! Files from mirrors, over HTTP and HTTPS, within limits.
//!
//! What comes is nobody's word: whoever asks bounds how much of it is read, and holds it against a hash or a signature. With the
//! feature `client`, [`Client`] asks; which files there are, and what a failure is called, its user knows.

mod address;
#[cfg(feature = "client")]
mod client;

pub use address::Address;
#[cfg(feature = "client")]
pub use client::{Answer, Body, Broken, Client, Limits, MAX_HEAD, MAX_REDIRECTS, MirrorError};
