//! Components from folders and mirrors, hostile ones among them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod folder;
mod hostile;
