//! What this edge tells the centre of itself, and when: decided without I/O or clock.
//!
//! The entry of the application "Edge cluster status" is read once and then once with each heartbeat; a merge patch writes what is
//! different, and nothing where nothing is. Other fields of the entry are left alone.

mod problems;
mod reporter;
#[cfg(test)]
mod tests;

pub use problems::{Problems, Source};
pub use reporter::{HEARTBEAT, Reporter, Step};
