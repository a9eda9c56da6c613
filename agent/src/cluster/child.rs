//! Runs one program of the image: input on stdin, progress from stderr, result from stdout, all of it bounded.

use std::collections::VecDeque;
use std::time::Duration;

use latchkey_keys::SecretVec;
use smol::future::FutureExt as _;
use smol::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use smol::process::{Command, Stdio};

use super::{Progress, StepError};

/// The largest result a program may print.
const MAX_STDOUT: u64 = 1024 * 1024;
/// The longest line that is shown; the rest of it is dropped.
const MAX_LINE: usize = 2048;
/// How much of the last lines is kept for the report (`Failed.log_tail`).
const TAIL: usize = 64 * 1024;

/// Runs `program` to its end.
///
/// `stdin` reaches the program and nobody else. The environment is empty but for `PATH` and `HOME`.
pub(super) async fn run(
    program: &str,
    arguments: &[&str],
    stdin: &[u8],
    limit: Duration,
    progress: Progress<'_>,
) -> Result<SecretVec, StepError> {
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", "/root")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|e| {
            StepError::new("step-not-started", format!("{program} cannot be started: {e}; put it into the image"))
        })?;
    let (Some(mut input), Some(output), Some(errors)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(StepError::new("step-not-started", format!("{program} has no pipes")));
    };

    let mut tail = Tail::default();
    let feed = async move {
        // A program that does not read its input may close it; its exit status tells whether it minded.
        let _ = input.write_all(stdin).await;
    };
    let work = async {
        let (((), result), lines) =
            smol::future::zip(smol::future::zip(feed, read_result(output)), follow(errors, &mut tail, progress)).await;
        lines.map_err(|e| StepError::new("step-output", format!("{program}: {e}")))?;
        let result = result.map_err(|e| StepError::new("step-output", format!("{program}: {e}")))?;
        let status = child.status().await.map_err(|e| StepError::new("step-failed", format!("{program}: {e}")))?;
        Ok((status, result))
    };
    let timeout = async {
        smol::Timer::after(limit).await;
        let seconds = limit.as_secs();
        Err(StepError::new("step-timeout", format!("{program} did not end within {seconds} s")))
    };
    match work.or(timeout).await {
        Ok((status, result)) if status.success() => Ok(result),
        Ok((status, _)) => {
            let last = tail.lines.back().cloned().unwrap_or_else(|| "it printed nothing".into());
            Err(StepError {
                code: "step-failed",
                message: format!("{program} {} ended with {status}: {last}", arguments.first().unwrap_or(&"")),
                log_tail: tail.text(),
            })
        }
        Err(error) => Err(StepError { log_tail: tail.text(), ..error }),
    }
}

async fn read_result(output: impl AsyncRead + Unpin) -> std::io::Result<SecretVec> {
    let mut bytes = zeroize::Zeroizing::new(Vec::new());
    output.take(MAX_STDOUT + 1).read_to_end(&mut bytes).await?;
    if bytes.len() as u64 > MAX_STDOUT {
        return Err(std::io::Error::other(format!("its result is longer than {MAX_STDOUT} bytes")));
    }
    Ok(SecretVec::from_slice(&bytes))
}

async fn follow(errors: impl AsyncRead + Unpin, tail: &mut Tail, progress: Progress<'_>) -> std::io::Result<()> {
    let mut reader = BufReader::new(errors);
    loop {
        let mut line = Vec::new();
        let read = (&mut reader).take(MAX_LINE as u64).read_until(b'\n', &mut line).await?;
        if read == 0 {
            return Ok(());
        }
        let line = without_tokens(String::from_utf8_lossy(&line).trim_end());
        if !line.is_empty() {
            progress(&line);
            tail.push(line);
        }
    }
}

#[derive(Default)]
struct Tail {
    lines: VecDeque<String>,
    bytes: usize,
}

impl Tail {
    fn push(&mut self, line: String) {
        self.bytes += line.len() + 1;
        self.lines.push_back(line);
        while self.bytes > TAIL {
            self.bytes -= self.lines.pop_front().map_or(self.bytes, |line| line.len() + 1);
        }
    }

    fn text(&self) -> String {
        self.lines.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

/// Blots out bootstrap tokens: kubeadm prints them in join commands and errors.
///
/// Form: `[a-z0-9]{6}.[a-z0-9]{16}` (Kubernetes, "Authenticating with Bootstrap Tokens").
pub(super) fn without_tokens(line: &str) -> String {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let mut shown = String::with_capacity(line.len());
    for word in line.split_inclusive(|c: char| !is_part(c) && c != '.') {
        let (text, end) = match word.char_indices().last() {
            Some((last, c)) if !is_part(c) && c != '.' => word.split_at(last),
            _ => (word, ""),
        };
        let token = text.split_once('.').is_some_and(|(id, secret)| {
            id.len() == 6 && secret.len() == 16 && (id.to_owned() + secret).chars().all(is_part)
        });
        shown.push_str(if token { "<token>" } else { text });
        shown.push_str(end);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_shell(script: &str, stdin: &[u8], limit: Duration) -> (Result<SecretVec, StepError>, Vec<String>) {
        let mut lines = Vec::new();
        let mut progress = |line: &str| lines.push(line.to_owned());
        let result = smol::block_on(run("/bin/sh", &["-c", script], stdin, limit, &mut progress));
        (result, lines)
    }

    #[test]
    fn stdin_comes_in_stdout_is_the_result_and_stderr_is_progress() {
        let (result, lines) = run_shell("echo working >&2; cat", b"secret input", Duration::from_secs(20));
        assert_eq!(result.unwrap().expose(), b"secret input");
        assert_eq!(lines, ["working"]);
    }

    #[test]
    fn a_failure_carries_the_last_lines_without_the_token() {
        let (result, _) = run_shell("echo try abcdef.0123456789abcdef now >&2; exit 3", b"", Duration::from_secs(20));
        let error = result.unwrap_err();
        assert_eq!(error.code, "step-failed");
        assert!(error.message.contains("exit status: 3"), "{error}");
        assert_eq!(error.log_tail, "try <token> now");
    }

    #[test]
    fn a_program_that_hangs_is_ended_at_its_limit() {
        let (result, _) = run_shell("exec sleep 600", b"", Duration::from_millis(50));
        assert_eq!(result.unwrap_err().code, "step-timeout");
    }

    #[test]
    fn a_result_without_end_is_refused_and_not_kept() {
        let (result, _) = run_shell("exec yes", b"", Duration::from_secs(20));
        assert_eq!(result.unwrap_err().code, "step-output");
    }

    #[test]
    fn a_missing_program_says_so() {
        let mut progress = |_: &str| {};
        let run = run("/no/such/program", &[], b"", Duration::from_secs(1), &mut progress);
        assert_eq!(smol::block_on(run).unwrap_err().code, "step-not-started");
    }

    #[test]
    fn only_tokens_are_blotted_out() {
        assert_eq!(without_tokens("--token=abcdef.0123456789abcdef x.y 1.2.3"), "--token=<token> x.y 1.2.3");
        assert_eq!(without_tokens("grüße, v1.34.4"), "grüße, v1.34.4");
        assert_eq!(without_tokens("abcdef.0123456789abcdef"), "<token>");
    }
}
