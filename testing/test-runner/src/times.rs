//! How long each job took: a table in the checkout, by which the next run puts the longest first and tells which one grew.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::RunnerError;
use crate::error::at;
use crate::process::Outcome;

/// The table, from the root: a line for each job, its name, seconds by the clock, seconds of a processor.
pub const TABLE: &str = "testing/test-runner/times.txt";
/// The document that has the longest of them.
pub const DOCUMENT: &str = "CONTRIBUTING.md";
/// The mark before that list, and the one after it.
const MARKS: [&str; 2] = ["<!-- times: begin -->\n", "<!-- times: end -->"];
/// How many are listed.
pub const LONGEST: usize = 20;
/// A job grew if its share of the whole run's processor time is that many times what it was …
const GROWN: u32 = 2;
/// … and it takes this much more.
const NOTICED: Duration = Duration::from_secs(20);

/// Times of a run.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Times(BTreeMap<String, Time>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Time {
    wall: Duration,
    processor: Duration,
}

impl Times {
    /// Of these jobs.
    pub fn of(outcomes: &[Outcome]) -> Self {
        let time = |one: &Outcome| (one.name.clone(), Time { wall: one.wall, processor: one.processor });
        Self(outcomes.iter().map(time).collect())
    }

    /// Reads a table.
    ///
    /// # Errors
    /// [`RunnerError::Table`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, RunnerError> {
        let mut times = BTreeMap::new();
        for (number, line) in text.lines().enumerate() {
            let seconds = |word: &str| word.parse().ok().map(Duration::from_secs);
            let read = line.rsplitn(3, ' ').collect::<Vec<_>>();
            let time = match read[..] {
                [processor, wall, name] => seconds(wall).zip(seconds(processor)).map(|time| (name, time)),
                _ => None,
            };
            let (name, (wall, processor)) =
                time.ok_or_else(|| RunnerError::Table { path: path.into(), line: number + 1 })?;
            times.insert(name.to_owned(), Time { wall, processor });
        }
        Ok(Self(times))
    }

    /// The table of this checkout; without one, no times.
    ///
    /// # Errors
    /// [`RunnerError::Table`], [`RunnerError::File`].
    pub fn of_checkout(root: &Path) -> Result<Self, RunnerError> {
        let path = root.join(TABLE);
        match std::fs::read_to_string(&path) {
            Ok(text) => Self::parse(&text, &path),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(at(&path)(error)),
        }
    }

    /// Writes the table, and the list in the document.
    ///
    /// # Errors
    /// [`RunnerError::File`]; [`RunnerError::Usage`], if the document has no place for it.
    pub fn write(&self, root: &Path) -> Result<(), RunnerError> {
        let mut table = String::new();
        for (name, time) in &self.0 {
            let _ = writeln!(table, "{name} {} {}", seconds(time.wall), seconds(time.processor));
        }
        let (path, document) = (root.join(TABLE), root.join(DOCUMENT));
        std::fs::write(&path, table).map_err(at(&path))?;
        let text = std::fs::read_to_string(&document).map_err(at(&document))?;
        let written =
            self.listed_in(&text).ok_or_else(|| RunnerError::Usage(format!("{DOCUMENT}: no {}", MARKS[0])))?;
        std::fs::write(&document, written).map_err(at(&document))
    }

    /// The document with the longest jobs of this table between its marks; `None` if it has none.
    pub fn listed_in(&self, document: &str) -> Option<String> {
        let (before, rest) = document.split_once(MARKS[0])?;
        let (_, after) = rest.split_once(MARKS[1])?;
        let mut list = "| job | by the clock | of a processor |\n|---|---|---|\n".to_owned();
        for (name, time) in self.longest() {
            let _ = writeln!(list, "| `{name}` | {} s | {} s |", seconds(time.wall), seconds(time.processor));
        }
        let (count, all) = (self.0.len(), self.processor());
        let _ = writeln!(list, "| all {count} | | {} s |", seconds(all));
        Some([before, MARKS[0], &list, MARKS[1], after].concat())
    }

    /// Lines for the end of a run: the jobs that took most processor time.
    pub fn longest_lines(&self) -> impl Iterator<Item = String> {
        self.longest()
            .into_iter()
            .map(|(name, time)| format!("{:>5} s {:>5} s  {name}", seconds(time.wall), seconds(time.processor)))
    }

    /// How long a job took by the clock.
    pub fn wall(&self, name: &str) -> Option<Duration> {
        self.0.get(name).map(|time| time.wall)
    }

    /// Processor time of all.
    pub fn processor(&self) -> Duration {
        self.0.values().map(|time| time.processor).sum()
    }

    /// The jobs that take more than twice their share of a run's processor time in `before`, and are long enough to be noticed.
    /// A new one has no share to compare.
    pub fn grown_since(&self, before: &Self) -> Vec<String> {
        let (all, all_before) = (self.processor().as_secs_f64(), before.processor().as_secs_f64());
        if all_before == 0.0 || all == 0.0 {
            return Vec::new();
        }
        let grown = self.0.iter().filter_map(|(name, time)| {
            let before = before.0.get(name)?.processor;
            let expected = before.as_secs_f64() / all_before * all;
            let (is, was) = (time.processor.as_secs_f64(), expected);
            let noticed = is > was + NOTICED.as_secs_f64() && is > f64::from(GROWN) * was;
            noticed.then(|| format!("{name}: {is:.0} s of a processor, where its share was {was:.0} s"))
        });
        grown.collect()
    }

    fn longest(&self) -> Vec<(&str, Time)> {
        let mut all: Vec<_> = self.0.iter().map(|(name, time)| (name.as_str(), *time)).collect();
        all.sort_by_key(|(name, time)| (std::cmp::Reverse(time.processor), *name));
        all.truncate(LONGEST);
        all
    }
}

