//! What a new centre contains, as data.
//!
//! 1. `data/`: JSON, one file per topic. What begins with `$` is a symbol: `$Class.EdgeCluster`.
//! 2. [`Site`]: what an operator says of the site; [`Local`]: the UUIDs that a site makes once, and keeps.
//! 3. `symbols` knows what each symbol stands for, and puts it in.
//! 4. [`Setup`]: the dumps, as the configuration database, the authorisation service and the directory load them.
//!
//! Edges get less than the original gives them: an edge's accounts hold nothing that reaches another cluster. What they hold for
//! their own cluster is granted by the cluster manager, cluster by cluster.

mod data;
pub mod dumps;
mod local;
mod setup;
mod site;
mod symbols;

pub use local::{Local, LocalError};
pub use setup::{Setup, SetupError};
pub use site::{Site, SiteError, Urls};
