//! What the service decides, without a network.

#![allow(clippy::unwrap_used, reason = "tests")]

mod dumps;
mod hostile;
mod interface;
mod keeping;
mod model;
mod rights;
mod site;
