//! Somebody on the bus changes commands and answers.

use crate::swtpm::support::{PCR_EVENT, PCR_READ, QUOTE, assert_empty, code, event, session, through};
use latchkey_swtpm_rig::Swtpm;
use latchkey_tpm::device::{AttestingTpm, Hierarchy, ResponseReason, Session, Socket, Tpm, TpmError, Transport};
use latchkey_tpm::wire::{EkTemplate, PcrSelection, attestation_key, extended};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

/// Flips one bit in every byte of the answer to `target`, one byte per run of `ask`, until all were flipped. Each flip
/// must make `ask` fail. The last `loose` bytes are left alone: no HMAC covers them, and nothing is read out of them.
pub(crate) fn every_byte_of_the_answer(
    target: u32,
    loose: usize,
    mut ask: impl FnMut(&mut Tpm, &mut Session) -> Result<(), TpmError>,
) {
    let Some(swtpm) = Swtpm::start() else { return };
    let byte = Arc::new(AtomicUsize::new(usize::MAX));
    let len = Arc::new(AtomicUsize::new(0));
    let (at, seen) = (byte.clone(), len.clone());
    let mut tpm = through(&swtpm, move |tpm, command, response| {
        tpm.transmit(command, response)?;
        // swtpm answers the first signing command with a warning to repeat it: that is not the answer meant.
        if code(command) == target && response[6..10] == [0; 4] {
            seen.store(response.len(), Ordering::Relaxed);
            let at = at.load(Ordering::Relaxed);
            if let Some(byte) = response.get_mut(at) {
                *byte ^= 1 << (at % 8);
            }
        }
        Ok(())
    });
    let mut run = |tpm: &mut _| {
        let mut session = session(tpm);
        let result = ask(tpm, &mut session);
        tpm.end_session(&session).expect("ended");
        result
    };
    run(&mut tpm).expect("untouched, it works");
    let len = len.load(Ordering::Relaxed) - loose;
    assert!(len > 60, "the answer passed by");
    for at in 0..len {
        byte.store(at, Ordering::Relaxed);
        assert!(run(&mut tpm).is_err(), "byte {at} of {len} was changed and nobody noticed");
    }
    byte.store(usize::MAX, Ordering::Relaxed);
    run(&mut tpm).expect("untouched again, it works again");
    drop(tpm);
    assert_empty(&swtpm);
}

#[test]
fn a_changed_register_value_is_noticed() {
    let selection = PcrSelection::new([4, 15]).expect("selection");
    every_byte_of_the_answer(PCR_READ, 0, |tpm, session| tpm.pcr_read(selection, session).map(drop));
}

#[test]
fn a_changed_answer_to_an_extension_is_noticed() {
    every_byte_of_the_answer(PCR_EVENT, 0, |tpm, session| tpm.pcr_event(16, b"event", session));
}

#[test]
fn a_changed_quote_is_noticed() {
    let selection = PcrSelection::new([15]).expect("selection");
    every_byte_of_the_answer(QUOTE, 0, |tpm, session| {
        let ak = tpm.create_primary(Hierarchy::Endorsement, &attestation_key(), None).expect("created");
        let quote = tpm.quote(&ak, selection, &[1; 32], session);
        tpm.flush(ak.handle()).expect("flushed");
        quote.map(drop)
    });
}

#[test]
fn an_extension_that_never_reached_the_tpm_is_not_believed() {
    let Some(swtpm) = Swtpm::start() else { return };
    // Answers the second event with the genuine answer to the first.
    let mut recorded: Option<Vec<u8>> = None;
    let tpm = through(&swtpm, move |tpm, command, response| match (&recorded, code(command)) {
        (Some(answer), PCR_EVENT) => {
            response.clone_from(answer);
            Ok(())
        }
        (None, PCR_EVENT) => {
            tpm.transmit(command, response)?;
            recorded = Some(response.clone());
            Ok(())
        }
        _ => tpm.transmit(command, response),
    });
    let mut attester = AttestingTpm::new(tpm, EkTemplate::P384H3).expect("attester");
    attester.extend_event(15, b"lock").expect("the first passes");
    let refused = attester.extend_event(15, b"lock").expect_err("a replayed answer");
    assert!(matches!(refused, TpmError::Tampered { command: "TPM2_PCR_Event" }), "{refused}");
}

#[test]
fn an_event_changed_on_its_way_is_refused_by_the_tpm() {
    let Some(swtpm) = Swtpm::start() else { return };
    let tpm = through(&swtpm, |tpm, command, response| {
        let mut changed = command.to_vec();
        if code(command) == PCR_EVENT {
            *changed.last_mut().expect("event data") ^= 1;
        }
        tpm.transmit(&changed, response)
    });
    let mut attester = AttestingTpm::new(tpm, EkTemplate::P384H3).expect("attester");
    let refused = attester.extend_event(15, b"lock").expect_err("changed");
    assert!(
        matches!(&refused, TpmError::Refused { code, .. } if code.reason() == ResponseReason::AuthFail),
        "{refused}"
    );
    assert_eq!(attester.read_pcr(15).expect("read"), [0; 32], "nothing was extended");
}

#[test]
fn a_command_stripped_of_its_session_is_noticed() {
    let Some(swtpm) = Swtpm::start() else { return };
    // Somebody on the bus extends an event of its own and hands its answer back in place of the one to the node's.
    let foreign = event(15);
    let tpm = through(&swtpm, move |tpm, command, response| {
        tpm.transmit(if code(command) == PCR_EVENT { &foreign } else { command }, response)
    });
    let mut attester = AttestingTpm::new(tpm, EkTemplate::P384H3).expect("attester");
    let refused = attester.extend_event(15, &[0xaa]).expect_err("no HMAC");
    assert!(matches!(refused, TpmError::Tampered { .. }), "{refused}");
}

