//! Bounds of the socket transport, and the meaning of response codes. No TPM needed.

use latchkey_tpm::device::{AttestingTpm, CharDevice, ResponseCode, ResponseReason, Socket, Transport};
use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixStream;

/// What a socket makes of a peer that answers with `pieces` and closes.
fn answered(pieces: &[&[u8]]) -> Result<Vec<u8>, ErrorKind> {
    let (ours, mut theirs) = UnixStream::pair().expect("pair");
    for piece in pieces {
        theirs.write_all(piece).expect("written");
    }
    theirs.shutdown(std::net::Shutdown::Write).expect("shut down");
    let mut response = vec![0xff; 100];
    let result = Socket::new(ours).expect("socket").transmit(&[1, 2, 3], &mut response);
    result.map(|()| response).map_err(|error| error.kind())
}

#[test]
fn an_answer_ends_where_its_header_says() {
    let header = [0x80, 0x01, 0, 0, 0, 12, 0, 0, 0, 0];
    let whole = [&header[..], &[7, 8]].concat();
    assert_eq!(answered(&[&whole]), Ok(whole.clone()));
    assert_eq!(answered(&[&header[..3], &header[3..], &[7], &[8]]), Ok(whole.clone()), "in pieces");
    assert_eq!(answered(&[&whole, &[9, 9]]), Ok(whole), "what follows belongs to no answer");
}

#[test]
fn sizes_out_of_bounds_and_cut_answers_are_errors() {
    for size in [0u32, 9, 4097, u32::MAX] {
        let header = [&[0x80, 0x01][..], &size.to_be_bytes(), &[0; 4]].concat();
        assert_eq!(answered(&[&header]), Err(ErrorKind::InvalidData), "{size}");
    }
    assert_eq!(answered(&[&[0x80, 0x01, 0, 0]]), Err(ErrorKind::UnexpectedEof));
    assert_eq!(answered(&[&[0x80, 0x01, 0, 0, 0, 12, 0, 0, 0, 0, 1]]), Err(ErrorKind::UnexpectedEof));
}

#[test]
fn a_missing_device_is_an_error() {
    assert_eq!(CharDevice::open("/nonexistent/tpmrm0").map(drop).expect_err("missing").kind(), ErrorKind::NotFound);
}

#[test]
fn response_codes_say_what_they_mean() {
    let meanings = [
        (0x921, ResponseReason::Lockout, "TPM_RC 0x921"),
        (0x922, ResponseReason::Repeat, "repeat"),
        (0x908, ResponseReason::Repeat, "repeat"),
        (0x99d, ResponseReason::PolicyFail, "session 1"),
        (0x98e, ResponseReason::AuthFail, "session 1"),
        (0x9a2, ResponseReason::AuthFail, "session 1"),
        (0x18b, ResponseReason::Handle, "handle 1"),
        (0x2df, ResponseReason::Integrity, "parameter 2"),
        (0x1c4, ResponseReason::Value, "parameter 1"),
        (0x902, ResponseReason::Memory, "slot"),
        (0x910, ResponseReason::Handle, "no such object"),
        (0x918, ResponseReason::Handle, "session"),
        (0x100, ResponseReason::NotStarted, "firmware"),
        (0x101, ResponseReason::Failure, "failure mode"),
        (0x143, ResponseReason::CommandCode, "not implemented"),
        (0x14a, ResponseReason::NvUninitialized, "never written"),
        (0x149, ResponseReason::NvDenied, "NV index"),
        (0x920, ResponseReason::NvUnavailable, "busy"),
        (0x185, ResponseReason::Hierarchy, "hierarchy"),
        (0x2d2, ResponseReason::Algorithm, "parameter 2"),
        (0x000b_0143, ResponseReason::CommandCode, "not implemented"),
        (0xffff_ffff, ResponseReason::Other, "0xffffffff"),
    ];
    for (code, reason, part) in meanings {
        let code = ResponseCode(code);
        assert_eq!(code.reason(), reason, "{code}");
        assert!(code.to_string().contains(part), "{code}");
    }
}

#[test]
fn the_attester_may_move_to_another_thread() {
    fn may_move<T: Send + 'static>() {}
    may_move::<AttestingTpm>();
}
