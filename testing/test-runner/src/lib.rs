//! Runs the workspace's tests. Cargo builds the executables and would run them one after the other; here they run beside each
//! other.
//!
//! 1. [`arguments`]: what is to be run.
//! 2. [`executables`]: cargo builds it, and says where.
//!    Before them, [`programs`] are built that several tests use.
//! 3. [`jobs`]: each executable is one job, but those of `qemu-tests` are one for each module, so that machines of one module
//!    run while another's are made. What a job's tests are called is asked of the executable.
//! 4. [`schedule`]: two queues, those of machines and the others, each with the longest first.
//! 5. [`process`]: a job's process, its output and its times; what [`progress`] reads from the output says whether a test hangs.
//! 6. [`report`]: a line for each job, a failure whole and once more at the end; the longest, and those that grew, by the
//!    [`times`] of a run before.

pub mod arguments;
pub mod error;
pub mod executables;
pub mod jobs;
pub mod process;
pub mod programs;
pub mod progress;
pub mod report;
pub mod schedule;
pub mod times;

pub use error::RunnerError;
