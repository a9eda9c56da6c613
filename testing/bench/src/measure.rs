//! Repeats work and reports what it costs.

use std::hint::black_box;
use std::time::Duration;

use crate::clock::{processor_time, wall_time};
use crate::figure::{Clock, Figure};
use crate::quantity::Quantity;

/// Long beside the clock's own cost (half a microsecond), short enough that many batches meet no disturbance.
const BATCH: Duration = Duration::from_millis(5);
const BATCHES: u32 = 200;
/// Slow work gets fewer batches, down to these.
const LEAST_BATCHES: u32 = 15;
/// About as long as one figure may take.
const PATIENCE: Duration = Duration::from_secs(3);
const WARM_UP: Duration = Duration::from_millis(200);

/// A benchmark program: it measures and reports.
#[derive(Debug)]
pub struct Bench {
    output: Output,
}

#[derive(Debug)]
enum Output {
    Table,
    Json,
    Nothing,
}

impl Bench {
    /// Reads the program's arguments: `--json` for lines of JSON. Others are cargo's.
    pub fn from_args() -> Self {
        let json = std::env::args().any(|argument| argument == "--json");
        Self { output: if json { Output::Json } else { Output::Table } }
    }

    /// One that prints nothing: its caller takes the figures.
    pub const fn quiet() -> Self {
        Self { output: Output::Nothing }
    }

    /// Measures `work` in processor time.
    pub fn measure<T>(&self, id: &str, what: &str, mut work: impl FnMut() -> T) -> Figure {
        self.measure_prepared(id, what, || (), |()| work())
    }

    /// Measures `work` in processor time, but not what prepares its input.
    pub fn measure_prepared<I, T>(
        &self,
        id: &str,
        what: &str,
        prepare: impl FnMut() -> I,
        work: impl FnMut(I) -> T,
    ) -> Figure {
        let figure = measured(id, what, Clock::Processor, prepare, work);
        self.report(&figure);
        figure
    }

    /// Measures, by the clock, `work` that another process does.
    pub fn measure_process<T>(&self, id: &str, what: &str, mut work: impl FnMut() -> T) -> Figure {
        let figure = measured(id, what, Clock::Wall, || (), |()| work());
        self.report(&figure);
        figure
    }

    /// Reports a figure that was measured in another way.
    pub fn report(&self, figure: &Figure) {
        match self.output {
            Output::Json => println!("{}", serde_json::to_string(figure).unwrap_or_default()),
            Output::Table => {
                let Figure { what, median_us, fastest_us, .. } = figure;
                let (clock, rate) = (figure.clock.name(), figure.per_second());
                println!("{what:<70} {median_us:>10.1} µs  {fastest_us:>10.1} at best  {rate:>9.0}/s  {clock}");
            }
            Output::Nothing => {}
        }
    }

    /// Reports how much of something there is.
    pub fn count(&self, quantity: &Quantity) {
        match self.output {
            Output::Json => println!("{}", serde_json::to_string(quantity).unwrap_or_default()),
            Output::Table => println!("{:<70} {:>10}", quantity.what, quantity.count),
            Output::Nothing => {}
        }
    }
}

fn measured<I, T>(
    id: &str,
    what: &str,
    clock: Clock,
    mut prepare: impl FnMut() -> I,
    mut work: impl FnMut(I) -> T,
) -> Figure {
    let mut batch = |repetitions: u32| {
        let inputs: Vec<I> = (0..repetitions).map(|_| prepare()).collect();
        let start = now(clock);
        for input in inputs {
            let _ = black_box(work(black_box(input)));
        }
        now(clock).saturating_sub(start)
    };
    let one = warm_up(&mut batch);
    let per_batch = u32::try_from(BATCH.as_nanos() / one.as_nanos().max(1)).unwrap_or(u32::MAX).clamp(1, 10_000);
    let start = wall_time();
    let mut batches = Vec::new();
    for done in 0..BATCHES {
        if done >= LEAST_BATCHES && wall_time().saturating_sub(start) > PATIENCE {
            break;
        }
        batches.push(batch(per_batch));
    }
    Figure::from_batches(id, what, clock, per_batch, &batches)
}

/// Runs until caches and branch predictors know the work; gives about what it takes once.
fn warm_up(batch: &mut impl FnMut(u32) -> Duration) -> Duration {
    let start = wall_time();
    let mut fastest = batch(1);
    while wall_time().saturating_sub(start) < WARM_UP {
        fastest = fastest.min(batch(1));
    }
    fastest
}

fn now(clock: Clock) -> Duration {
    match clock {
        Clock::Processor => processor_time(),
        Clock::Wall => wall_time(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prepared_input_is_used_once_each() {
        let (mut prepared, mut used) = (0_u64, 0_u64);
        let figure = measured("a/b", "b", Clock::Processor, || prepared += 1, |()| used += 1);
        assert!(prepared == used && used > figure.count && figure.count > 0);
    }
}
