//! The machine of one cluster.

use latchkey_factory_plus::cluster::Configuration;
use latchkey_factory_plus::{ClusterName, Uuid};
use serde_json::Value;

use super::backoff::wait_ms;
use super::decide::{Wanted, Wishes, decide};
use super::notes::{self, Made};
use super::plan::{self, Note, Plan, Step};
use super::{Answer, Effect, Event, Moment, Names, Order, Refusal, SetupStatus, Site, StatusError, Trouble};
use crate::manifests::{self, Repository};

/// Everything that is known of one cluster, and what is being done about it.
#[derive(Debug)]
pub struct Machine {
    cluster: Uuid,
    /// A stored status that cannot be read: nothing is done then.
    unreadable: Option<StatusError>,
    /// The name in such a status.
    held: Option<ClusterName>,
    /// The status as it is, or is about to be recorded.
    status: Option<SetupStatus>,
    /// Whether the status is known to be stored so.
    recorded: bool,
    wanted: Wanted,
    refusal: Option<Refusal>,
    plan: Plan,
    doing: Doing,
    /// What the intent that is being recorded is for.
    intended: Option<Configuration>,
    /// The files that were made last, until the status says so.
    made: Option<Made>,
    asked: Asked,
    last_id: u64,
}

/// What was asked of the machine since it rested.
#[derive(Debug, Default)]
struct Asked {
    /// A new plan, when what is in progress has ended.
    plan: bool,
    /// The repository's files, anew.
    refresh: bool,
    /// The removal of everything.
    decommission: bool,
}

#[derive(Debug)]
enum Doing {
    Nothing,
    /// The first step of the plan.
    Step {
        id: u64,
        effect: Effect,
    },
    /// A failure is being recorded; then comes the wait.
    Noting {
        id: u64,
    },
    Waiting {
        id: u64,
    },
}

/// Why a cluster is not decommissioned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecommissionError {
    /// There is a configuration, or it is not known yet whether there is.
    #[error("the cluster still has a configuration; delete that entry first")]
    Configured,
    /// There is nothing.
    #[error("nothing was made for this cluster")]
    Nothing,
    /// The stored status cannot be read, so nobody knows what to remove.
    #[error("the cluster's setup status cannot be read; mend the entry first")]
    Unreadable,
}

impl Machine {
    /// The machine of `cluster` whose entry of the setup status is `stored`. Its orders have ids above `last_id`.
    pub fn new(cluster: Uuid, stored: Option<&Value>, last_id: u64) -> Self {
        let (status, unreadable) = match stored.map(SetupStatus::read) {
            None => (None, None),
            Some(Ok(status)) => (Some(status), None),
            Some(Err(error)) => (None, Some(error)),
        };
        Self {
            cluster,
            held: stored.and_then(|stored| stored["spec"]["name"].as_str()?.parse().ok()),
            unreadable,
            status,
            recorded: true,
            wanted: Wanted::Unknown,
            refusal: None,
            plan: Plan::new(),
            doing: Doing::Nothing,
            intended: None,
            made: None,
            asked: Asked { plan: true, ..Asked::default() },
            last_id,
        }
    }

    /// The status as it is, or is about to be recorded.
    pub fn status(&self) -> Option<&SetupStatus> {
        self.status.as_ref()
    }

    /// Why nothing is done, where the stored status cannot be read.
    pub fn unreadable(&self) -> Option<&StatusError> {
        self.unreadable.as_ref()
    }

    /// The name that the cluster holds.
    pub fn name(&self) -> Option<&ClusterName> {
        if self.unreadable.is_some() {
            return self.held.as_ref();
        }
        self.status.as_ref()?.spec.as_ref().map(|spec| &spec.name)
    }

    /// Until when nobody gets that name, where the cluster was decommissioned: milliseconds since 1970.
    pub(super) fn held_until(&self, site: &Site) -> Option<u64> {
        self.status.as_ref()?.held_until(site)
    }

    /// Whether the present configuration is refused because its name is taken.
    pub fn wants_taken_name(&self) -> bool {
        self.refusal.as_ref().is_some_and(Refusal::is_name)
    }

    /// Whether there is neither a status nor a configuration, nor anything in progress.
    pub fn is_gone(&self) -> bool {
        self.status.is_none()
            && self.unreadable.is_none()
            && !matches!(self.wanted, Wanted::Entry(_))
            && matches!(self.doing, Doing::Nothing)
    }

