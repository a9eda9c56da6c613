//! What a program says while it works: lines for humans, bounded, without tokens and control characters.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use smol::io::{AsyncRead, AsyncReadExt as _};
use zeroize::Zeroizing;

use super::Progress;

/// The longest line that is shown; the rest of it is dropped.
const MAX_LINE: usize = 2048;
/// How much of the last lines is kept for the report (`Failed.log_tail`: "at most 64 KiB").
const TAIL: usize = 64 * 1024;
/// How many lines are shown at once, and how many more each second: the console may be a serial line, and whoever follows
/// reads with human eyes.
const BURST: u64 = 200;
const PER_SECOND: u64 = 20;

/// Collects the lines of both output streams.
pub(super) struct Lines<'a>(Mutex<State<'a>>);

struct State<'a> {
    progress: Progress<'a>,
    hidden: &'a [&'a str],
    tail: VecDeque<String>,
    tail_bytes: usize,
    began: Instant,
    shown: u64,
    withheld: u64,
}

impl<'a> Lines<'a> {
    /// `hidden` are secrets that must not appear, whatever the program prints.
    pub(super) fn new(progress: Progress<'a>, hidden: &'a [&'a str]) -> Self {
        let (began, tail) = (Instant::now(), VecDeque::new());
        Self(Mutex::new(State { progress, hidden, tail, tail_bytes: 0, began, shown: 0, withheld: 0 }))
    }

    /// Reads `stream` to its end.
    pub(super) async fn follow(&self, mut stream: impl AsyncRead + Unpin) -> std::io::Result<()> {
        let mut buffer = Zeroizing::new([0; 4096]);
        let mut line = Line::default();
        loop {
            let read = stream.read(&mut buffer[..]).await?;
            let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else {
                self.tell(line.take());
                return Ok(());
            };
            for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
                line.push(piece);
                if piece.ends_with(b"\n") {
                    self.tell(line.take());
                }
            }
            // A program that never pauses must not keep the executor from the clock.
            smol::future::yield_now().await;
        }
    }

    /// The last line that calls itself an error, else the last line.
    pub(super) fn cause(&self) -> String {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_error = |line: &&String| {
            let start = line.trim_start_matches(['[', ' ']).get(..5);
            start.is_some_and(|start| start.eq_ignore_ascii_case("error"))
        };
        let cause = state.tail.iter().rev().find(is_error).or(state.tail.back());
        cause.cloned().unwrap_or_else(|| "it printed nothing".into())
    }

    /// The last lines.
    pub(super) fn tail(&self) -> String {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.tail.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }

    fn tell(&self, line: Option<String>) {
        let Some(line) = line else { return };
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let line = without_secrets(&line, state.hidden).replace(char::is_control, " ");
        state.keep(line.clone());
        state.show(&line);
    }
}

impl State<'_> {
    fn keep(&mut self, line: String) {
        self.tail_bytes += line.len() + 1;
        self.tail.push_back(line);
        while self.tail_bytes > TAIL {
            self.tail_bytes -= self.tail.pop_front().map_or(self.tail_bytes, |line| line.len() + 1);
        }
    }

    fn show(&mut self, line: &str) {
        if self.shown >= BURST + self.began.elapsed().as_secs().saturating_mul(PER_SECOND) {
            self.withheld += 1;
            return;
        }
        if self.withheld > 0 {
            (self.progress)(&format!("… {} lines not shown", self.withheld));
            self.withheld = 0;
        }
        self.shown += 1;
        (self.progress)(line);
    }
}

/// A line as it grows.
#[derive(Default)]
struct Line {
    bytes: Zeroizing<Vec<u8>>,
    cut: bool,
}

impl Line {
    fn push(&mut self, piece: &[u8]) {
        let room = MAX_LINE - self.bytes.len();
        self.cut |= piece.len() > room;
        self.bytes.extend_from_slice(piece.get(..room).unwrap_or(piece));
    }

    /// The finished line, unless it is empty.
    fn take(&mut self) -> Option<String> {
        let Self { bytes, cut } = std::mem::take(self);
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_end();
        match text.rsplit_once(char::is_whitespace) {
            _ if text.is_empty() => None,
            _ if !cut => Some(text.into()),
            // The last word is cut too, and half a token would not be known as one.
            Some((whole, _)) => Some(format!("{whole} …")),
            None => Some(format!("(a word of more than {MAX_LINE} bytes)")),
        }
    }
}

