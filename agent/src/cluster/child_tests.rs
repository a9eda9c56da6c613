use super::*;

const PATIENCE: Duration = Duration::from_mins(1);

struct Seen {
    result: Result<SecretVec, StepError>,
    lines: Vec<String>,
}

fn run_program(program: &str, arguments: &[&str], stdin: &[u8], limit: Duration) -> Seen {
    let mut lines = Vec::new();
    let mut progress = |line: &str| lines.push(line.to_owned());
    let call = Call { program, arguments, stdin, stdout: Stdout::Result, limit, hidden: &[] };
    let result = latchkey_test_support::block_on(run(call, &mut progress));
    Seen { result, lines }
}

fn run_shell(script: &str, stdin: &[u8], limit: Duration) -> Seen {
    run_program("/bin/sh", &["-c", script], stdin, limit)
}

/// Returns once the process has ended; fails if it does not.
fn assert_ends(pid: &str) {
    let pid = Pid::from_raw(pid.parse().unwrap()).unwrap();
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    let ended = async { Async::new(handle).unwrap().readable().await };
    smol::block_on(latchkey_test_support::within(format_args!("the end of {pid:?}"), ended)).unwrap();
}

#[test]
fn stdin_comes_in_stdout_is_the_result_and_stderr_is_progress() {
    let seen = run_shell("echo working >&2; cat", b"secret input", PATIENCE);
    assert_eq!(seen.result.unwrap().expose(), b"secret input");
    assert_eq!(seen.lines, ["working"]);
}

#[test]
fn output_as_progress_is_no_result_and_hides_the_token_too() {
    let mut lines = Vec::new();
    let mut progress = |line: &str| lines.push(line.to_owned());
    let arguments = ["-c", "echo kubeadm join --token abcdef.0123456789abcdef; echo hunter2 >&2"];
    let stdout = Stdout::Progress;
    let call =
        Call { program: "/bin/sh", arguments: &arguments, stdin: b"", stdout, limit: PATIENCE, hidden: &["hunter2"] };
    assert!(latchkey_test_support::block_on(run(call, &mut progress)).unwrap().is_empty());
    lines.sort();
    assert_eq!(lines, ["<token>", "kubeadm join --token <token>"]);
}

#[test]
fn a_failure_carries_the_last_lines_without_the_token() {
    let error = run_shell("echo try abcdef.0123456789abcdef now >&2; exit 3", b"", PATIENCE).result.unwrap_err();
    assert_eq!(error.code, StepCode::Failed);
    assert!(error.message.contains("exit status: 3"), "{error}");
    assert_eq!(error.log_tail, "try <token> now");
}

#[test]
fn a_program_that_hangs_is_ended_at_its_limit() {
    let error = run_shell("exec sleep 600", b"", Duration::from_millis(50)).result.unwrap_err();
    assert_eq!(error.code, StepCode::Timeout);
}

#[test]
fn a_dropped_step_ends_all_that_it_started_even_what_left_its_session() {
    let script = "setsid sh -c 'echo $$ >&2; setsid sleep 600 & echo $! >&2; wait' & sleep 600 & echo $! $$ >&2; wait";
    let (told, heard) = smol::channel::unbounded();
    let mut progress = |line: &str| line.split(' ').for_each(|pid| told.try_send(pid.to_owned()).unwrap());
    let arguments = ["-c", script];
    let (program, stdout) = ("/bin/sh", Stdout::Result);
    let call = Call { program, arguments: &arguments, stdin: b"", stdout, limit: PATIENCE, hidden: &[] };
    let pids = async {
        let mut pids = Vec::new();
        while pids.len() < 4 {
            pids.push(heard.recv().await.unwrap());
        }
        Some(pids)
    };
    let step = async {
        let _ = run(call, &mut progress).await;
        None
    };
    let pids = latchkey_test_support::block_on(step.or(pids)).expect("the step waits for its children");
    for pid in pids {
        assert_ends(&pid);
    }
}

#[test]
fn what_a_program_leaves_behind_neither_holds_the_step_up_nor_outlives_it() {
    let seen = run_shell("sleep 600 & echo $! >&2; setsid sleep 600 & echo $! >&2; echo done", b"", PATIENCE);
    assert_eq!(seen.result.unwrap().expose(), b"done\n");
    assert_eq!(seen.lines.len(), 2);
    for pid in &seen.lines {
        assert_ends(pid);
    }
}

#[test]
fn a_flood_of_errors_does_not_keep_the_step_from_its_limit() {
    let seen = run_shell("exec yes flood >&2", b"", Duration::from_millis(300));
    let error = seen.result.unwrap_err();
    assert_eq!(error.code, StepCode::Timeout);
    assert!(seen.lines.len() < 1000, "{}", seen.lines.len());
    assert!(error.log_tail.len() <= 64 * 1024);
}

#[test]
fn a_program_that_does_not_read_its_input_is_judged_by_its_exit() {
    let input = vec![0; 1024 * 1024];
    assert!(run_shell("exit 0", &input, PATIENCE).result.is_ok());
    assert_eq!(run_shell("exit 1", &input, PATIENCE).result.unwrap_err().code, StepCode::Failed);
    let hangs = run_shell("exec sleep 600", &input, Duration::from_millis(50));
    assert_eq!(hangs.result.unwrap_err().code, StepCode::Timeout);
}

#[test]
fn a_program_that_closes_its_output_has_not_ended() {
    let error = run_shell("exec >&- 2>&-; sleep 0.2; exit 7", b"", PATIENCE).result.unwrap_err();
    assert!(error.message.contains("exit status: 7"), "{error}");
}

#[test]
fn a_result_without_end_is_refused_and_not_kept() {
    let error = run_shell("exec yes", b"", PATIENCE).result.unwrap_err();
    assert_eq!(error.code, StepCode::Output);
    assert!(error.log_tail.is_empty());
}

#[test]
fn a_killed_program_has_failed() {
    let error = run_shell("kill -9 $$", b"", PATIENCE).result.unwrap_err();
    assert_eq!(error.code, StepCode::Failed);
    assert!(error.message.contains("signal: 9"), "{error}");
}

#[test]
fn a_missing_program_says_so() {
    let error = run_program("/no/such/program", &[], b"", PATIENCE).result.unwrap_err();
    assert_eq!(error.code, StepCode::NotStarted);
}

#[test]
fn a_program_inherits_nothing() {
    let environment = run_program("/usr/bin/env", &[], b"", PATIENCE).result.unwrap();
    let mut names = std::str::from_utf8(environment.expose())
        .unwrap()
        .lines()
        .map(|line| line.split('=').next().unwrap())
        .collect::<Vec<_>>();
    names.sort_unstable();
    assert_eq!(names, ["HOME", "LATCHKEY_STEP", "PATH"]);

    let before = umask(Mode::empty());
    let found = run_shell("umask; pwd", b"", PATIENCE).result.unwrap();
    umask(before);
    assert_eq!(found.expose(), b"0022\n/\n");
}
