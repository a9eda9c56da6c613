//! What passes between services and their Kerberos helpers, and the files around it: requests and answers of the pipe, keytabs,
//! kadmind's list. What is read is spelt one way only; a principal is no two.
#![no_main]

use latchkey_kerberos::acl::Acl;
use latchkey_kerberos::keytab::Keytab;
use latchkey_kerberos::wire::{Answer, MAX_REQUEST, Request, read_frame};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    match kind {
        b'f' => {
            let mut pipe = bytes;
            while let Ok(Some(message)) = read_frame(&mut pipe, MAX_REQUEST) {
                request(&message);
            }
        }
        b'r' => request(bytes),
        b'a' => {
            if let Ok(answer) = Answer::decode(bytes) {
                let again = Answer::decode(&answer.encode());
                assert!(again.is_ok_and(|again| again == answer));
            }
        }
        b'k' => {
            if let Ok(keytab) = Keytab::parse(bytes) {
                assert!(Keytab::parse(&keytab.to_bytes()).is_ok_and(|again| again == keytab));
            }
        }
        _ => {
            if let Some(Ok(acl)) = std::str::from_utf8(bytes).ok().map(str::parse::<Acl>) {
                assert_eq!(acl.to_string().parse(), Ok(acl));
            }
        }
    }
});

fn request(message: &[u8]) {
    if let Ok(request) = Request::decode(message) {
        assert_eq!(request.encode()[..], *message);
    }
}
