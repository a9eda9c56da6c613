//! When the entry is read and written, and what is written.

use std::sync::Arc;

use latchkey_factory_plus::cluster::Host;
use serde_json::{Map, Value, json};

use super::Problems;

/// How often this edge says that it is there, in milliseconds. The centre takes one for stale that has been quiet for three times
/// that.
pub const HEARTBEAT: u64 = 60_000;
/// The first is said a little after the start, so that it goes along with what there is to tell, in milliseconds.
const FIRST_HEARTBEAT: u64 = 2000;
/// Changes that come so soon after the first are told with it, in milliseconds.
const TOGETHER: u64 = 20;
/// The time between two changes that are told, in milliseconds.
const APART: u64 = 50;
/// The pause after the first call that fails, in milliseconds; it doubles to the longest.
const FIRST_PAUSE: u64 = 1000;
/// The longest pause.
const LONGEST_PAUSE: u64 = 32_000;

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Read the entry.
    Read,
    /// Write this merge patch.
    Patch(Value),
    /// Nothing, until something changes, or until then, in milliseconds.
    Wait(u64),
}

/// What is to be told, what was told, and when.
#[derive(Clone, Debug)]
pub struct Reporter {
    hosts: Option<Vec<Arc<Host>>>,
    certificate: Option<String>,
    /// What is wrong at this edge.
    pub problems: Problems,
    /// What the entry says of our fields, as it was read or written last; `None` while it has to be read.
    told: Option<Map<String, Value>>,
    /// The hosts that were written last, in the place of what the entry says of them; and those of the patch that is under way.
    told_hosts: Option<Vec<Arc<Host>>>,
    sent_hosts: Option<Vec<Arc<Host>>>,
    /// Since when something waits to be told.
    changed: Option<u64>,
    written: Option<u64>,
    /// When the next heartbeat is due.
    beat: u64,
    /// Whether the entry was read for it.
    is_read: bool,
    failures: u32,
    not_before: u64,
}

const HOSTS: &str = "hosts";
const CERTIFICATE: &str = "kubeseal_cert";
const ERRORS: &str = "errors";
const GENERATION: &str = "generation";
const BEAT: &str = "heartbeat";

impl Default for Reporter {
    fn default() -> Self {
        Self {
            hosts: None,
            certificate: None,
            problems: Problems::default(),
            told: None,
            told_hosts: None,
            sent_hosts: None,
            changed: None,
            written: None,
            beat: FIRST_HEARTBEAT,
            is_read: false,
            failures: 0,
            not_before: 0,
        }
    }
}

impl Reporter {
    /// The machines there are. Until this is called nothing is said of machines.
    pub fn set_hosts(&mut self, hosts: Vec<Arc<Host>>) {
        self.hosts = Some(hosts);
    }

    /// The certificate that secrets are sealed for. Where there is none now, what was said stays.
    pub fn set_certificate(&mut self, pem: &str) {
        if self.certificate.as_deref() != Some(pem) {
            self.certificate = Some(pem.to_owned());
        }
    }

    /// What to do at `now`, in milliseconds since the start; `clock` is now in milliseconds since 1970.
    pub fn next(&mut self, now: u64, clock: u64) -> Step {
        if now < self.not_before {
            return Step::Wait(self.not_before);
        }
        let is_beat = now >= self.beat;
        if self.told.is_none() || (is_beat && !self.is_read) {
            return Step::Read;
        }
        let (errors, more_errors) = self.problems.told(now);
        let mut patch = self.difference(&errors);
        if patch.is_empty() {
            self.changed = None;
        }
        let due = (!patch.is_empty()).then(|| self.due(now));
        if !is_beat && due.is_none_or(|due| due > now) {
            let soonest = [Some(self.beat), due, more_errors].into_iter().flatten().min();
            return Step::Wait(soonest.unwrap_or(self.beat));
        }
        if !patch.is_empty() {
            patch.insert(GENERATION.to_owned(), json!(self.generation() + 1));
        }
        patch.insert(BEAT.to_owned(), json!(clock));
        self.sent_hosts = patch.contains_key(HOSTS).then(|| self.hosts.clone()).flatten();
        Step::Patch(Value::Object(patch))
    }

