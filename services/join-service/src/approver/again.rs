//! When what could not be answered is tried again. No clock of its own.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// Until the first further try; each later one waits twice as long.
pub(super) const FIRST: Duration = Duration::from_secs(1);
/// As often is that doubled: 16 s.
const MOST_DOUBLED: u32 = 4;

/// Pauses of single requests, by uid, and of all of them: where the API server or the records are in trouble, nothing is asked for a
/// while, and then one request at a time, another than before, until one is answered.
#[derive(Debug, Default)]
pub(super) struct Again {
    of: HashMap<String, Retry>,
    trouble: u32,
    /// Until when nothing is asked.
    until: Option<Instant>,
    /// When one was answered last.
    answered: Option<Instant>,
}

#[derive(Debug)]
struct Retry {
    due: Instant,
    failures: u32,
}

impl Again {
    /// Those that wait no more are forgotten.
    pub(super) fn keep(&mut self, waiting: &HashSet<&str>) {
        self.of.retain(|uid, _| waiting.contains(&**uid));
    }

    /// Whether this one may be tried now.
    pub(super) fn is_due(&self, uid: &str, now: Instant) -> bool {
        self.of.get(uid).is_none_or(|retry| retry.due <= now)
    }

    /// There is nothing to say to it yet, and no fault in that.
    pub(super) fn waits(&mut self, uid: &str, now: Instant) {
        self.retry(uid, now).due = now + FIRST;
    }

    /// It failed, after it was begun then. Whether the cause is one for all: then `in_trouble`. It is not where others were answered
    /// meanwhile; and of several that were begun together, the first to fail speaks for all.
    pub(super) fn failed(&mut self, uid: &str, in_trouble: bool, begun: Instant, now: Instant) {
        let retry = self.retry(uid, now);
        retry.due = now + pause(retry.failures);
        retry.failures += 1;
        let others_were_answered = self.answered.is_some_and(|answered| answered >= begun);
        if in_trouble && !others_were_answered && self.pause(now).is_none() {
            self.until = Some(now + pause(self.trouble));
            self.trouble += 1;
        }
    }

    /// It was answered: there is no trouble.
    pub(super) fn answered(&mut self, uid: &str, now: Instant) {
        self.of.remove(uid);
        (self.trouble, self.until, self.answered) = (0, None, Some(now));
    }

    /// Whether nothing was answered since there was trouble.
    pub(super) fn is_in_trouble(&self) -> bool {
        self.trouble > 0
    }

    /// How long nothing is asked at all; `None` where something may be.
    pub(super) fn pause(&self, now: Instant) -> Option<Duration> {
        self.until.and_then(|until| until.checked_duration_since(now)).filter(|left| !left.is_zero())
    }

    fn retry(&mut self, uid: &str, now: Instant) -> &mut Retry {
        self.of.entry(uid.to_owned()).or_insert(Retry { due: now, failures: 0 })
    }
}

fn pause(failures: u32) -> Duration {
    FIRST * 2_u32.pow(failures.min(MOST_DOUBLED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_again_and_again_is_tried_ever_more_rarely_and_keeps_no_other_waiting() {
        let (mut again, begun) = (Again::default(), Instant::now());
        let (mut now, mut pauses) = (begun, Vec::new());
        for _ in 0..6 {
            again.failed("bad", false, now, now);
            let due =
                (1..=3600).map(|second| now + Duration::from_secs(second)).find(|at| again.is_due("bad", *at)).unwrap();
            pauses.push((due - now).as_secs());
            now = due;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 16]);
        assert!(again.is_due("other", begun));
        assert!(!again.is_in_trouble() && again.pause(now).is_none());
        // Posted anew it is another.
        again.keep(&HashSet::from(["other"]));
        assert!(again.is_due("bad", begun));
    }

    #[test]
    fn what_waits_for_a_record_is_looked_at_each_second() {
        let (mut again, mut now) = (Again::default(), Instant::now());
        for _ in 0..6 {
            again.waits("a", now);
            assert!(!again.is_due("a", now) && again.is_due("a", now + FIRST));
            now += FIRST;
        }
        assert!(!again.is_in_trouble());
    }

    #[test]
    fn trouble_of_the_api_server_pauses_everything_until_something_succeeds() {
        let (mut again, mut now) = (Again::default(), Instant::now());
        let mut pauses = Vec::new();
        for number in 0..6 {
            // Two at a time are one trouble.
            again.failed(&format!("{number} a"), true, now, now);
            again.failed(&format!("{number} b"), true, now, now);
            let pause = again.pause(now).unwrap();
            pauses.push(pause.as_secs());
            now += pause;
            assert!(again.pause(now).is_none() && again.is_in_trouble());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 16]);
        again.failed("last", true, now, now);
        again.answered("7", now);
        assert!(!again.is_in_trouble() && again.pause(now).is_none());
    }

    #[test]
    fn what_fails_while_others_are_answered_is_no_trouble_of_all() {
        let (mut again, begun) = (Again::default(), Instant::now());
        let (answered, failed) = (begun + Duration::from_millis(10), begun + Duration::from_secs(3));
        again.answered("quick", answered);
        again.failed("slow", true, begun, failed);
        assert!(!again.is_in_trouble() && !again.is_due("slow", failed));
        again.failed("later", true, failed, failed);
        assert!(again.is_in_trouble(), "nothing was answered since it was begun");
    }
}