    /// The highest id of its orders.
    pub(super) const fn last_id(&self) -> u64 {
        self.last_id
    }

    /// Whether [`Event::Decommission`] has an effect now.
    pub fn may_decommission(&self) -> Result<(), DecommissionError> {
        match (&self.unreadable, &self.wanted, &self.status) {
            (Some(_), ..) => Err(DecommissionError::Unreadable),
            (None, Wanted::Nothing, Some(_)) => Ok(()),
            (None, Wanted::Nothing, None) => Err(DecommissionError::Nothing),
            _ => Err(DecommissionError::Configured),
        }
    }

    /// Whether it stands in the stored status that everything is removed, or there is no status any more.
    pub fn is_decommissioning(&self) -> bool {
        self.recorded && self.status.as_ref().is_none_or(|status| status.decommission)
    }

    /// Takes an event; what is to be done now, in any order.
    pub fn handle(&mut self, moment: &Moment, event: Event, site: &Site, names: &Names) -> Vec<Order> {
        if self.unreadable.is_some() {
            return vec![];
        }
        let mut orders = vec![];
        match event {
            Event::Configuration(entry) => self.configured(entry),
            Event::Answer { id, answer } => orders.extend(self.answered(id, answer, moment, site)),
            Event::Timer { id } => {
                if matches!(self.doing, Doing::Waiting { id: waiting } if waiting == id) {
                    self.doing = Doing::Nothing;
                }
            }
            Event::Refresh => {
                self.asked.refresh = true;
                self.asked.plan = true;
            }
            Event::Again => self.asked.plan = true,
            Event::Decommission => {
                if self.may_decommission().is_ok() {
                    self.asked.decommission = true;
                    self.asked.plan = true;
                }
            }
        }
        orders.extend(self.advance(moment, site, names));
        orders
    }

    fn configured(&mut self, entry: Option<Value>) {
        let wanted = entry.map_or(Wanted::Nothing, Wanted::Entry);
        if self.wanted != wanted {
            self.wanted = wanted;
            self.asked.plan = true;
        }
    }

    /// Begins the next step, if nothing is in progress.
    fn advance(&mut self, moment: &Moment, site: &Site, names: &Names) -> Option<Order> {
        if matches!(self.doing, Doing::Step { .. } | Doing::Noting { .. }) {
            return None;
        }
        if self.asked.plan {
            self.asked.plan = false;
            self.doing = Doing::Nothing;
            self.make_plan(site, names);
        }
        if matches!(self.doing, Doing::Waiting { .. }) {
            return None;
        }
        if matches!(self.plan.front(), Some(Step::HoldName)) {
            let left = self.held_until(site).unwrap_or_default().saturating_sub(moment.now);
            if left > 0 {
                return Some(self.wait_for(left));
            }
            self.plan.pop_front();
        }
        let effect = match self.plan.front()? {
            Step::Do(effect) => effect.clone(),
            Step::HoldName => return None,
            Step::Render(wanted) => Effect::ReadTemplates { chart: wanted.chart },
            Step::Record => self.record(moment),
            Step::Forget => {
                self.recorded = false;
                Effect::Forget
            }
            Step::Note(note) => {
                let note = note.clone();
                self.note(note, moment);
                // Repeated as it is: a note that is taken twice would count twice.
                self.plan[0] = Step::Record;
                self.record(moment)
            }
        };
        let order = self.order(effect.clone());
        self.doing = Doing::Step { id: order.id, effect };
        Some(order)
    }

    fn make_plan(&mut self, site: &Site, names: &Names) {
        let wishes = Wishes { refresh: self.asked.refresh, decommission: self.asked.decommission };
        (self.plan, self.refusal) = decide(self.cluster, &self.wanted, wishes, self.status.as_ref(), site, names);
        self.made = None;
        self.intended = None;
        let written = matches!(self.plan.front(), Some(Step::Note(_) | Step::Forget));
        if !self.recorded && self.status.is_some() && !written {
            self.plan.push_front(Step::Record);
        }
    }

