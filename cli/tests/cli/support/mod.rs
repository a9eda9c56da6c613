//! What the tests share: the real command, and nodes to run it against.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

pub mod cluster;
pub mod command;
pub mod node;
pub mod operator;
pub mod plant;
pub mod stand_in;
pub mod terminal;
