//! How benchmarks of Latchkey measure and report, so that `./dev bench` can put them beside each other.
//!
//! A benchmark is a `[[bench]]` of its crate with `harness = false`; its `main` makes a [`Bench`] and calls
//! [`Bench::measure`] once per figure, [`Bench::count`] once per quantity. Run by a person it prints a table; with `--json`
//! a [`Figure`] or [`Quantity`] per line.
//!
//! Work is measured in *processor* time of the whole process, not in time of the clock: a busy machine then measures
//! nearly the same as an idle one. It is repeated in batches, after a warm-up; the median of the batches is what the
//! work costs, the fastest is what it would cost without any disturbance.

mod clock;
mod figure;
mod measure;
pub mod pipe;
mod process;
mod quantity;

pub use clock::{processor_time, wall_time};
pub use figure::{Clock, Figure};
pub use measure::Bench;
pub use process::{memory_of, own_memory_of, peak_memory_of, processor_time_of};
pub use quantity::Quantity;