    fn answered(&mut self, id: u64, answer: Answer, moment: &Moment, site: &Site) -> Option<Order> {
        match &self.doing {
            Doing::Step { id: awaited, .. } if *awaited == id => {}
            Doing::Noting { id: awaited } if *awaited == id => {
                self.recorded &= answer == Answer::Done;
                return Some(self.wait(moment));
            }
            // An answer to something that this machine did not ask.
            _ => return None,
        }
        let Doing::Step { effect, .. } = std::mem::replace(&mut self.doing, Doing::Nothing) else { return None };
        let (step, answer) = (self.plan.front().cloned()?, answer);
        let failure = match (step, answer) {
            (Step::Render(wanted), Answer::Templates(templates)) => {
                match manifests::repository(self.cluster, &wanted, &site.repositories, &templates) {
                    Ok(repository) => {
                        self.rendered(repository);
                        return None;
                    }
                    Err(error) => Trouble::manifests(&error, moment.now),
                }
            }
            (Step::Do(_), Answer::Done) => {
                self.done();
                return None;
            }
            (Step::Record, Answer::Done) => {
                self.recorded = true;
                self.done();
                self.continue_set_up(site);
                return None;
            }
            (Step::Forget, Answer::Done) => {
                self.forgotten();
                return None;
            }
            (_, answer) => Trouble::of(&effect, &answer, moment.now),
        };
        Some(self.failed(failure, moment))
    }

    fn done(&mut self) {
        self.plan.pop_front();
        if let Some(status) = &mut self.status {
            status.attempt = 0;
            // What failed before and is done now is nobody's trouble any more; a refused configuration still is.
            status.error = status.error.take().filter(|error| !error.retried);
        }
    }

    /// After the intent is recorded, its UUIDs are used.
    fn continue_set_up(&mut self, site: &Site) {
        if let Some(wanted) = self.intended.take() {
            self.plan = plan::rest_of_set_up(self.cluster, wanted, site, self.status.as_ref());
        }
    }

    fn rendered(&mut self, repository: Repository) {
        let hash = repository.hash();
        self.asked.refresh = false;
        let status = self.status.as_ref();
        let changed = !status.is_some_and(|status| status.ready && status.rendered.as_ref() == Some(&hash));
        let same_spec = match (status.and_then(|status| status.spec.as_ref()), self.plan.front()) {
            (Some(spec), Some(Step::Render(wanted))) => *spec == **wanted,
            _ => false,
        };
        self.plan.pop_front();
        if changed {
            self.plan.push_front(Step::Do(Effect::WriteRepository { files: repository.files.clone() }));
        } else if same_spec && status.is_some_and(|status| status.error.is_none()) {
            self.plan.clear();
        }
        self.made = Some(Made { repository, hash, changed });
    }

    fn forgotten(&mut self) {
        self.plan.clear();
        self.status = None;
        self.recorded = true;
        self.asked = Asked { plan: true, ..Asked::default() };
    }

    /// Records the failure where people see it, and tries again later.
    fn failed(&mut self, trouble: Trouble, moment: &Moment) -> Order {
        let records = matches!(self.plan.front(), Some(Step::Record | Step::Forget | Step::Note(_)));
        let Some(status) = &mut self.status else { return self.wait(moment) };
        status.attempt = status.attempt.saturating_add(1);
        if records {
            return self.wait(moment);
        }
        status.error = Some(trouble);
        let effect = self.record(moment);
        let order = self.order(effect);
        self.doing = Doing::Noting { id: order.id };
        order
    }

    fn wait(&mut self, moment: &Moment) -> Order {
        let attempt = self.status.as_ref().map_or(1, |status| status.attempt);
        self.wait_for(wait_ms(attempt, moment.jitter()))
    }

    fn wait_for(&mut self, after_ms: u64) -> Order {
        let order = self.order(Effect::SetTimer { after_ms });
        self.doing = Doing::Waiting { id: order.id };
        order
    }

    fn record(&mut self, moment: &Moment) -> Effect {
        let status = self.status.get_or_insert_with(|| SetupStatus::new(moment.now));
        status.updated = moment.now;
        Effect::Record(Box::new(status.clone()))
    }

    fn order(&mut self, effect: Effect) -> Order {
        self.last_id += 1;
        Order { id: self.last_id, effect }
    }

    fn note(&mut self, note: Note, moment: &Moment) {
        self.recorded = false;
        if let Note::Intent(wanted) = &note {
            self.intended = Some((**wanted).clone());
        }
        let made = self.made.take();
        notes::take(self.status.get_or_insert_with(|| SetupStatus::new(moment.now)), note, made, moment);
    }
}
