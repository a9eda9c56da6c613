//! Services that write into one etcd and hear of it late, in listings, or not at all, in every order; each may end at any moment.

use super::*;
use proptest::prelude::*;

const SERVICES: usize = 3;
const MACHINES: usize = 4;

/// What etcd has of a machine.
#[derive(Clone, Debug, PartialEq)]
struct Object {
    uid: u64,
    revision: u64,
    claims: BTreeSet<Claimed>,
    reserves: BTreeSet<Claimed>,
    mark: Mark,
}

#[derive(Default)]
struct Etcd {
    objects: BTreeMap<usize, Object>,
    /// Each change: of which machine, and to what.
    log: Vec<(usize, Option<Object>)>,
    /// To which object something was released.
    released: BTreeSet<(usize, u64)>,
}

/// A call under way.
#[derive(Clone, Debug)]
enum Call {
    /// Created, and not known to be first.
    Created(Object),
    /// The same of what is reserved.
    Reserved(Object),
}

#[derive(Default)]
struct Service {
    naming: Naming,
    heard: usize,
    calls: BTreeMap<usize, Call>,
}

#[derive(Clone, Debug)]
enum Step {
    /// Through this service this machine asks for this.
    Join(usize, usize, BTreeSet<Claimed>),
    /// This service looks whether it has heard of what this machine's call wrote.
    Look(usize, usize),
    /// This one hears of one more change.
    Hear(usize),
    /// This one lists everything.
    List(usize),
    /// A report of this machine, or the use of its ticket.
    Write(usize, usize),
    /// A rejoin.
    Serve(usize, usize),
    /// This service deletes what is lost.
    Sweep(usize),
    /// It ends, and starts.
    End(usize),
    /// The operator removes a machine.
    Remove(usize),
    /// Its status is written, if something was released to it.
    Show(usize),
    /// Somebody labels its record by hand.
    Touch(usize),
}

fn name(machine: usize) -> String {
    format!("{machine:064x}")
}

fn claims(machine: usize, object: &Object) -> Claims {
    let mut of: BTreeMap<_, _> = object.reserves.iter().map(|claimed| (claimed.clone(), Mark::Again)).collect();
    of.extend(object.claims.iter().map(|claimed| (claimed.clone(), object.mark)));
    let (object_name, uid) = (name(machine), object.uid.to_string());
    Claims { object: object_name, uid, revision: object.revision, of, mark: object.mark, damaged: false }
}

impl Etcd {
    /// What stands there of the machine, if it is as it was looked at.
    fn write(&mut self, machine: usize, before: Option<&Object>, next: Option<Object>) -> Option<Object> {
        if self.objects.get(&machine) != before {
            return None;
        }
        let revision = self.log.len() as u64 + 1;
        let next = next.map(|object| Object { revision, uid: before.map_or(revision, |before| before.uid), ..object });
        self.log.push((machine, next.clone()));
        match next.clone() {
            Some(object) => drop(self.objects.insert(machine, object)),
            None => drop(self.objects.remove(&machine)),
        }
        next
    }

    fn change(&mut self, machine: usize, mark: impl Fn(&Self, &Object) -> Option<Mark>) {
        let Some(object) = self.objects.get(&machine).cloned() else { return };
        if let Some(mark) = mark(self, &object) {
            drop(self.write(machine, Some(&object), Some(Object { mark, ..object.clone() })));
        }
    }

    /// A service deletes it: never something that was released.
    fn give_back(&mut self, machine: usize, object: &Object) {
        assert!(!self.released.contains(&(machine, object.uid)), "{machine} had something and lost its record");
        drop(self.write(machine, Some(object), None));
    }

    /// What this object claims is released to its machine: nobody else's who stands has any of it.
    fn release(&mut self, machine: usize, uid: u64) {
        self.released.insert((machine, uid));
        let all = self.objects.iter().filter(|(machine, object)| self.released.contains(&(**machine, object.uid)));
        let mut given = BTreeMap::new();
        for (machine, claimed) in all.flat_map(|(machine, object)| object.claims.iter().map(move |it| (machine, it))) {
            if let Some(other) = given.insert(claimed, machine) {
                panic!("{claimed:?} is released to {machine} and to {other}");
            }
        }
    }
}

impl Service {
    fn list(&mut self, etcd: &Etcd) {
        self.naming.listed(etcd.objects.iter().map(|(machine, object)| claims(*machine, object)).collect());
        self.heard = etcd.log.len();
    }

    fn hear(&mut self, etcd: &Etcd) {
        let Some((machine, change)) = etcd.log.get(self.heard) else { return };
        self.heard += 1;
        match change {
            Some(object) => drop(self.naming.heard(claims(*machine, object))),
            None => drop(self.naming.gone(&name(*machine))),
        }
    }

