//! A figure: what one thing costs.

use serde::{Deserialize, Serialize};

/// What time was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// Time on a processor, of all threads of the process.
    Processor,
    /// Time of the clock: the work was done by another process, or waits for one.
    Wall,
}

impl Clock {
    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Processor => "processor",
            Self::Wall => "wall",
        }
    }
}

/// What doing one thing once costs. One line of JSON, `{"id":…}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// A stable name, `crate/what`.
    pub id: String,
    /// The same for people.
    pub what: String,
    /// The clock.
    pub clock: Clock,
    /// The median of the batches, microseconds.
    pub median_us: f64,
    /// The fastest batch, microseconds.
    pub fastest_us: f64,
    /// How many times the work was done in all, the warm-up not counted.
    pub count: u64,
}

impl Figure {
    /// From the time of each batch of `per_batch` repetitions. Without batches everything is zero.
    pub fn from_batches(id: &str, what: &str, clock: Clock, per_batch: u32, batches: &[std::time::Duration]) -> Self {
        let mut each: Vec<f64> = batches.iter().map(|time| time.as_secs_f64() * 1e6 / f64::from(per_batch)).collect();
        each.sort_by(f64::total_cmp);
        Self {
            id: id.to_owned(),
            what: what.to_owned(),
            clock,
            median_us: each.get(each.len() / 2).copied().unwrap_or_default(),
            fastest_us: each.first().copied().unwrap_or_default(),
            count: u64::from(per_batch) * each.len() as u64,
        }
    }

    /// How often per second, on one processor.
    pub fn per_second(&self) -> f64 {
        1e6 / self.median_us
    }

    /// Reads a line, `None` if it is none.
    pub fn from_line(line: &str) -> Option<Self> {
        serde_json::from_str(line).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_figure_is_the_median_and_the_fastest_of_its_batches() {
        let batches = [9, 3, 4, 5, 700].map(Duration::from_millis);
        let figure = Figure::from_batches("a/b", "b", Clock::Processor, 1000, &batches);
        assert_eq!((figure.median_us, figure.fastest_us, figure.count), (5.0, 3.0, 5000));
        assert!((figure.per_second() - 200_000.0).abs() < 1e-6);
    }

    #[test]
    fn a_line_is_read_as_it_was_written_and_nothing_else_is() {
        let figure = Figure::from_batches("a/b", "b", Clock::Wall, 1, &[Duration::from_micros(7)]);
        let line = serde_json::to_string(&figure).unwrap();
        assert_eq!(Figure::from_line(&line), Some(figure));
        for other in ["", "running 3 tests", "{}", &line.replace("wall", "moon"), &line.replace('{', "{\"x\":1,")] {
            assert_eq!(Figure::from_line(other), None, "{other}");
        }
    }
}
