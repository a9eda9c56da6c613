//! Sets up edge clusters of a Factory+ centre: decided in pure code, done by thin drivers.
//!
//! Decided, without I/O, clock or runtime; times are milliseconds since 1970, and random bytes are given:
//!
//! 1. [`machine`]: one machine for each cluster: what the configuration database says goes in, what is to be done comes
//!    out.
//! 2. [`manifests`]: the files of a cluster's repository.
//! 3. [`script`] and [`links`]: the script that bootstraps an edge, and who may read it how long.
//! 4. [`seal`]: secrets that one cluster alone can open.
//!
//! Done:
//!
//! 5. [`world`] carries effects out; `latchkey-git-client` writes repositories, [`keeper`] keeps links.
//! 6. [`manager`] follows the configuration database, and runs the machines.
//! 7. [`web`]: the interface over HTTP, change notification, and the page.
//! 8. `run`: the program, by its [`config`].

pub mod config;
pub mod keeper;
pub mod links;
pub mod machine;
pub mod manager;
pub mod manifests;
mod run;
pub mod script;
pub mod seal;
pub mod web;
pub mod world;

pub use run::run;
