//! Somebody between the node and its TPM, and a witness of what passes.

use latchkey_swtpm_rig::Swtpm;
use latchkey_tpm::device::{AttestingTpm, Session, Socket, Tpm, Transport};
use latchkey_tpm::wire::EkTemplate;
use std::io;
use tpm2_protocol::frame::{TpmCommand, TpmResponse};

pub(crate) const PCR_READ: u32 = 0x17e;
pub(crate) const PCR_EVENT: u32 = 0x13c;
pub(crate) const QUOTE: u32 = 0x158;
pub(crate) const ACTIVATE: u32 = 0x147;
pub(crate) const START_SESSION: u32 = 0x176;

/// Persistent P-384 endorsement key that `swtpm_setup` makes.
pub(crate) const EK_P384: u32 = 0x8101_0016;

pub(crate) fn code(command: &[u8]) -> u32 {
    u32::from_be_bytes(command[6..10].try_into().expect("header"))
}

/// Sits on the bus: `act` gets each command and the way to the TPM, and makes up the answer.
pub(crate) struct Interposer<F> {
    pub(crate) inner: Socket,
    pub(crate) act: F,
}

impl<F> Transport for Interposer<F>
where
    F: FnMut(&mut Socket, &[u8], &mut Vec<u8>) -> io::Result<()>,
{
    fn transmit(&mut self, command: &[u8], response: &mut Vec<u8>) -> io::Result<()> {
        (self.act)(&mut self.inner, command, response)
    }
}

/// The TPM as seen through an interposer.
pub(crate) fn through<F>(swtpm: &Swtpm, act: F) -> Tpm
where
    F: FnMut(&mut Socket, &[u8], &mut Vec<u8>) -> io::Result<()> + Send + 'static,
{
    Tpm::new(Interposer { inner: swtpm.socket().expect("connects"), act })
}

/// The TPM, with every command and answer checked by the `tpm2-protocol` crate.
pub(crate) fn witnessed(swtpm: &Swtpm) -> Tpm {
    through(swtpm, |tpm, command, response| {
        let theirs = TpmCommand::cast(command).expect("a second implementation reads the command's frame");
        theirs.validate().expect("a second implementation reads the command to its end");
        tpm.transmit(command, response)?;
        let answer = TpmResponse::cast(response).expect("a second implementation reads the answer's frame");
        if response[6..10] == [0; 4] {
            answer.validate(theirs.cc().expect("known command")).expect("a second implementation reads the answer");
        }
        Ok(())
    })
}

/// A session salted to the P-384 endorsement key.
pub(crate) fn session(tpm: &mut Tpm) -> Session {
    let ek = tpm.read_public(EK_P384, None).expect("endorsement key");
    tpm.start_session(&ek).expect("session")
}

pub(crate) fn attester(tpm: Tpm, template: EkTemplate) -> AttestingTpm {
    AttestingTpm::new(tpm, template).expect("attester")
}

/// The templates this TPM makes keys of: all, but for RSA 4096 with a libtpms that does not have it.
pub(crate) fn implemented(swtpm: &Swtpm) -> Vec<EkTemplate> {
    let keys = witnessed(swtpm).endorsement_keys().expect("made");
    let made: Vec<EkTemplate> = keys.iter().map(|key| key.template).collect();
    let without = EkTemplate::ALL.into_iter().filter(|template| *template != EkTemplate::Rsa4096H7);
    assert!(made == EkTemplate::ALL || made.iter().copied().eq(without), "{made:?}");
    made
}

/// `TPM2_PCR_Event` of the byte 0xaa under an empty password, as anybody on the bus may send it.
pub(crate) fn event(pcr: u8) -> Vec<u8> {
    let handle = [0, 0, 0, pcr];
    let password = [0, 0, 0, 9, 0x40, 0, 0, 9, 0, 0, 0, 0, 0];
    [&[0x80, 0x02, 0, 0, 0, 30, 0, 0, 0x01, 0x3c][..], &handle, &password, &[0, 1, 0xaa]].concat()
}

/// Nothing of ours is left in the TPM's three slots.
pub(crate) fn assert_empty(swtpm: &Swtpm) {
    let mut tpm = swtpm.connect().expect("connects");
    for kind in [0x8000_0000, 0x0200_0000, 0x0300_0000] {
        assert_eq!(tpm.handles(kind).expect("handles"), [], "kind {kind:#x}");
    }
}
