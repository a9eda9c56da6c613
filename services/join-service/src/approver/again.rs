//! When what could not be answered is tried again. No clock of its own.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// Until the first further try; each later one waits twice as long.
const FIRST: Duration = Duration::from_secs(1);
/// As often is that doubled: 16 s.
const MOST_DOUBLED: u32 = 4;

/// Pauses of single requests, by uid, and of all of them: where the API server or the records are in trouble, nothing is asked for a
/// while, and the next one that is tried is another.
#[derive(Debug, Default)]
pub(super) struct Again {
    of: HashMap<String, Retry>,
    trouble: u32,
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

    /// It failed. Whether the cause is one for all: then `in_trouble`.
    pub(super) fn failed(&mut self, uid: &str, in_trouble: bool, now: Instant) {
        let retry = self.of.entry(uid.to_owned()).or_insert(Retry { due: now, failures: 0 });
        retry.due = now + pause(retry.failures);
        retry.failures += 1;
        if in_trouble {
            self.trouble += 1;
        }
    }

    /// It was answered: there is no trouble.
    pub(super) fn answered(&mut self, uid: &str) {
        self.of.remove(uid);
        self.trouble = 0;
    }

    /// How long nothing is asked at all; `None` where all is well.
    pub(super) fn trouble(&self) -> Option<Duration> {
        self.trouble.checked_sub(1).map(pause)
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
            again.failed("bad", false, now);
            let due =
                (1..=3600).map(|second| now + Duration::from_secs(second)).find(|at| again.is_due("bad", *at)).unwrap();
            pauses.push((due - now).as_secs());
            now = due;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 16]);
        assert!(again.is_due("other", begun));
        assert_eq!(again.trouble(), None);
        // Posted anew it is another.
        again.keep(&HashSet::from(["other"]));
        assert!(again.is_due("bad", begun));
    }

    #[test]
    fn trouble_of_the_api_server_pauses_everything_until_something_succeeds() {
        let (mut again, now) = (Again::default(), Instant::now());
        let pauses: Vec<_> = (0..6)
            .map(|number: u32| {
                again.failed(&number.to_string(), true, now);
                again.trouble().unwrap().as_secs()
            })
            .collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 16]);
        again.answered("7");
        assert_eq!(again.trouble(), None);
    }
}
