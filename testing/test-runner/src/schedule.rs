//! Which job runs when.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::RunnerError;
use crate::jobs::Job;
use crate::process::{self, Outcome};
use crate::times::Times;

/// What a process of tests may need at once: with two machines of half a gigabyte each, and what makes their images.
const MEMORY: u64 = 3 << 30;

/// Jobs that wait: those with machines, and the others, each the longest first.
#[derive(Debug)]
pub struct Queue {
    machines: VecDeque<Job>,
    others: VecDeque<Job>,
}

impl Queue {
    /// Sorts the jobs by the time that they took before. One that is not in the table is new, and may be long: it comes first.
    pub fn of(jobs: Vec<Job>, times: &Times) -> Self {
        let (mut machines, mut others): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|job| job.machines);
        for jobs in [&mut machines, &mut others] {
            jobs.sort_by_key(|job| std::cmp::Reverse(times.wall(&job.name).unwrap_or(Duration::MAX)));
        }
        Self { machines: machines.into(), others: others.into() }
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.machines.len() + self.others.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The next one for a place that is for machines, or for the others; of the other queue, when its own is empty.
    fn next(&mut self, machines: bool) -> Option<Job> {
        let (own, other) =
            if machines { (&mut self.machines, &mut self.others) } else { (&mut self.others, &mut self.machines) };
        own.pop_front().or_else(|| other.pop_front())
    }
}

/// What happens in a run, for whoever shows it.
#[derive(Debug)]
pub enum Event<'a> {
    /// A job begins.
    Begins(&'a str),
    /// A line of a job.
    Line(&'a str, &'a str),
    /// A job has ended.
    Ended(&'a Outcome),
}

/// Runs all jobs: two places are for machines, which wait for each other over the whole run (`qemu-tests`, `run::Slot`), and one
/// is for the others. On a machine with more cores there are more of each; with little memory, fewer.
///
/// # Errors
/// [`RunnerError::File`], if one cannot be started. The others have ended by then.
pub fn run(queue: Queue, longest: Duration, shown: impl Fn(Event<'_>) + Sync) -> Result<Vec<Outcome>, RunnerError> {
    let (queue, outcomes) = (Mutex::new(queue), Mutex::new(Vec::new()));
    let work = |machines: bool| -> Result<(), RunnerError> {
        loop {
            // By itself, so that the queue is not held while the job runs.
            let next = locked(&queue).next(machines);
            let Some(job) = next else { return Ok(()) };
            let name = job.name.clone();
            shown(Event::Begins(&name));
            let outcome = process::run(job, longest, |line| shown(Event::Line(&name, line)))?;
            shown(Event::Ended(&outcome));
            locked(&outcomes).push(outcome);
        }
    };
    let ended: Vec<_> = std::thread::scope(|scope| {
        let places: Vec<_> = places().into_iter().map(|machines| scope.spawn(move || work(machines))).collect();
        places.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
    });
    for end in ended {
        end.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    }
    Ok(outcomes.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One for each process that runs at a time: whether machines come first there.
fn places() -> Vec<bool> {
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let of_memory = usize::try_from(available_memory().unwrap_or(u64::MAX) / MEMORY).unwrap_or(usize::MAX);
    let (machines, others) = (cores.max(2), (cores / 2).max(1));
    let places = std::iter::repeat_n(false, others).chain(std::iter::repeat_n(true, machines));
    places.take(of_memory.max(1)).collect()
}

/// Bytes that can be had without swapping (proc(5), `meminfo`).
fn available_memory() -> Option<u64> {
    let said = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = said.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn job(name: &str, machines: bool, script: &str) -> Job {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Job { name: name.into(), machines, tests: 1, command }
    }

    #[test]
    fn the_longest_comes_first_and_an_unknown_one_before_it() {
        let times = Times::parse("a 1 1\nb 30 2\nm 5 5\n", "table".as_ref()).unwrap();
        let jobs = ["a", "b", "new", "m"].map(|name| job(name, name == "m", "")).into();
        let mut queue = Queue::of(jobs, &times);
        let mut order = std::iter::from_fn(|| queue.next(false).map(|job| job.name));
        assert_eq!(order.by_ref().collect::<Vec<_>>(), ["new", "b", "a", "m"]);
    }

    #[test]
    fn jobs_run_beside_each_other() {
        let directory = tempfile::tempdir().unwrap();
        // Each waits for the other one's word.
        let meets = |own: &str, other: &str| {
            let [own, other] = [own, other].map(|name| directory.path().join(name).display().to_string());
            format!("mkfifo {own} {other} 2>/dev/null; (echo > {own} &) ; read word < {other}")
        };
        let jobs = vec![job("a", true, &meets("one", "two")), job("b", false, &meets("two", "one"))];
        let outcomes = run(Queue::of(jobs, &Times::default()), Duration::from_mins(1), |_| ()).unwrap();
        assert!(outcomes.iter().all(Outcome::passed), "{outcomes:?}");
    }

    #[test]
    fn every_job_runs_once_whatever_became_of_the_others() {
        let jobs = (0..9).map(|number| job(&number.to_string(), number % 2 == 0, &format!("exit {number}"))).collect();
        let outcomes = run(Queue::of(jobs, &Times::default()), Duration::from_mins(1), |_| ()).unwrap();
        let mut ended: Vec<_> = outcomes.iter().map(|one| (one.name.clone(), one.passed())).collect();
        ended.sort();
        assert_eq!(ended, (0..9).map(|number| (number.to_string(), number == 0)).collect::<Vec<_>>());
    }
}