/// Blots out `hidden`, and whatever looks like a bootstrap token: kubeadm prints those it makes in join commands.
///
/// Form: `[a-z0-9]{6}.[a-z0-9]{16}` (Kubernetes, "Authenticating with Bootstrap Tokens"). What stands before the first six
/// characters may belong to an escape sequence, so it does not save a token from being one.
pub(super) fn without_secrets(line: &str, hidden: &[&str]) -> String {
    const BLOT: &str = "<token>";
    let mut line = line.to_owned();
    for secret in hidden.iter().filter(|secret| !secret.is_empty()) {
        line = line.replace(secret, BLOT);
    }
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let mut shown = String::with_capacity(line.len());
    let mut rest = line.as_str();
    while let Some((before, after)) = rest.split_once('.') {
        let end = after.find(|c| !is_part(c)).unwrap_or(after.len());
        let id = before.len().checked_sub(6).and_then(|at| before.split_at_checked(at));
        match (id, after.split_at_checked(end)) {
            (Some((start, id)), Some((_, behind))) if end == 16 && id.chars().all(is_part) => {
                shown.push_str(start);
                shown.push_str(BLOT);
                rest = behind;
            }
            _ => {
                shown.push_str(before);
                shown.push('.');
                rest = after;
            }
        }
    }
    shown.push_str(rest);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn followed(text: &[u8], hidden: &[&str]) -> (Vec<String>, String) {
        let mut shown = Vec::new();
        let mut progress = |line: &str| shown.push(line.to_owned());
        let lines = Lines::new(&mut progress, hidden);
        latchkey_test_support::block_on(lines.follow(text)).unwrap();
        let tail = lines.tail();
        drop(lines);
        (shown, tail)
    }

    #[test]
    fn only_tokens_are_blotted_out() {
        let shown = |line: &str| without_secrets(line, &[]);
        assert_eq!(shown("--token=abcdef.0123456789abcdef x.y 1.2.3"), "--token=<token> x.y 1.2.3");
        assert_eq!(shown("grüße, v1.34.4, ü.0123456789abcdef"), "grüße, v1.34.4, ü.0123456789abcdef");
        assert_eq!(shown("abcdef.0123456789abcdef"), "<token>");
        assert_eq!(
            shown("abcdef.0123456789abcdef0 abcde.0123456789abcdef"),
            "abcdef.0123456789abcdef0 abcde.0123456789abcdef"
        );
    }

    #[test]
    fn a_token_at_the_end_of_a_sentence_in_quotes_or_behind_an_escape_is_a_token() {
        let shown = |line: &str| without_secrets(line, &[]);
        assert_eq!(shown("bad token abcdef.0123456789abcdef."), "bad token <token>.");
        assert_eq!(shown(r#""a\nabcdef.0123456789abcdef\n""#), r#""a\n<token>\n""#);
        assert_eq!(shown("x.abcdef.0123456789abcdef.abcdef.0123456789abcdef"), "x.<token>.<token>");
    }

    #[test]
    fn what_is_named_as_hidden_never_shows() {
        assert_eq!(without_secrets("key=XhunterX2x", &["hunter", ""]), "key=X<token>X2x");
    }

    #[test]
    fn a_token_cannot_hide_in_the_cut_of_a_long_line() {
        for padding in MAX_LINE - 40..MAX_LINE + 10 {
            let text = format!("{} abcdef.0123456789abcdef {}\n", "x".repeat(padding), "y".repeat(100));
            let (shown, tail) = followed(text.as_bytes(), &[]);
            assert_eq!(shown.len(), 1);
            assert!(!tail.contains("abcdef"), "{padding}: {tail}");
        }
    }

    #[test]
    fn an_endless_line_is_one_short_line() {
        let (shown, _) = followed(&vec![b'x'; 1_000_000], &[]);
        assert_eq!(shown, ["(a word of more than 2048 bytes)"]);
    }

    #[test]
    fn a_flood_of_lines_is_shown_in_part_and_its_end_is_kept() {
        let flood = (0..50_000).map(|n| format!("line {n}")).collect::<Vec<_>>().join("\n");
        let (shown, tail) = followed(flood.as_bytes(), &[]);
        assert!((200..2000).contains(&shown.len()), "{}", shown.len());
        assert!(tail.len() <= TAIL && tail.ends_with("line 49999"), "{}", tail.len());
    }

    #[test]
    fn control_characters_do_not_reach_a_terminal() {
        let (shown, tail) = followed(b"a\x1b[2Jb\rc\n\n  \n", &[]);
        assert_eq!(shown, ["a [2Jb c"]);
        assert_eq!(tail, "a [2Jb c");
    }

    #[test]
    fn the_cause_is_the_line_that_calls_itself_an_error() {
        let mut progress = |_: &str| {};
        let lines = Lines::new(&mut progress, &[]);
        let text = b"[init] x\nerror: no disk\nTo see the stack trace use --v=5\n";
        latchkey_test_support::block_on(lines.follow(&text[..])).unwrap();
        assert_eq!(lines.cause(), "error: no disk");
    }
}
