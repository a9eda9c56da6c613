//! A monitor whose clock is an hour off that of its centre, by libfaketime. Skipped, and says so, where that is not installed.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use latchkey_sparkplug::Payload;

use crate::broker::rig::COMMANDER;
use crate::broker::{NBIRTH, NCMD, NDEATH, Site, born, rebirth};

const HOUR: u64 = 60 * 60;
/// What clock readings of one test may be apart.
const SOON: u64 = 10 * 60;
const RIGHTS: [&str; 3] = ["get", "update", "patch"];

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// It is born, obeys and dies, all with one token of each service, and its messages say the time of its machine.
fn works_with_a_clock_that_is_off(off: &str, its_clock: impl Fn(u64) -> u64) {
    let Some(site) = Site::start_or_skip() else { return };
    // By a clock that is an hour ahead, they are over when they come.
    let centre = Site::centre(Duration::from_secs(HOUR / 2));
    site.grant(&RIGHTS);
    let listener = site.broker.listen();
    let Some(program) = site.program_off(&centre, off) else { return };
    let says_its_time = |topic: &str| {
        let (heard, bytes) = listener.message();
        let said = Payload::decode(&bytes).unwrap().timestamp.unwrap() / 1000;
        assert_eq!(heard, topic);
        assert!(said.abs_diff(its_clock(now())) < SOON, "{topic} of {said}");
    };
    says_its_time(NBIRTH);
    assert!(site.broker.publish(COMMANDER, NCMD, &rebirth()).status.success());
    born(&listener, 0);
    program.stop();
    says_its_time(NDEATH);
    assert_eq!(centre.tokens(), 1);
}

#[test]
fn a_monitor_whose_clock_is_an_hour_ahead_works_with_tokens_that_seem_to_be_over() {
    works_with_a_clock_that_is_off("+1h", |now| now + HOUR);
}

#[test]
fn a_monitor_whose_clock_is_an_hour_behind_works_and_says_its_own_time() {
    works_with_a_clock_that_is_off("-1h", |now| now - HOUR);
}
