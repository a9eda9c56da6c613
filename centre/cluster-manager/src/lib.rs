//! Sets up edge clusters of a Factory+ centre: decided here, done by drivers.
//!
//! 1. [`machine`]: one machine for each cluster: what the configuration database says goes in, what is to be done comes
//!    out.
//! 2. [`template`] and [`manifests`]: the files of a cluster's repository.
//! 3. [`script`] and [`links`]: the script that bootstraps an edge, and who may read it how long.
//! 4. [`seal`]: secrets that one cluster alone can open.
//! 5. [`heartbeat`]: how long ago an edge was heard of.
//!
//! No I/O, no clock, no runtime: times are milliseconds since 1970, and random bytes are given.

pub mod heartbeat;
pub mod links;
pub mod machine;
pub mod manifests;
pub mod script;
pub mod seal;
pub mod template;
