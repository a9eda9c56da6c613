//! Follows what a node tells of its bootstrap.

use std::collections::HashSet;
use std::time::Duration;

use latchkey_api::grpc::{Status, Streaming};
use latchkey_api::v1::{Failed, InitEvent, Progress, Succeeded, init_event::Event};

use crate::output::{Output, Tone};

/// More lines than any bootstrap has; the lines of a node that sends more are shown again.
const REMEMBERED: usize = 4096;
/// Lines of a failed step's own output that are shown.
const LOG_LINES: usize = 20;

/// Shows progress, each line once: a node repeats its past to who attaches again.
pub(super) struct Follower<'a> {
    output: &'a Output,
    seen: HashSet<(u64, String, String)>,
}

/// How a stream ended.
pub(super) enum End {
    Locked(Vec<u8>),
    Succeeded(Succeeded),
    Failed(Failed),
    /// Without a result.
    Silent,
}

impl<'a> Follower<'a> {
    pub(super) fn new(output: &'a Output) -> Self {
        Self { output, seen: HashSet::new() }
    }

    pub(super) async fn follow(&mut self, events: &mut Streaming<InitEvent>) -> Result<End, Status> {
        while let Some(event) = events.message().await? {
            match event.event {
                Some(Event::Progress(line)) => self.show(line),
                Some(Event::Locked(locked)) => return Ok(End::Locked(locked.cluster_id)),
                Some(Event::Succeeded(succeeded)) => return Ok(End::Succeeded(succeeded)),
                Some(Event::Failed(failed)) => return Ok(End::Failed(failed)),
                // A later release may tell more.
                None => {}
            }
        }
        Ok(End::Silent)
    }

    fn show(&mut self, line: Progress) {
        if self.seen.len() >= REMEMBERED {
            self.seen.clear();
        }
        let Progress { step, detail, elapsed_ms } = line;
        if self.seen.insert((elapsed_ms, step.clone(), detail.clone())) {
            self.output.node_step(Duration::from_millis(elapsed_ms), &step, &detail);
        }
    }

    /// The end of a failed step's own output.
    pub(super) fn show_log(&self, log: &[u8]) {
        let text = String::from_utf8_lossy(log);
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines.get(lines.len().saturating_sub(LOG_LINES)..).unwrap_or_default();
        if !tail.is_empty() {
            let printable: Vec<String> = tail.iter().map(|line| crate::output::printable(line)).collect();
            self.output.say(Tone::Warning, "log", &printable.join("\n"));
        }
    }
}
