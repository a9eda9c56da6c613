//! The moving line on a terminal: what is being waited for, and how long already.

use std::collections::HashSet;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::style::{Style, Tone};

/// The line at the bottom.
pub(super) struct Live {
    terminal: bool,
    /// What was waited for since something happened, so that a program's log has it once.
    said: HashSet<String>,
    shown: Option<Shown>,
}

struct Shown {
    text: String,
    since: Instant,
    frame: usize,
    /// Repaints the line; dropped, it stops.
    _painter: smol::Task<()>,
}

impl Live {
    pub(super) fn new(terminal: bool) -> Self {
        Self { terminal, said: HashSet::new(), shown: None }
    }

    /// Whether there is a terminal for it.
    pub(super) const fn moves(&self) -> bool {
        self.terminal
    }

    /// Whether this was not waited for since something happened.
    pub(super) fn is_new(&mut self, text: &str) -> bool {
        self.said.insert(text.to_owned())
    }

    /// Prints text above the moving line, which ends.
    pub(super) fn print(&mut self, text: &str) {
        self.clear();
        self.said.clear();
        write(text);
    }

    /// Ends the moving line.
    pub(super) fn clear(&mut self) {
        if self.shown.take().is_some() {
            write("\r\x1b[K");
        }
    }

    /// Shows what is being waited for.
    pub(super) fn wait(live: &Arc<Mutex<Self>>, text: &str, style: Style, width: usize) {
        let mut this = live.lock().unwrap_or_else(PoisonError::into_inner);
        if !this.terminal {
            if this.is_new(text) {
                write(&format!("{:<width$}  {text}\n", "waiting"));
            }
            return;
        }
        if let Some(shown) = &mut this.shown {
            text.clone_into(&mut shown.text);
            return;
        }
        let weak = Arc::downgrade(live);
        let painter = smol::spawn(async move {
            loop {
                smol::Timer::after(FRAME).await;
                let Some(live) = weak.upgrade() else { return };
                live.lock().unwrap_or_else(PoisonError::into_inner).paint(style, width);
            }
        });
        this.shown = Some(Shown { text: text.to_owned(), since: Instant::now(), frame: 0, _painter: painter });
        this.paint(style, width);
    }

    fn paint(&mut self, style: Style, width: usize) {
        let Some(shown) = &mut self.shown else { return };
        shown.frame = (shown.frame + 1) % FRAMES.len();
        let mark = FRAMES.get(shown.frame).copied().unwrap_or_default();
        let word = style.paint(Tone::Strong, &format!("{:<width$}", format!("{mark} waiting")));
        let time = style.paint(Tone::Faint, &format!("{} s", shown.since.elapsed().as_secs()));
        write(&format!("\r\x1b[K{word}  {}  {time}", shown.text));
    }
}

fn write(text: &str) {
    let mut stderr = io::stderr().lock();
    // Progress that nobody can read is no reason to stop.
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

const FRAME: Duration = Duration::from_millis(100);
const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
