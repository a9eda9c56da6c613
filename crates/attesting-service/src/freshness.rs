//! How far the configuration in use may be behind the directory: which parts are bad, since when, and whether anybody still looks.
//!
//! Pure: it is told what the time is.

use crate::follow::LOOK_ANYWAY;
use latchkey_cluster_store::{Heard, Part};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The part of its own that the denials are.
pub(crate) const DENIALS: &str = "denials";

/// The part that the collateral is.
pub(crate) const COLLATERAL: &str = "collateral";

/// What every service follows; its own parts come after these.
const FOLLOWED: [&str; 3] = [DENIALS, COLLATERAL, Part::Attestation.name()];

/// What is known of the parts since the last look.
#[derive(Debug)]
pub(crate) struct Freshness {
    bad: BTreeMap<&'static str, (String, Instant)>,
    /// When the last look ended.
    looked: Instant,
    /// When the look that is under way began.
    looking: Option<Instant>,
    /// As of when the denials in force were read: what was written later they may lack.
    denials: Instant,
    /// What documents that somebody tells of were known by when the last look began.
    taken: Option<Heard>,
    reloads: u64,
    /// The parts of the service's own.
    own: Vec<&'static str>,
}

/// A part whose content in use may be older than what the directory says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behind {
    /// The part's name.
    pub part: &'static str,
    /// For how long.
    pub age: Duration,
    /// Why.
    pub why: String,
}

impl Freshness {
    pub(crate) fn new(own: Vec<&'static str>, now: Instant) -> Self {
        Self { bad: BTreeMap::new(), looked: now, looking: None, denials: now, taken: None, reloads: 0, own }
    }

    /// Everything that is followed.
    pub(crate) fn followed(&self) -> impl Iterator<Item = &'static str> {
        FOLLOWED.into_iter().chain(self.own.iter().copied())
    }

    pub(crate) fn begin(&mut self, now: Instant) {
        self.looking = Some(now);
    }

    /// The look ended: what is in force is what was `heard` when it began.
    pub(crate) fn end(&mut self, heard: Option<Heard>, now: Instant) {
        self.looking = None;
        self.looked = now;
        self.taken = heard;
    }

    /// The denials in force are those of then.
    pub(crate) fn denials_read(&mut self, as_of: Instant) {
        self.denials = as_of;
    }

    /// As of when what is in force was what the documents said, where it could be used; `heard` is how they are known now. Where nothing
    /// else was told since, that is as of when they were told. Denials that cannot be read are of before, whatever else is heard.
    pub(crate) fn as_of(&self, heard: Option<Heard>) -> Instant {
        let told = match (self.taken, heard) {
            (Some(taken), Some(heard)) if taken.version == heard.version => heard.as_of,
            (Some(taken), _) => taken.as_of,
            // They are read here: a look that hangs, or that nobody takes any more, is noticed by its age.
            (None, _) => return self.denials,
        };
        if self.bad.contains_key(DENIALS) { told.min(self.denials) } else { told }
    }

    pub(crate) fn good(&mut self, part: &'static str) {
        self.bad.remove(part);
        self.reloads += 1;
    }

    /// What is in force is what the directory says again.
    pub(crate) fn mended(&mut self, part: &'static str) {
        self.bad.remove(part);
    }

    /// Whether this is news. It is bad since it was found so first, whatever else is wrong with it meanwhile.
    pub(crate) fn bad(&mut self, part: &'static str, why: String, now: Instant) -> bool {
        let (known, since) = self.bad.remove(part).map_or((None, now), |(why, since)| (Some(why), since));
        let news = known.as_ref() != Some(&why);
        self.bad.insert(part, (why, since));
        news
    }

    pub(crate) fn reloads(&self) -> u64 {
        self.reloads
    }

    /// A look that does not end, or a follower that is gone, leaves every part behind.
    pub(crate) fn behind(&self, heard: Option<Heard>, now: Instant) -> Vec<Behind> {
        let unseen = now.saturating_duration_since(self.looked).saturating_sub(LOOK_ANYWAY);
        let unseen = self.looking.map_or(unseen, |since| unseen.max(now.saturating_duration_since(since)));
        // What is told of is listed several times in that time.
        let unheard = heard.map_or(Duration::ZERO, |heard| now.saturating_duration_since(heard.as_of));
        let unseen = unseen.max(unheard.saturating_sub(LOOK_ANYWAY));
        let of = |name: &'static str| {
            if let Some((why, since)) = self.bad.get(name) {
                return Some(Behind { part: name, age: now.saturating_duration_since(*since), why: why.clone() });
            }
            let why = match heard {
                None => format!("the directory has not been read for {} s", unseen.as_secs()),
                Some(_) => {
                    format!("the API server has told nothing that counts for {} s", unheard.max(unseen).as_secs())
                }
            };
            (unseen >= HANGS).then_some(Behind { part: name, age: unseen, why })
        };
        self.followed().filter_map(of).collect()
    }
}