    /// What this service knows of the machine's record as it is now, if it tells of it.
    fn told<'a>(&self, etcd: &'a Etcd, machine: usize) -> Option<&'a Object> {
        let ek = EkDigest::from_hex(&name(machine)).unwrap();
        let object = etcd.objects.get(&machine)?;
        let is_known = self.naming.objects.get(&name(machine)) == Some(&claims(machine, object));
        (is_known && !self.naming.is_withheld(&ek)).then_some(object)
    }

    fn join(&mut self, etcd: &mut Etcd, machine: usize, claimed: BTreeSet<Claimed>) {
        if self.calls.contains_key(&machine) {
            return;
        }
        let Some(known) = self.told(etcd, machine).cloned() else {
            let object = Object { uid: 0, revision: 0, claims: claimed, reserves: BTreeSet::new(), mark: Mark::Once };
            self.sweep(etcd);
            if let Some(written) = etcd.write(machine, None, Some(object)) {
                self.calls.insert(machine, Call::Created(written));
            }
            return;
        };
        if known.mark != Mark::Stands && self.naming.standing_of_all(&name(machine)) != Standing::First {
            return;
        }
        let reserving = Object { reserves: &claimed - &known.claims, mark: Mark::Stands, ..known.clone() };
        if let Some(written) = etcd.write(machine, Some(&known), Some(reserving)) {
            self.calls.insert(machine, Call::Reserved(written));
        }
    }

    fn look(&mut self, etcd: &mut Etcd, machine: usize) {
        let Some(call) = self.calls.get(&machine).cloned() else { return };
        let (Call::Created(object) | Call::Reserved(object)) = &call;
        if !self.naming.knows(&claims(machine, object)) {
            return;
        }
        self.calls.remove(&machine);
        match &call {
            Call::Created(object) => match self.naming.standing_of_all(&name(machine)) {
                Standing::First => self.release(etcd, machine, object),
                Standing::Later(_) if etcd.objects.get(&machine) == Some(object) => etcd.give_back(machine, object),
                _ => {}
            },
            Call::Reserved(object) => {
                let is_first = self.naming.standing(&name(machine), &object.reserves) == Standing::First;
                let gained = if is_first { object.reserves.clone() } else { BTreeSet::new() };
                // A name takes the place of the former one, so that somebody else may have that.
                let kept = object
                    .claims
                    .iter()
                    .filter(|it| gained.is_empty() || matches!(it, Claimed::Disk(_)))
                    .cloned()
                    .collect();
                let next = Object { claims: &gained | &kept, reserves: BTreeSet::new(), ..object.clone() };
                if let Some(written) = etcd.write(machine, Some(object), Some(next)).filter(|_| is_first) {
                    etcd.release(machine, written.uid);
                }
            }
        }
    }

    /// By a record of which it is not sure that nobody deletes it, only once it is written again.
    fn release(&self, etcd: &mut Etcd, machine: usize, object: &Object) {
        let is_sure = self.naming.is_sure(&EkDigest::from_hex(&name(machine)).unwrap());
        let standing = Object { mark: Mark::Stands, ..object.clone() };
        if is_sure || etcd.write(machine, Some(object), Some(standing)).is_some() {
            etcd.release(machine, object.uid);
        }
    }

    /// A report, or the use of a ticket.
    fn write(&self, etcd: &mut Etcd, machine: usize) {
        let Some(known) = self.told(etcd, machine).cloned() else { return };
        if known.mark != Mark::Stands && self.naming.standing_of_all(&name(machine)) != Standing::First {
            return;
        }
        let next = Object { reserves: BTreeSet::new(), mark: Mark::Stands, ..known.clone() };
        drop(etcd.write(machine, Some(&known), Some(next)));
    }

    /// A rejoin: nothing is written.
    fn serve(&self, etcd: &mut Etcd, machine: usize) {
        let Some(known) = self.told(etcd, machine) else { return };
        // Where two records that are told of claim one thing, nobody gets it: by hand.
        if self.naming.standing(&name(machine), &known.claims) == Standing::First {
            let known = known.clone();
            self.release(etcd, machine, &known);
        }
    }

    fn sweep(&self, etcd: &mut Etcd) {
        for ek in self.naming.withheld().into_iter().filter(|ek| self.naming.is_lost(ek)) {
            let machine = (0..MACHINES).find(|machine| name(*machine) == ek.to_string()).unwrap();
            let Some(object) = etcd.objects.get(&machine).cloned() else { continue };
            if self.naming.objects.get(&name(machine)) == Some(&claims(machine, &object)) {
                etcd.give_back(machine, &object);
            }
        }
    }
}

