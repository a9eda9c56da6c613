//! Bounds of the socket transport, and the meaning of response codes. No TPM needed.

use latchkey_tpm::device::{AttestingTpm, CharDevice, Reason, ResponseCode, Socket, Transport};
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
        (0x921, Reason::Lockout, "TPM_RC 0x921"),
        (0x922, Reason::Repeat, "repeat"),
        (0x908, Reason::Repeat, "repeat"),
        (0x99d, Reason::PolicyFail, "session 1"),
        (0x98e, Reason::AuthFail, "session 1"),
        (0x9a2, Reason::AuthFail, "session 1"),
        (0x18b, Reason::Handle, "handle 1"),
        (0x2df, Reason::Integrity, "parameter 2"),
        (0x1c4, Reason::Value, "parameter 1"),
        (0x902, Reason::Memory, "slot"),
        (0x910, Reason::Handle, "no such object"),
        (0x918, Reason::Handle, "session"),
        (0x100, Reason::NotStarted, "firmware"),
        (0x101, Reason::Failure, "failure mode"),
        (0x143, Reason::CommandCode, "not implemented"),
        (0x14a, Reason::NvUninitialized, "never written"),
        (0x149, Reason::NvDenied, "NV index"),
        (0x920, Reason::NvUnavailable, "busy"),
        (0x185, Reason::Hierarchy, "hierarchy"),
        (0x2d2, Reason::Algorithm, "parameter 2"),
        (0x000b_0143, Reason::CommandCode, "not implemented"),
        (0xffff_ffff, Reason::Other, "0xffffffff"),
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
