//! A job's process: its output line by line, its times, and its end where it hangs.

use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::RunnerError;
use crate::error::at;
use crate::jobs::Job;
use crate::progress::Progress;

/// Between two looks whether a test hangs.
const LOOK: Duration = Duration::from_secs(1);
/// More than this of an executable's output is left out in the middle.
const MAX_OUTPUT: usize = 4 * 1024 * 1024;
/// A line longer than this is read in pieces.
const MAX_LINE: u64 = 64 * 1024;

/// How a job ended.
#[derive(Debug)]
pub struct Outcome {
    /// What it was called.
    pub name: String,
    /// Its tests.
    pub progress: Progress,
    /// All that it said.
    pub output: String,
    /// From its start to its end.
    pub wall: Duration,
    /// Processor time of the process and of all that it has waited for.
    pub processor: Duration,
    /// The system's word; `None`: it hung and was ended.
    pub status: Option<ExitStatus>,
}

impl Outcome {
    /// Whether all went well.
    pub fn passed(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }
}

/// Runs a job to its end. `watching` sees each line as it comes.
///
/// # Errors
/// [`RunnerError::File`], if it cannot be started.
pub fn run(job: Job, longest: Duration, mut watching: impl FnMut(&str)) -> Result<Outcome, RunnerError> {
    let Job { name, mut command, .. } = job;
    let program = Path::new(command.get_program()).to_path_buf();
    let (reader, writer) = std::io::pipe().map_err(at(&program))?;
    let twin = writer.try_clone().map_err(at(&program))?;
    // Nothing is on its standard input: a terminal would stop it there.
    command.stdin(Stdio::null()).stdout(OwnedFd::from(writer)).stderr(OwnedFd::from(twin));
    let began = Instant::now();
    let mut child = latchkey_test_support::spawn(command).map_err(at(&program))?;
    let pid = Pid::from_child(&child);
    let (lines, said) = channel();
    let ends = wait(pid, lines.clone());
    let reading = std::thread::spawn(move || read(reader, &lines));
    let mut progress = Progress::from(began);
    let (mut output, mut hung) = (Output::default(), false);
    loop {
        match said.recv_timeout(LOOK) {
            Ok(Event::Line(line)) => {
                progress.read(&line, Instant::now());
                watching(&line);
                output.push(&line);
            }
            Ok(Event::Ended) | Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if !hung && let Some(test) = progress.hangs(longest, Instant::now()) {
            let line = format!("HANGS: ended after {} minutes: {name}: {test}", longest.as_secs() / 60);
            watching(&line);
            output.push(&line);
            hung = true;
            end(pid);
        }
    }
    let processor = ends.join().unwrap_or_default();
    let status = child.wait().map_err(at(&program))?;
    drain(&said, &reading, |line| {
        progress.read(&line, Instant::now());
        watching(&line);
        output.push(&line);
    });
    let status = (!hung).then_some(status);
    Ok(Outcome { name, progress, output: output.text, wall: began.elapsed(), processor, status })
}

enum Event {
    Line(String),
    Ended,
}

/// Waits for the process's end without collecting it, and then reads what it took.
fn wait(pid: Pid, ended: Sender<Event>) -> JoinHandle<Duration> {
    std::thread::spawn(move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while matches!(waitid(WaitId::Pid(pid), options), Err(rustix::io::Errno::INTR)) {}
        let took = processor_time(pid).unwrap_or_default();
        // Nobody listens any more if it hung.
        let _ = ended.send(Event::Ended);
        took
    })
}

/// Ticks in a second, as the kernel tells times to programs, whatever it counts in itself (proc(5)).
const TICKS: u64 = 100;

/// User and system time of a process that has ended and was not collected, and of those that it collected (proc(5), `stat`).
fn processor_time(pid: Pid) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The name stands in brackets, and may have any in it.
    let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11..15)?.iter().filter_map(|field| field.parse::<u64>().ok()).sum();
    Some(Duration::from_millis(ticks * 1000 / TICKS))
}

fn read(from: impl Read, lines: &Sender<Event>) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = from.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
        if !matches!(read, Ok(1..)) {
            return;
        }
        let text = String::from_utf8_lossy(&line);
        if lines.send(Event::Line(text.trim_end_matches('\n').to_owned())).is_err() {
            return;
        }
    }
}

/// What it said to its end, unless something that it left behind holds its output: that is not waited for.
fn drain(said: &Receiver<Event>, reading: &JoinHandle<()>, mut each: impl FnMut(String)) {
    let end = Instant::now() + LOOK;
    while !reading.is_finished() && Instant::now() < end {
        if let Ok(Event::Line(line)) = said.recv_timeout(LOOK / 20) {
            each(line);
        }
    }
    while let Ok(Event::Line(line)) = said.try_recv() {
        each(line);
    }
}

/// Ends a process with all that it started, also beyond its group.
fn end(pid: Pid) {
    // Nothing of it goes on while its parts end one by one, and it last: then this is over, too.
    let _ = kill_process(pid, Signal::STOP);
    for descendant in descendants(pid) {
        let _ = kill_process(descendant, Signal::KILL);
    }
    let _ = kill_process(pid, Signal::KILL);
}

fn descendants(pid: Pid) -> Vec<Pid> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero()));
    let children = tasks
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let children: Vec<_> = children
        .flat_map(|list| list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<i32>>())
        .filter_map(Pid::from_raw)
        .collect();
    children.into_iter().flat_map(|child| descendants(child).into_iter().chain([child])).collect()
}

/// What was said, its middle left out where it is too much.
#[derive(Default)]
struct Output {
    text: String,
    full: bool,
}

impl Output {
    fn push(&mut self, line: &str) {
        // The end of a run says what failed: it always stays.
        if self.text.len() > MAX_OUTPUT {
            let half = self.text.ceil_char_boundary(MAX_OUTPUT / 2);
            let from = self.text.ceil_char_boundary(MAX_OUTPUT / 4);
            self.text.replace_range(from..half, if self.full { "" } else { "\n… left out …\n" });
            self.full = true;
        }
        self.text.push_str(line);
        self.text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn job(script: &str) -> Job {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Job { name: "sh".into(), machines: false, tests: 1, command }
    }

    #[test]
    fn a_job_tells_its_output_its_status_and_its_time() {
        let mut seen = Vec::new();
        let busy = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        let script = format!("({busy}); echo 'test a ... ok'; echo 'test b ... FAILED' >&2; exit 101");
        let outcome = run(job(&script), LOOK * 600, |line| seen.push(line.to_owned())).unwrap();
        assert_eq!(outcome.status.unwrap().code(), Some(101));
        assert_eq!((outcome.progress.passed, &outcome.progress.failed[..]), (1, &["b".to_owned()][..]));
        assert_eq!(seen, ["test a ... ok", "test b ... FAILED"]);
        assert_eq!(outcome.output, "test a ... ok\ntest b ... FAILED\n");
        // Of a subshell that it has waited for.
        assert!(outcome.processor > Duration::ZERO, "{outcome:?}");
    }

    #[test]
    fn what_hangs_is_ended_with_all_that_it_started() {
        let outcome = run(job("setsid tail -f /dev/null & echo \"child $!\"; wait"), Duration::ZERO, |_| ()).unwrap();
        assert!(outcome.status.is_none() && outcome.output.contains("HANGS: ended after 0 minutes: sh"), "{outcome:?}");
        let child = outcome.output.lines().find_map(|line| line.strip_prefix("child ")).unwrap();
        let gone = || (!Path::new("/proc").join(child).exists()).then_some(());
        latchkey_test_support::until("the end of what it started", gone);
    }
}