fn claimed() -> impl Strategy<Value = BTreeSet<Claimed>> {
    (0..3_u8, 0..3_u8).prop_map(|(name, disk)| {
        let uuid = format!("0a0a0a0a-0000-4000-8000-00000000000{disk}").parse().unwrap();
        BTreeSet::from([Claimed::Name(format!("n-{name}").parse().unwrap()), Claimed::Disk(uuid)])
    })
}

fn both() -> impl Strategy<Value = (usize, usize)> {
    (0..SERVICES, 0..MACHINES)
}

/// What leaves the order known.
fn step_in_order() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (both(), claimed()).prop_map(|((service, machine), claimed)| Step::Join(service, machine, claimed)),
        1 => both().prop_map(|(service, machine)| Step::Look(service, machine)),
        2 => (0..SERVICES).prop_map(Step::Hear),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        16 => step_in_order(),
        1 => (0..SERVICES).prop_map(Step::List),
        2 => both().prop_map(|(service, machine)| Step::Write(service, machine)),
        2 => both().prop_map(|(service, machine)| Step::Serve(service, machine)),
        1 => (0..SERVICES).prop_map(Step::Sweep),
        1 => (0..SERVICES).prop_map(Step::End),
        1 => (0..MACHINES).prop_map(Step::Remove),
        1 => (0..MACHINES).prop_map(Step::Show),
        1 => (0..MACHINES).prop_map(Step::Touch),
    ]
}

fn run(steps: Vec<Step>) -> (Etcd, Vec<Service>) {
    let mut etcd = Etcd::default();
    let mut services: Vec<Service> = (0..SERVICES).map(|_| Service::default()).collect();
    for service in &mut services {
        service.list(&etcd);
    }
    for step in steps {
        match step {
            Step::Join(service, machine, claimed) => services[service].join(&mut etcd, machine, claimed),
            Step::Look(service, machine) => services[service].look(&mut etcd, machine),
            Step::Hear(service) => services[service].hear(&etcd),
            Step::List(service) => services[service].list(&etcd),
            Step::Write(service, machine) => services[service].write(&mut etcd, machine),
            Step::Serve(service, machine) => services[service].serve(&mut etcd, machine),
            Step::Sweep(service) => services[service].sweep(&mut etcd),
            Step::End(service) => {
                services[service] = Service::default();
                services[service].list(&etcd);
            }
            Step::Remove(machine) => {
                if let Some(object) = etcd.objects.get(&machine).cloned() {
                    drop(etcd.write(machine, Some(&object), None));
                }
            }
            Step::Show(machine) => etcd
                .change(machine, |etcd, object| etcd.released.contains(&(machine, object.uid)).then_some(Mark::Stands)),
            Step::Touch(machine) => etcd
                .change(machine, |_, object| Some(if object.mark == Mark::Once { Mark::Again } else { object.mark })),
        }
    }
    (etcd, services)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, ..ProptestConfig::default() })]

    /// [`Etcd::release`] and [`Etcd::give_back`] look at each step.
    #[test]
    fn whatever_ends_or_is_late_nothing_is_released_to_two_machines(
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        drop(run(steps));
    }

    #[test]
    fn where_the_order_is_known_the_first_one_stands_and_of_the_others_nothing_is_left(
        steps in proptest::collection::vec(step_in_order(), 1..60),
    ) {
        let (mut etcd, mut services) = run(steps);
        // Until everybody has heard of everything, and nobody does anything about it any more.
        loop {
            let before = etcd.log.len();
            for service in &mut services {
                while service.heard < etcd.log.len() {
                    service.hear(&etcd);
                }
                (0..MACHINES).for_each(|machine| service.look(&mut etcd, machine));
            }
            if etcd.log.len() == before {
                break;
            }
        }
        for service in &services {
            prop_assert!(service.naming.withheld().is_empty());
            // What is waited for to the deadline: of an object that another service deleted, for the same machine's other call.
            let is_gone = |(machine, call): (&usize, &Call)| {
                let (Call::Created(object) | Call::Reserved(object)) = call;
                etcd.objects.get(machine).is_none_or(|now| now.uid != object.uid)
            };
            prop_assert!(service.calls.iter().all(is_gone));
        }
        // A record may stand by which nothing was released: its machine asked through two services for two things at once, and one of
        // them is another's. Then it gets its own when it asks again.
        let released = |etcd: &Etcd, (machine, object): (&usize, &Object)| etcd.released.contains(&(*machine, object.uid));
        let held = |it: (&usize, &Object)| it.1.reserves.is_empty() && (it.1.mark == Mark::Stands || released(&etcd, it));
        prop_assert!(etcd.objects.iter().all(held));
        (0..MACHINES).for_each(|machine| services[machine % SERVICES].serve(&mut etcd, machine));
        prop_assert!(etcd.objects.iter().all(|it| released(&etcd, it)));
        prop_assert!(etcd.log.is_empty() || !etcd.objects.is_empty(), "the first one in the log stands");
    }
}
