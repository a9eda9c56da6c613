//! The life machine and what lies before it: the offers with their secrets, the effects that wait to be performed, the
//! events that wait to be told. No I/O: the driver performs, the queue keeps the order and the record.

use std::collections::{HashMap, VecDeque};

use crate::flows::{Offer, Terms};
use crate::lifecycle::{self, Effect, Event, Grant, OfferId, Record, Verdict};

/// The longest message that goes into a record, in bytes: a record is one line of the console.
const MESSAGE: usize = 400;

/// See the module.
pub(crate) struct EventQueue {
    machine: lifecycle::Node,
    offers: HashMap<u32, Offer>,
    next_offer: u32,
    effects: VecDeque<Effect>,
    events: VecDeque<Event>,
    record: fn(&Record),
}

impl EventQueue {
    /// With a machine that has seen nothing. `record` gets everything that happens, in the order in which it replays.
    pub(crate) fn new(record: fn(&Record)) -> Self {
        Self {
            machine: lifecycle::Node::new(),
            offers: HashMap::new(),
            next_offer: 0,
            effects: VecDeque::new(),
            events: VecDeque::new(),
            record,
        }
    }

    /// Something happened. The machine is told once all that it ordered before is done.
    pub(crate) fn saw(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// Keeps the offer's secrets and tells the machine what is not secret of it.
    pub(crate) fn keep(&mut self, offer: Offer) {
        let id = OfferId(self.next_offer);
        self.next_offer = self.next_offer.wrapping_add(1);
        let (cluster_id, epoch) = match &offer.terms {
            Terms::Member(membership) => (Some(lifecycle::Digest(*membership.cluster_id.as_bytes())), None),
            Terms::Known { epoch, .. } => (None, *epoch),
        };
        let source = offer.source;
        self.offers.insert(id.0, offer);
        self.saw(Event::Offered(Grant { id, source, cluster_id, epoch }));
    }

    /// What to do next; `None` once there is nothing to do until something happens.
    pub(crate) fn next(&mut self) -> Option<Effect> {
        while self.effects.is_empty() {
            let event = shorten(self.events.pop_front()?);
            (self.record)(&Record::Saw(event.clone()));
            self.effects.extend(self.machine.handle(event));
        }
        let effect = self.effects.pop_front()?;
        (self.record)(&Record::Did(effect.name()));
        Some(effect)
    }

    /// An offer that is not answered yet.
    pub(crate) fn offer(&self, id: OfferId) -> Option<&Offer> {
        self.offers.get(&id.0)
    }

    /// As [`Self::offer`], to take something out of it.
    pub(crate) fn offer_mut(&mut self, id: OfferId) -> Option<&mut Offer> {
        self.offers.get_mut(&id.0)
    }

    /// Tells whoever offered, and forgets the offer's secrets.
    pub(crate) fn answer(&mut self, id: OfferId, verdict: Verdict) {
        if let Some(offer) = self.offers.remove(&id.0) {
            // Whoever offered may be gone; that changes nothing here.
            let _ = offer.answer.try_send(verdict);
        }
    }

    /// Answers an offer that comes when the boot is decided.
    pub(crate) fn turn_away(&mut self, offer: Offer) {
        self.keep(offer);
        while let Some(effect) = self.next() {
            // A machine that ended does nothing else.
            if let Effect::Answer(id, verdict) = effect {
                self.answer(id, verdict);
            }
        }
    }
}

fn short(mut message: String) -> String {
    message.truncate(message.floor_char_boundary(MESSAGE));
    // Escapes would make the line longer than its text.
    message.retain(|c| !c.is_control() && c != '\\' && c != '"');
    message
}

fn shorten(event: Event) -> Event {
    match event {
        Event::Failed { code, message } => Event::Failed { code, message: short(message) },
        Event::FlowFailed { source, code, message } => Event::FlowFailed { source, code, message: short(message) },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fmt::Write as _;

    use latchkey_api::OfferRefusal;
    use latchkey_keys::Secret;
    use proptest::prelude::*;
    use smol::channel::{Receiver, bounded};

    use super::*;
    use crate::lifecycle::{Digest, DiskPhase, NodeRole, ReplayError, Replayed, Source, Stop, replay};
    use crate::platform::console::MAX_MESSAGE;

    fn offer(source: Source) -> (Offer, Receiver<Verdict>) {
        let (answer, verdict) = bounded(1);
        let (disk_key, measurement_secret) = (Secret::random().unwrap(), Secret::random().unwrap());
        (
            Offer {
                source,
                disk_key,
                measurement_secret,
                terms: Terms::Known { epoch: None, components: None },
                answer,
            },
            verdict,
        )
    }

    thread_local! {
        /// Every test has a thread, and so a log, of its own.
        static LOG: RefCell<String> = const { RefCell::new(String::new()) };
    }

    fn write(record: &Record) {
        let line = serde_json::to_string(record).unwrap();
        assert!(line.len() <= MAX_MESSAGE, "{line}");
        LOG.with_borrow_mut(|log| writeln!(log, "latchkey[    0.001] {}{line}", Record::MARK).unwrap());
    }

    fn recorded() -> Result<Replayed, ReplayError> {
        LOG.with_borrow(|log| replay(log))
    }

    fn refused(verdict: &Receiver<Verdict>) -> OfferRefusal {
        match verdict.try_recv().unwrap() {
            Verdict::Refused { code, .. } => code,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_port_that_does_not_open_costs_one_flow_and_the_boot_only_without_another() {
        let mut queue = EventQueue::new(write);
        queue.saw(Event::DiskFresh { attempts: 0 });
        assert_eq!(queue.next(), Some(Effect::Start(Source::Init)));
        let message = "\u{1b}\"\\ö".repeat(900);
        queue.saw(Event::FlowFailed {
            source: Source::Init,
            code: crate::stage1::BootCode::ListenFailed.into(),
            message,
        });
        assert_eq!(queue.next(), Some(Effect::Start(Source::Join)));
        assert_eq!(queue.next(), None, "the join goes on");
        queue.saw(Event::FlowIdle { source: Source::Join });
        assert!(matches!(queue.next(), Some(Effect::End(Stop::Refused { .. }))));
        assert!(recorded().unwrap().ended);
    }

    #[test]
    fn a_flood_of_wrong_keys_leaves_no_secret_behind_and_replays() {
        let mut queue = EventQueue::new(write);
        queue.saw(Event::DiskExisting);
        while queue.next().is_some() {}
        for _ in 0..100 {
            let (offer, verdict) = offer(Source::Recovery);
            queue.keep(offer);
            while let Some(effect) = queue.next() {
                match effect {
                    Effect::CheckKey(id) => queue.saw(Event::KeyWrong { id, code: OfferRefusal::DiskWrongKey }),
                    Effect::Answer(id, verdict) => queue.answer(id, verdict),
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(refused(&verdict), OfferRefusal::DiskWrongKey);
            assert!(queue.offers.is_empty());
        }
        assert_eq!(recorded().unwrap().events, 201);
    }

    #[test]
    fn whoever_comes_when_the_boot_is_decided_is_told() {
        let mut queue = EventQueue::new(write);
        queue.saw(Event::DiskExisting);
        while queue.next().is_some() {}
        let (first, first_verdict) = offer(Source::Rejoin);
        let (second, second_verdict) = offer(Source::Recovery);
        queue.keep(first);
        queue.keep(second);
        let cluster_id = Digest([7; 32]);
        while let Some(effect) = queue.next() {
            match effect {
                Effect::CheckKey(id) => queue.saw(Event::KeyFits {
                    id,
                    phase: DiskPhase::Bootstrapped,
                    role: NodeRole::Worker,
                    cluster_id,
                    epoch: 1,
                    attempts: 0,
                }),
                Effect::Lock(order) => queue.saw(Event::Extended { pcr15: order.expected() }),
                Effect::OpenDisk(_) => queue.saw(Event::DiskOpened),
                Effect::HandOver(_) => queue.saw(Event::HandedOver),
                Effect::Answer(id, verdict) => queue.answer(id, verdict),
                Effect::Leave => break,
                Effect::Stop(_) => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(first_verdict.try_recv(), Ok(Verdict::Accepted { cluster_id }));
        assert_eq!(refused(&second_verdict), OfferRefusal::AlreadyActivating);
        let (third, third_verdict) = offer(Source::Recovery);
        queue.turn_away(third);
        assert_eq!(refused(&third_verdict), OfferRefusal::AlreadyActivating);
        assert!(queue.offers.is_empty());
        assert!(recorded().unwrap().ended);
    }

    fn any_event() -> impl Strategy<Value = Event> {
        let id = || (0..6_u32).prop_map(OfferId);
        let source = prop_oneof![Just(Source::Init), Just(Source::Join), Just(Source::Rejoin), Just(Source::Recovery)];
        let flow = source.clone();
        let cluster_id = Digest([7; 32]);
        let phase = prop_oneof![Just(DiskPhase::Formatted), Just(DiskPhase::Bootstrapped)];
        let role = prop_oneof![Just(NodeRole::First), Just(NodeRole::Worker)];
        prop_oneof![
            (0..4_u8).prop_map(|attempts| Event::DiskFresh { attempts }),
            Just(Event::DiskExisting),
            Just(Event::DiskAbandoned { attempts: 1 }),
            (id(), source).prop_map(move |(id, source)| {
                Event::Offered(Grant { id, source, cluster_id: Some(cluster_id), epoch: None })
            }),
            (id(), phase, role).prop_map(move |(id, phase, role)| {
                Event::KeyFits { id, phase, role, cluster_id, epoch: 1, attempts: 0 }
            }),
            id().prop_map(|id| Event::KeyWrong { id, code: OfferRefusal::DiskWrongKey }),
            Just(Event::Extended { pcr15: Digest([1; 32]) }),
            Just(Event::DiskOpened),
            Just(Event::HandedOver),
            any::<String>().prop_map(|message| Event::Failed { code: crate::stage1::BootCode::Bug.into(), message }),
            (flow.clone(), any::<String>()).prop_map(|(source, message)| {
                Event::FlowFailed { source, code: crate::stage1::BootCode::ListenFailed.into(), message }
            }),
            flow.prop_map(|source| Event::FlowIdle { source }),
        ]
    }

    proptest! {
        #[test]
        fn whatever_happens_while_effects_are_under_way_the_record_replays(
            steps in prop::collection::vec(prop::option::of(any_event()), 0..60)
        ) {
            LOG.with_borrow_mut(String::clear);
            let mut queue = EventQueue::new(write);
            for step in steps {
                match step {
                    Some(event) => queue.saw(event),
                    None => drop(queue.next()),
                }
            }
            while queue.next().is_some() {}
            prop_assert_eq!(recorded().map(|replayed| replayed.ended), Ok(queue.machine.ended()));
        }
    }
}