/// A look that takes longer is worth telling: it takes milliseconds.
const HANGS: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn ages(freshness: &Freshness, now: Instant) -> Vec<(&'static str, u64)> {
        freshness.behind(None, now).iter().map(|behind| (behind.part, behind.age.as_secs())).collect()
    }

    #[test]
    fn a_part_is_behind_since_it_was_first_bad_until_it_is_good() {
        let start = Instant::now();
        let mut freshness = Freshness::new(vec!["enrolment", "cluster", "payload"], start);
        assert!(freshness.bad("attestation", "x".into(), start));
        freshness.end(None, start + 20 * SECOND);
        assert!(!freshness.bad("attestation", "x".into(), start + 20 * SECOND), "no news");
        assert!(freshness.bad("attestation", "y".into(), start + 25 * SECOND));
        assert_eq!(ages(&freshness, start + 30 * SECOND), [("attestation", 30)]);
        freshness.good("attestation");
        assert_eq!(ages(&freshness, start + 30 * SECOND), []);
    }

    #[test]
    fn a_look_that_hangs_leaves_every_part_behind() {
        let start = Instant::now();
        let mut freshness = Freshness::new(vec!["enrolment", "cluster", "payload"], start);
        freshness.begin(start + 5 * SECOND);
        assert_eq!(ages(&freshness, start + 5 * SECOND), []);
        let all = ["denials", "collateral", "attestation", "enrolment", "cluster", "payload"].map(|part| (part, 7));
        assert_eq!(ages(&freshness, start + 12 * SECOND), all);
        freshness.end(None, start + 12 * SECOND);
        assert_eq!(ages(&freshness, start + 12 * SECOND), []);
    }

    #[test]
    fn a_follower_that_is_gone_is_noticed() {
        let start = Instant::now();
        let freshness = Freshness::new(vec!["enrolment", "cluster", "payload"], start);
        assert_eq!(ages(&freshness, start + LOOK_ANYWAY), []);
        assert_eq!(ages(&freshness, start + LOOK_ANYWAY + 9 * SECOND)[2], ("attestation", 9));
    }

    /// Looking at what is known here says nothing of whether anybody tells of changes.
    #[test]
    fn what_is_told_is_as_old_as_its_last_complete_listing_however_often_it_is_looked_at() {
        let start = Instant::now();
        let heard = |seconds: u32, version| Some(Heard { as_of: start + seconds * SECOND, version });
        let mut freshness = Freshness::new(vec!["enrolment"], start);
        freshness.end(heard(0, 1), start);
        assert_eq!(freshness.as_of(heard(9, 1)), start + 9 * SECOND, "no other content");
        // Told of something else, and not looked at yet.
        assert_eq!(freshness.as_of(heard(12, 2)), start);
        freshness.begin(start + 13 * SECOND);
        freshness.end(heard(12, 2), start + 13 * SECOND);
        assert_eq!(freshness.as_of(heard(12, 2)), start + 12 * SECOND);
        // A watch that is swallowed: nothing is told any more, and it is looked at all the same.
        for at in (20..100).step_by(10) {
            freshness.begin(start + at * SECOND);
            freshness.end(heard(12, 2), start + at * SECOND);
            assert_eq!(freshness.as_of(heard(12, 2)), start + 12 * SECOND);
        }
        let behind = freshness.behind(heard(12, 2), start + 90 * SECOND);
        assert_eq!(behind.len(), 4);
        assert!(behind[0].why.contains("told nothing that counts for 78 s"), "{}", behind[0].why);
        assert_eq!(freshness.behind(heard(60, 2), start + 90 * SECOND), []);
    }

    /// A follower that hangs, or is gone, says nothing: only that time goes by does.
    #[test]
    fn what_is_read_here_is_as_old_as_the_denials_that_were_read_last() {
        let start = Instant::now();
        let mut freshness = Freshness::new(vec!["enrolment"], start);
        freshness.begin(start + 20 * SECOND);
        assert_eq!(freshness.as_of(None), start);
        freshness.denials_read(start + 20 * SECOND);
        freshness.end(None, start + 60 * SECOND);
        assert_eq!(freshness.as_of(None), start + 20 * SECOND);
        freshness.begin(start + 70 * SECOND);
        freshness.bad(DENIALS, "x".into(), start + 70 * SECOND);
        freshness.end(None, start + 71 * SECOND);
        assert_eq!(freshness.as_of(None), start + 20 * SECOND);
    }

    #[test]
    fn denials_that_cannot_be_read_are_as_of_before_however_much_else_is_told() {
        let start = Instant::now();
        let heard = |seconds: u32| Some(Heard { as_of: start + seconds * SECOND, version: seconds.into() });
        let mut freshness = Freshness::new(vec!["enrolment"], start);
        freshness.denials_read(start + 5 * SECOND);
        freshness.end(heard(5), start + 5 * SECOND);
        freshness.bad(DENIALS, "gone".into(), start + 15 * SECOND);
        freshness.end(heard(15), start + 15 * SECOND);
        assert_eq!(freshness.as_of(heard(15)), start + 5 * SECOND);
        assert_eq!(freshness.as_of(heard(25)), start + 5 * SECOND);
        freshness.denials_read(start + 25 * SECOND);
        freshness.mended(DENIALS);
        freshness.end(heard(25), start + 25 * SECOND);
        assert_eq!(freshness.as_of(heard(25)), start + 25 * SECOND);
    }
}
