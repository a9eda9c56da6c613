//! A TPM, or somebody on its bus, that answers what it likes. The input is a list of answers, each behind two bytes of
//! length; a length with its highest bit set lets the header be made right, so that the parser behind it is reached.
#![no_main]

use std::io;

use latchkey_tpm::device::{AttestingTpm, Tpm, Transport};
use latchkey_tpm::wire::{EkTemplate, PcrSelection};
use libfuzzer_sys::fuzz_target;

struct Liar {
    answers: Vec<u8>,
    at: usize,
}

impl Transport for Liar {
    fn transmit(&mut self, command: &[u8], response: &mut Vec<u8>) -> io::Result<()> {
        response.clear();
        let length = self.answers.get(self.at..self.at + 2).ok_or(io::ErrorKind::UnexpectedEof)?;
        let length = u16::from_be_bytes([length[0], length[1]]);
        self.at += 2;
        let end = (self.at + usize::from(length & 0x0fff)).min(self.answers.len());
        let body = &self.answers[self.at..end];
        self.at = end;
        if length & 0x8000 != 0 {
            response.extend(&command[..2]);
            response.extend(u32::try_from(10 + body.len()).map_err(io::Error::other)?.to_be_bytes());
            response.extend([0; 4]);
        }
        response.extend(body);
        Ok(())
    }
}

fuzz_target!(|answers: &[u8]| {
    let Some((choice, answers)) = answers.split_first() else { return };
    let preference = match choice % 4 {
        0 => EkTemplate::P384H3,
        1 => EkTemplate::RsaL1,
        2 => EkTemplate::P256L2,
        _ => EkTemplate::P384H3,
    };
    let tpm = Tpm::new(Liar { answers: answers.to_vec(), at: 0 });
    let Ok(mut attester) = AttestingTpm::new(tpm, preference) else { return };
    drop(attester.read_pcr(15));
    if let Ok(selection) = PcrSelection::new([4, 15]) {
        assert!(attester.quote(&selection, &[0; 32]).is_err(), "a quote without the session's key");
    }
});
