//! A live picture of machines on their way: a strip of phases for each, redrawn in place on a terminal, one line for each
//! step elsewhere.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::console::{Console, Line};

/// The phases of a boot and the console text that shows that each is done.
const PHASES: [(&str, &[&str]); 10] = [
    ("kernel", &["mounts: begin"]),
    ("tpm", &["] tpm: done"]),
    ("network", &["] network: done"]),
    ("disk", &["look-at-disk: done"]),
    ("key", &["lifecycle: {\"saw\":{\"offered\""]),
    ("LOCK", &["] lock: done"]),
    ("open", &["format-disk: done", "open-disk: done"]),
    ("os", &["] leave: done"]),
    ("member", &["cluster-step: done", "start-member: done"]),
    ("agent gone", &["OS stage2 0"]),
];

/// What one boot of one machine came to.
#[derive(Debug, Clone)]
pub struct Boot {
    /// The machine.
    pub machine: String,
    /// Which of its boots, e.g. `first boot`.
    pub title: String,
    /// Since its power went on, the time of each phase that was reached, in the order of a boot.
    pub phases: Vec<(&'static str, Duration)>,
    /// The reason why no key was given, if one was said.
    pub refused: Option<String>,
    /// Peak memory of the agent in stage 1, as it said itself.
    pub memory: Option<String>,
}

impl Boot {
    /// When the phase was reached, since power-on.
    pub fn at(&self, phase: &str) -> Option<Duration> {
        self.phases.iter().find(|(name, _)| *name == phase).map(|(_, at)| *at)
    }
}

/// The picture. Clones draw the same one.
#[derive(Debug, Clone)]
pub struct Board(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Some boot came further.
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    begun: Instant,
    boots: BTreeMap<usize, Boot>,
    headline: String,
    drawn: usize,
    live: bool,
    finished: bool,
}

impl Board {
    /// An empty picture, live if standard error is a terminal.
    pub fn new() -> Self {
        let live = std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let state = State {
            begun: Instant::now(),
            boots: BTreeMap::new(),
            headline: String::new(),
            drawn: 0,
            live,
            finished: false,
        };
        Self(Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() }))
    }

    /// Says what happens next.
    pub fn headline(&self, text: &str) {
        let mut state = self.lock();
        state.erase();
        let at = state.begun.elapsed();
        let (bold, plain) = if state.live { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
        eprintln!("{bold}[{:6.1} s] {text}{plain}", at.as_secs_f32());
        text.clone_into(&mut state.headline);
        state.draw();
    }

    /// Follows one boot of a machine on a thread of its own, until its console ends.
    pub fn watch(&self, machine: &str, title: &str, console: &Console) {
        let number = {
            let mut state = self.lock();
            let boot =
                Boot { machine: machine.into(), title: title.into(), phases: Vec::new(), refused: None, memory: None };
            let number = state.boots.len();
            state.boots.insert(number, boot);
            number
        };
        let (board, console) = (self.clone(), console.clone());
        std::thread::spawn(move || {
            let mut from = 0;
            loop {
                let lines = console.follow(from);
                if lines.is_empty() {
                    return;
                }
                from += lines.len();
                for line in &lines {
                    board.saw(number, line);
                }
            }
        });
    }

    /// All boots so far, in the order of their power-on.
    pub fn boots(&self) -> Vec<Boot> {
        self.lock().boots.values().cloned().collect()
    }

    /// Time since the picture was begun.
    pub fn elapsed(&self) -> Duration {
        self.lock().begun.elapsed()
    }

    /// Leaves the picture as it is and draws no more.
    pub fn finish(&self) {
        let mut state = self.lock();
        state.erase();
        state.draw();
        state.finished = true;
    }

    /// Waits until the picture shows what was waited for on a console; false at the deadline.
    pub fn shows(&self, within: Duration, what: impl Fn(&Boot) -> bool) -> bool {
        let pending = |state: &mut State| !state.boots.values().any(&what);
        let waited = self.0.changed.wait_timeout_while(self.lock(), within, pending);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    fn saw(&self, number: usize, line: &Line) {
        let mut state = self.lock();
        if state.finished {
            return;
        }
        let Some(boot) = state.boots.get_mut(&number) else { return };
        let before = (boot.phases.len(), boot.refused.clone());
        if let Some((_, why)) = line.text.split_once("no ticket yet: ") {
            let code = why.split(':').next().unwrap_or(why);
            if code != "join-service-unreachable" {
                boot.refused = Some(code.to_owned());
            }
        }
        if let Some((_, peak)) = line.text.split_once("leave: peak memory ") {
            boot.memory = Some(peak.to_owned());
        }
        let done = |(_, texts): &&(&str, &[&str])| texts.iter().any(|text| line.text.contains(text));
        if let Some((phase, _)) = PHASES.iter().find(done)
            && boot.at(phase).is_none()
        {
            boot.phases.push((phase, line.at));
        }
        let (count, refused) = (boot.phases.len(), boot.refused.clone());
        if (count, &refused) == (before.0, &before.1) {
            return;
        }
        self.0.changed.notify_all();
        if state.live {
            state.erase();
            state.draw();
        } else if let Some(boot) = state.boots.get(&number) {
            let what = match (count > before.0, boot.phases.last(), &boot.refused) {
                (true, Some((phase, _)), _) => (*phase).to_owned(),
                (_, _, Some(why)) => format!("refused: {why}"),
                _ => return,
            };
            eprintln!("             {} ({}) at {:5.1} s: {what}", boot.machine, boot.title, line.at.as_secs_f32());
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Board {
    fn default() -> Self {
        Self::new()
    }
}

impl State {
    /// Takes the picture back, so that something can be printed above it.
    fn erase(&mut self) {
        if self.live && self.drawn > 0 {
            eprint!("\x1b[{}A\x1b[J", self.drawn);
        }
        self.drawn = 0;
    }

    fn draw(&mut self) {
        if !self.live {
            return;
        }
        let rows: Vec<String> = self.boots.values().map(row).collect();
        self.drawn = rows.len();
        let mut out = std::io::stderr().lock();
        for row in rows {
            // A terminal that is gone is no reason to stop.
            let _ = writeln!(out, "{row}");
        }
    }
}

/// `node-2    rejoin      kernel ▸ tpm ▸ …`, what is done in green, what comes next in bold, the rest dim.
fn row(boot: &Boot) -> String {
    let done = |phase: &str| boot.at(phase).is_some();
    let next = PHASES.iter().map(|(phase, _)| *phase).find(|phase| !done(phase));
    let strip: Vec<String> = PHASES
        .iter()
        .map(|(phase, _)| match (done(phase), Some(*phase) == next, &boot.refused) {
            (true, _, _) => format!("\x1b[32m{phase}\x1b[0m"),
            (false, true, Some(_)) => format!("\x1b[31m{phase} ✗\x1b[0m"),
            (false, true, None) => format!("\x1b[1m{phase}…\x1b[0m"),
            (false, false, _) => format!("\x1b[2m{phase}\x1b[0m"),
        })
        .collect();
    let refused = boot.refused.as_ref().filter(|_| !done("key")).map(|why| format!("  \x1b[31m{why}\x1b[0m"));
    format!("  {:9} {:11} {}{}", boot.machine, boot.title, strip.join(" ▸ "), refused.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board() -> (Board, impl Fn(&str)) {
        let board = Board::new();
        board.lock().boots.insert(
            0,
            Boot { machine: "node".into(), title: "boot".into(), phases: vec![], refused: None, memory: None },
        );
        let follower = board.clone();
        let say = move |text: &str| follower.saw(0, &Line { at: Duration::from_secs(1), text: text.into() });
        (board, say)
    }

    #[test]
    fn phases_come_once_and_a_refusal_is_kept() {
        let (board, say) = board();
        say("latchkey[    2.449] mounts: begin");
        say("latchkey[    2.459] mounts: begin");
        say("latchkey[    9.108] tpm: done in 0.182 s");
        say("latchkey[    9.500] join: no ticket yet: join-service-unreachable: connection refused");
        say("latchkey[    9.600] join: no ticket yet: measurements-refused: the peer refused us");
        let boot = &board.boots()[0];
        assert_eq!(boot.phases.iter().map(|(phase, _)| *phase).collect::<Vec<_>>(), ["kernel", "tpm"]);
        assert_eq!(boot.refused.as_deref(), Some("measurements-refused"));
        assert!(row(boot).contains("measurements-refused"));
    }
}
