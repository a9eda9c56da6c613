//! The configuration database of a Factory+ centre: objects, classes and entries, and who is told of changes.
//!
//! 1. [`Model`]: what there is, in memory; no I/O.
//! 2. [`operation`]: what can be asked, what each needs of its [`Caller`], and what comes back, with the status of HTTP.
//! 3. [`ConfigDb`]: the running database. It reads from memory, writes in groups to an [`Engine`](engine::Engine), and tells
//!    [`watch`]ers.
//! 4. [`paths`]: what paths and methods mean.
//! 5. [`server`]: the same over HTTP; [`run`]: the program, by its [`config`].
//!
//! The contract is that of the AMRC Connectivity Stack's `ConfigDB`, version 2 and what is left of version 1. Deliberately other:
//!
//! * `If-Match` that fails is 412 for GET, too (RFC 9110).
//! * Schemas are complete in themselves, and what they make of an entry is bounded.
//! * A dump that was loaded is 200: the npm client takes nothing else.
//! * A merge patch that is no object is refused (422): it would replace the whole entry.
//! * A write that would change nothing needs no more than the right to read.
//! * An entry of the application `WRITE_SCOPE` names a permission that also allows writing an application's entries about
//!   single objects.
//! * A registration's new class needs the rights over both memberships.
//! * Notifications carry the etag each time, say 201 of what was created, and know JSON's `false`, `0`, `""` and `null` from
//!   nothing.

pub mod access;
pub mod config;
mod database;
mod dump;
pub mod engine;
mod execute;
mod model;
pub mod operation;
pub mod paths;
mod query;
mod run;
mod schema;
#[cfg(feature = "fuzzing")]
pub mod scratch;
pub mod server;
pub mod watch;

pub use access::Caller;
pub use database::{ConfigDb, StartError};
pub use dump::{Dump, DumpError};
pub use latchkey_factory_plus::Uuid;
pub use latchkey_sorted_json::{DEEPEST_JSON, Json, JsonError, LONGEST_JSON};
/// What the program allocates with, and what its benchmark therefore has to.
pub use mimalloc::MiMalloc as Allocator;
pub use model::{Depth, Entry, Model, Mutation, Object};
pub use operation::{Answer, Outcome, Preconditions, PreconditionsError, Read, Refusal, Write};
pub use query::{Query, QueryError};
pub use run::run;