    /// The entry was read; `None` where there is none.
    pub fn read(&mut self, entry: Option<&Value>) {
        let ours = [HOSTS, CERTIFICATE, ERRORS, GENERATION];
        let field = |name: &str| Some((name.to_owned(), entry?.get(name)?.clone()));
        self.told = Some(ours.into_iter().filter_map(field).collect());
        self.told_hosts = None;
        (self.is_read, self.failures) = (true, 0);
    }

    /// The patch was written.
    pub fn wrote(&mut self, patch: &Value, now: u64) {
        let told = self.told.get_or_insert_default();
        for (name, value) in
            patch.as_object().into_iter().flatten().filter(|(name, _)| ![BEAT, HOSTS].contains(&name.as_str()))
        {
            if value.is_null() {
                told.remove(name);
            } else {
                told.insert(name.clone(), value.clone());
            }
        }
        if let Some(hosts) = self.sent_hosts.take() {
            told.remove(HOSTS);
            self.told_hosts = Some(hosts);
        }
        (self.written, self.changed) = (Some(now), None);
        (self.beat, self.is_read) = (now + HEARTBEAT, false);
        (self.failures, self.not_before) = (0, 0);
    }

    /// A call failed. It is made again after a pause; `jitter` is a random number.
    pub fn failed(&mut self, now: u64, jitter: u64) {
        let pause = FIRST_PAUSE.checked_shl(self.failures).unwrap_or(LONGEST_PAUSE).min(LONGEST_PAUSE);
        self.failures = (self.failures + 1).min(16);
        // Edges that lost one centre together do not come back to it together.
        self.not_before = now + pause / 2 + jitter % (pause / 2 + 1);
        // A patch whose answer got lost may have been written.
        (self.told, self.told_hosts) = (None, None);
    }

    /// When a change is told that is there at `now`.
    fn due(&mut self, now: u64) -> u64 {
        let since = *self.changed.get_or_insert(now);
        (since + TOGETHER).max(self.written.map_or(0, |at| at + APART))
    }

    fn generation(&self) -> u64 {
        self.told.as_ref().and_then(|told| told.get(GENERATION)).and_then(Value::as_u64).unwrap_or(0)
    }

    /// The merge patch from what the entry says to what is so.
    fn difference(&self, errors: &[String]) -> Map<String, Value> {
        let told = |name: &str| self.told.as_ref().and_then(|told| told.get(name));
        let mut patch = Map::new();
        let is_told = |hosts: &Vec<Arc<Host>>| match &self.told_hosts {
            Some(told) => told == hosts,
            None => told(HOSTS).is_some_and(|told| are(told, hosts)),
        };
        if let Some(hosts) = self.hosts.as_ref().filter(|hosts| !is_told(hosts)) {
            let hosts: Vec<&Host> = hosts.iter().map(|host| &**host).collect();
            patch.insert(HOSTS.to_owned(), json!(hosts));
        }
        if let Some(certificate) = &self.certificate
            && told(CERTIFICATE).and_then(Value::as_str) != Some(certificate)
        {
            patch.insert(CERTIFICATE.to_owned(), json!(certificate));
        }
        match (errors.is_empty(), told(ERRORS)) {
            (true, None) => {}
            (true, Some(_)) => drop(patch.insert(ERRORS.to_owned(), Value::Null)),
            (false, told) if told.is_some_and(|told| *told == json!(errors)) => {}
            (false, _) => drop(patch.insert(ERRORS.to_owned(), json!(errors))),
        }
        patch
    }
}

/// Whether the entry has these hosts, and nothing else of them.
fn are(told: &Value, hosts: &[Arc<Host>]) -> bool {
    let same = |(told, host): (&Value, &Arc<Host>)| serde_json::to_value(&**host).is_ok_and(|host| host == *told);
    told.as_array().is_some_and(|told| told.len() == hosts.len() && told.iter().zip(hosts).all(same))
}