/// Whole ones, rounded.
fn seconds(time: Duration) -> u64 {
    (time + Duration::from_millis(500)).as_secs()
}

/// The root of the checkout that this program was built from.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(text: &str) -> Times {
        Times::parse(text, "table".as_ref()).unwrap()
    }

    #[test]
    fn a_job_that_takes_twice_its_share_is_named() {
        let before = times("a 10 100\nb 1 300\nsmall 1 1\n");
        // Twice as slow a machine, and a share that grew; a small one that grew tenfold and is small.
        let now = times("a 10 420\nb 1 600\nsmall 1 10\nnew 9 900\n");
        let grown = now.grown_since(&times("a 10 100\nb 1 300\nsmall 1 1\nnew 1 400\n"));
        assert_eq!(grown, ["a: 420 s of a processor, where its share was 241 s"][..0]);
        let now = times("a 10 700\nb 1 600\nsmall 1 10\n");
        assert_eq!(now.grown_since(&before), ["a: 700 s of a processor, where its share was 327 s"]);
        assert_eq!(now.grown_since(&Times::default()), [""; 0]);
    }

    #[test]
    fn a_name_may_have_spaces_and_a_line_without_numbers_is_told() {
        let read = times("tpm (unit) 3 4\nmachines::life 200 300\n");
        assert_eq!(read.wall("tpm (unit)"), Some(Duration::from_secs(3)));
        assert_eq!(read.processor(), Duration::from_secs(304));
        let wrong = Times::parse("a 1 2\nb one 2\n", "t.txt".as_ref()).unwrap_err().to_string();
        assert_eq!(wrong, "t.txt:2: not a name and two numbers of seconds");
    }

    #[test]
    fn the_list_is_written_between_the_marks_of_the_document() {
        let document = format!("before\n{}old\n{}\nafter\n", MARKS[0], MARKS[1]);
        let written = times("a 1 2\nb 3 4\n").listed_in(&document).unwrap();
        let rows = "| `b` | 3 s | 4 s |\n| `a` | 1 s | 2 s |\n| all 2 | | 6 s |\n";
        assert!(
            written.starts_with("before\n") && written.contains(rows) && written.ends_with("-->\nafter\n"),
            "{written}"
        );
        assert_eq!(times("").listed_in("no marks"), None);
    }
}
