//! Processes that never outlive the tests, and tools that are run to their end.

mod tool;

pub use latchkey_test_support::{Process, spawn};
pub use tool::{Finished, TOOL, output, output_within, run, run_shown};

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use super::*;

    const GONE: Duration = Duration::from_mins(2);

    /// This test runs itself once more, as the process that is killed.
    #[test]
    fn what_was_started_ends_with_the_tests_when_they_are_killed() {
        const PLACE: &str = "LATCHKEY_TEST_PIPE";
        if let Ok(pipe) = std::env::var(PLACE) {
            // Started both ways; each holds the pipe open until it ends.
            let holder = || {
                let pipe = std::fs::File::options().write(true).open(&pipe).unwrap();
                let mut command = Command::new("sh");
                command.args(["-c", "echo started; exec tail -f /dev/null"]).stdin(Stdio::null()).stdout(pipe);
                command
            };
            let _process = Process::watch(spawn(holder()).unwrap()).unwrap();
            let mut tool = Command::new("sh");
            let to_pipe = format!("echo started > {pipe}; exec tail -f /dev/null > {pipe}");
            let _ = output_within(tool.args(["-c", &to_pipe]), GONE);
            return;
        }
        let run = crate::run::Run::new("killed").unwrap();
        let pipe = run.file("pipe");
        output(Command::new("mkfifo").arg(&pipe)).unwrap();
        let mut tests = Command::new(std::env::current_exe().unwrap());
        tests.args(["--exact", "process::tests::what_was_started_ends_with_the_tests_when_they_are_killed"]);
        tests.env(PLACE, &pipe).stdin(Stdio::null()).stdout(Stdio::null());
        let tests = Process::watch(spawn(tests).unwrap()).unwrap();
        // Opening waits for a writer, and the end comes when there is none any more: the console has deadlines for both.
        let both = std::fs::File::options().read(true).write(true).open(&pipe).unwrap();
        let console =
            crate::console::Console::read("pipe", std::fs::File::open(&pipe).unwrap(), &run.file("log")).unwrap();
        console.expect("started", GONE).unwrap();
        console.expect("started", GONE).unwrap();
        drop(both);
        tests.kill();
        console.wait_end(GONE).unwrap();
    }
}