#[test]
fn an_old_register_value_replayed_is_noticed() {
    let Some(swtpm) = Swtpm::start() else { return };
    let replay = Arc::new(AtomicBool::new(false));
    let flag = replay.clone();
    let mut recorded = Vec::new();
    let tpm = through(&swtpm, move |tpm, command, response| {
        if code(command) == PCR_READ && flag.load(Ordering::Relaxed) {
            response.clone_from(&recorded);
            return Ok(());
        }
        tpm.transmit(command, response)?;
        if code(command) == PCR_READ {
            recorded.clone_from(response);
        }
        Ok(())
    });
    let mut attester = AttestingTpm::new(tpm, EkTemplate::P384H3).expect("attester");
    assert_eq!(attester.read_pcr(15).expect("read"), [0; 32]);
    replay.store(true, Ordering::Relaxed);
    let refused = attester.read_pcr(15).expect_err("replayed");
    assert!(matches!(refused, TpmError::Tampered { command: "TPM2_PCR_Read" }), "{refused}");
}

#[test]
fn a_tpm_that_asks_for_repetition_is_asked_again_but_not_for_ever() {
    const RETRY: &[u8] = &[0x80, 0x01, 0, 0, 0, 10, 0, 0, 0x09, 0x22];
    let Some(swtpm) = Swtpm::start() else { return };
    for (warnings, works) in [(3, true), (u32::MAX, false)] {
        let asked = Arc::new(AtomicU32::new(0));
        let count = asked.clone();
        let tpm = through(&swtpm, move |tpm, command, response| {
            if code(command) == PCR_EVENT && count.fetch_add(1, Ordering::Relaxed) < warnings {
                response.clear();
                response.extend_from_slice(RETRY);
                return Ok(());
            }
            tpm.transmit(command, response)
        });
        let mut attester = AttestingTpm::new(tpm, EkTemplate::P384H3).expect("attester");
        let before = attester.read_pcr(16).expect("read");
        match attester.extend_event(16, b"event") {
            Ok(()) => assert!(works && attester.read_pcr(16).expect("read") == extended(&before, b"event")),
            Err(TpmError::Refused { code, .. }) => assert!(!works && code.reason() == ResponseReason::Repeat),
            Err(other) => panic!("{other}"),
        }
        assert!(asked.load(Ordering::Relaxed) <= 16);
    }
}

#[test]
fn answers_out_of_bounds_are_refused() {
    let Some(swtpm) = Swtpm::start() else { return };
    let answers: [&[u8]; 5] = [
        b"",
        &[0x80, 0x01, 0, 0],
        &[0x80, 0x01, 0, 0, 0, 11, 0, 0, 0, 0],
        &[0x80, 0x01, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0],
        // A list of four thousand million handles.
        &[0x80, 0x01, 0, 0, 0, 19, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff],
    ];
    for answer in answers {
        let mut tpm = through(&swtpm, move |_, _, response| {
            response.clear();
            response.extend_from_slice(answer);
            Ok(())
        });
        assert!(matches!(tpm.handles(0), Err(TpmError::Malformed { .. })), "{answer:x?}");
    }
}

#[test]
fn a_transport_that_fails_is_an_error_and_dropping_still_ends() {
    let Some(swtpm) = Swtpm::start() else { return };
    let broken = Arc::new(AtomicBool::new(false));
    let flag = broken.clone();
    let tpm = through(&swtpm, move |tpm, command, response| {
        if flag.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        tpm.transmit(command, response)
    });
    let mut attester = AttestingTpm::new(tpm, EkTemplate::P384H3).expect("attester");
    broken.store(true, Ordering::Relaxed);
    assert!(matches!(attester.read_pcr(0), Err(TpmError::Io(_))));
}

#[test]
fn a_tpm_reset_while_the_machine_runs_on_is_noticed() {
    let Some(mut swtpm) = Swtpm::start() else { return };
    let reset = Arc::new(AtomicBool::new(false));
    let flag = reset.clone();
    let path = swtpm.socket_path();
    // As /dev/tpmrm0 does, the way to the TPM outlives the reset.
    let tpm = through(&swtpm, move |tpm, command, response| {
        if flag.swap(false, Ordering::Relaxed) {
            *tpm = Socket::connect(&path)?;
        }
        tpm.transmit(command, response)
    });
    let mut attester = AttestingTpm::new(tpm, EkTemplate::P384H3).expect("attester");
    attester.extend_event(15, b"lock").expect("locked");
    swtpm.restart().expect("restarts");
    reset.store(true, Ordering::Relaxed);
    // PCR 15 is zero again: a node that went on could be let in a second time.
    let selection = PcrSelection::new([15]).expect("selection");
    let refused = attester.quote(&selection, &[0; 32]).expect_err("reset");
    assert!(matches!(&refused, TpmError::Refused { code, .. } if code.reason() == ResponseReason::Handle), "{refused}");
    assert!(attester.extend_event(15, b"lock").is_err());
}

#[test]
fn registers_read_in_parts_are_all_of_one_moment() {
    let Some(swtpm) = Swtpm::start() else { return };
    let all = PcrSelection::new(0..24).expect("selection");
    for (disturbances, works) in [(2, true), (u32::MAX, false)] {
        let mut left = disturbances;
        let mut tpm = through(&swtpm, move |tpm, command, response| {
            tpm.transmit(command, response)?;
            if code(command) == PCR_READ && left > 0 {
                left -= 1;
                tpm.transmit(&event(10), &mut Vec::new())?;
            }
            Ok(())
        });
        let mut session = session(&mut tpm);
        let result = tpm.pcr_read(all, &mut session);
        assert_eq!(result.is_ok(), works, "{result:?}");
    }
}
