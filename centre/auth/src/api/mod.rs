//! What is asked over HTTP, and what is answered: paths, bodies, statuses. Version 2 of the interface.
//!
//! [`Ask::read`] makes a question of method, path and body; [`read`] answers one that changes nothing, of what is durable;
//! [`decide`] says what the others change. Whoever carries this makes it durable first, and then answers.

mod answer;
mod ask;
mod body;
mod path;
mod read;
mod write;

pub use latchkey_centre_service::{Answer, Body};

pub use ask::{Ask, Method, Pattern, Read, Write, watched};
pub use read::read;
pub use write::{Decided, Ground, decide};
