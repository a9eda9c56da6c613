//! `./dev test`: see the library.

use std::process::ExitCode;
use std::time::Instant;

use latchkey_test_runner::arguments::{Arguments, HELP, longest};
use latchkey_test_runner::executables::Selection;
use latchkey_test_runner::jobs::{self, Job};
use latchkey_test_runner::programs::Programs;
use latchkey_test_runner::report::{self, Report};
use latchkey_test_runner::schedule::{self, Queue};
use latchkey_test_runner::times::{self, Times};
use latchkey_test_runner::{RunnerError, process::Outcome};

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(101),
        Err(error) => {
            eprintln!("test-runner: {error}");
            ExitCode::from(2)
        }
    }
}

/// Whether all tests passed.
fn run() -> Result<bool, RunnerError> {
    let arguments = Arguments::parse(std::env::args_os().skip(1))?;
    if arguments.help {
        print!("{HELP}");
        return Ok(true);
    }
    let longest = longest()?;
    let selection = Selection::of(&arguments)?;
    let programs = selection.shares_programs().then(Programs::prepare).transpose()?;
    let mut jobs = jobs::of(&selection.build()?, &selection, &arguments.tests)?;
    if let Some(programs) = &programs {
        for job in &mut jobs {
            programs.give(job);
        }
    }
    if arguments.all_cases {
        for job in &mut jobs {
            job.command.env(latchkey_test_support::ALL_CASES, "1");
        }
    }
    if selection.with_documentation() && arguments.tests.is_empty() {
        jobs.push(Job::documentation());
    }
    if jobs.is_empty() {
        return Err(RunnerError::Usage("no test is called so".into()));
    }
    let before = Times::of_checkout(&times::root())?;
    let (began, shown) = (Instant::now(), Report::of(jobs.len()));
    let outcomes = schedule::run(Queue::of(jobs, &before), longest, |event| shown.event(&event))?;
    let times = Times::of(&outcomes);
    let grown = if arguments.is_everything() { times.grown_since(&before) } else { Vec::new() };
    let table = arguments.is_everything().then_some((&times, grown.as_slice()));
    print!("{}", report::end(&outcomes, began.elapsed(), table));
    let passed = outcomes.iter().all(Outcome::passed);
    if arguments.write_times && passed {
        times.write(&times::root())?;
    } else if arguments.write_times {
        // Later runs are held against it, and a test that fails may end early.
        eprintln!("The table of times is as it was: not all tests passed.");
    }
    let as_before = grown.is_empty() || !arguments.fail_grown;
    Ok(as_before && passed)
}
