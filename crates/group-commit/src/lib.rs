//! A durable file of keys and values, for services that keep all of it in memory and write little at a time.
//!
//! 1. [`DurableFile`]: the file itself. It hands its entries over when it is opened, and is only written afterwards.
//! 2. [`Store`]: the same for many tasks. One thread writes; all changes that wait when it begins share one fsync. A write is
//!    acknowledged once it is durable, and writes become durable in the order in which they were handed over.
//!
//! A write that could not be made durable leaves nothing behind: the file goes on from what was acknowledged before it. The
//! file is redb's, with a log beside it while it is open; there is no runtime here, and reads are the caller's business.

mod change;
mod copy;
mod error;
mod file;
mod gathering;
mod lock;
mod log;
mod store;

pub use change::{Change, LONGEST_KEY, LONGEST_VALUE};
pub use copy::{Moment, copy_place};
pub use error::{CopyError, OpenError, WriteError};
pub use file::DurableFile;
pub use gathering::Gathering;
pub use store::{Store, WAITING_WRITES};
