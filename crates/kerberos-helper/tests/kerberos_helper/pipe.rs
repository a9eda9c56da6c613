//! The helper's end of the pipe, as whoever holds the other end meets it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use latchkey_factory_plus::Upn;
use latchkey_kerberos::KerberosCode;
use latchkey_kerberos::wire::{Answer, MAX_ANSWER, MAX_REQUEST, Request, read_frame, write_frame};
use latchkey_test_support::{finish, in_time, spawn};
use std::io::Write as _;
use std::process::{Child, Command, Stdio};

fn helper() -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_latchkey-kerberos-helper"));
    command.env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    spawn(command).unwrap()
}

#[test]
fn it_ends_with_its_input() {
    assert!(finish("the helper", helper()).status.success());
}

#[test]
fn what_is_no_frame_and_no_request_ends_it_with_a_line_that_repeats_nothing() {
    let too_long = u32::try_from(MAX_REQUEST + 1).unwrap().to_be_bytes();
    for bytes in [&too_long[..], &[0; 4], b"\0\0\0\x07\xffsecret", b"\0\0\0\x01"] {
        let mut child = helper();
        child.stdin.take().unwrap().write_all(bytes).unwrap();
        let said = finish("the helper", child);
        let text = String::from_utf8(said.stderr).unwrap();
        assert!(!said.status.success() && said.stdout.is_empty(), "{bytes:?}");
        assert!(text.starts_with("latchkey-kerberos-helper: ") && !text.contains("secret"), "{text}");
    }
}

#[test]
fn a_request_before_its_duty_is_refused() {
    let mut child = helper();
    let mut output = child.stdout.take().unwrap();
    let principal = "alice@R".parse::<Upn>().unwrap();
    write_frame(child.stdin.as_mut().unwrap(), &Request::Show { principal }.encode()).unwrap();
    let answer = in_time("an answer", move || read_frame(&mut output, MAX_ANSWER)).unwrap().unwrap();
    let Ok(Answer::Denied(denied)) = Answer::decode(&answer) else { panic!("it is not refused") };
    assert_eq!(denied.code(), KerberosCode::HelperFailed);
    assert!(finish("the helper", child).status.success());
}
