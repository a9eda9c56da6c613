//! The centre's git repositories: stock git behind rights on each repository.
//!
//! The way of a request, in code order:
//!
//! 1. [`paths`] reads method, path and query: a closed table. [`entries`] knows which repository a name means.
//! 2. [`rights`] finds what the caller needs, and makes the witness that it holds it.
//! 3. [`repositories`] keeps the repositories, by UUID, below one directory; it makes one when it is first needed.
//! 4. [`backend`] runs `git http-backend` for whoever has the witness: clean environment, bounded in time, size and number.
//! 5. [`server`] puts these together, for any HTTP server.
//! 6. [`web`] binds it to HTTP and change notification, `run` to the services of the centre; [`verifier`] knows callers.
//! 7. [`branches`] knows where each branch stands, and tells who waits for a change.

pub mod backend;
pub mod branches;
pub mod config;
pub mod entries;
pub mod git;
pub mod paths;
pub mod repositories;
pub mod rights;
mod run;
pub mod server;
pub mod web;

pub use run::run;
