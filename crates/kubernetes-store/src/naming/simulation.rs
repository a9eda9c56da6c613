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
    /// A listing of this one ends that was begun so many changes ago: of what it heard since then it hears again.
    ListLate(usize, usize),
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
    /// Somebody makes a record of this machine by hand, or a command or a service of a release before does, that stands at once.
    Make(usize, BTreeSet<Claimed>),
}

fn name(machine: usize) -> String {
    format!("{machine:064x}")
}

/// What a service's write makes of a record.
fn written(mark: Mark) -> Mark {
    if mark == Mark::Released { mark } else { Mark::Stands }
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
    fn list(&mut self, etcd: &Etcd, as_of: usize) {
        let mut objects = BTreeMap::new();
        for (machine, object) in etcd.log.iter().take(as_of) {
            match object {
                Some(object) => drop(objects.insert(machine, object)),
                None => drop(objects.remove(machine)),
            }
        }
        self.naming.listed(objects.into_iter().map(|(machine, object)| claims(*machine, object)).collect());
        self.heard = as_of;
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
        if self.naming.standing(&name(machine), &known.claims) != Standing::First {
            return;
        }
        let reserving = Object { reserves: &claimed - &known.claims, mark: written(known.mark), ..known.clone() };
        if let Some(written) = etcd.write(machine, Some(&known), Some(reserving)) {
            self.calls.insert(machine, Call::Reserved(written));
        }
    }

    fn look(&mut self, etcd: &mut Etcd, machine: usize) {
        let Some(call) = self.calls.get(&machine).cloned() else { return };
        let (Call::Created(object) | Call::Reserved(object)) = &call;
        if !self.naming.knows(&claims(machine, object)) {
            // Another call gave it back, and this one waits in vain.
            let since = usize::try_from(object.revision).ok().and_then(|at| etcd.log.get(at..self.heard));
            if since.is_some_and(|since| since.iter().any(|(of, change)| *of == machine && change.is_none())) {
                self.calls.remove(&machine);
            }
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
                if self.naming.standing(&name(machine), &object.claims) != Standing::First {
                    return;
                }
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
        let standing = Object { mark: written(object.mark), ..object.clone() };
        if is_sure || etcd.write(machine, Some(object), Some(standing)).is_some() {
            etcd.release(machine, object.uid);
        }
    }

    /// A report, or the use of a ticket.
    fn write(&self, etcd: &mut Etcd, machine: usize) {
        let Some(known) = self.told(etcd, machine).cloned() else { return };
        if self.naming.standing(&name(machine), &known.claims) != Standing::First {
            return;
        }
        let next = Object { reserves: BTreeSet::new(), mark: written(known.mark), ..known.clone() };
        drop(etcd.write(machine, Some(&known), Some(next)));
    }

    /// A rejoin: nothing is written.
    fn serve(&self, etcd: &mut Etcd, machine: usize) {
        let Some(known) = self.told(etcd, machine) else { return };
        // By one of which it is not sure nothing is released without a write, and that needs this.
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

/// What leaves the order known, and each machine at one service: of two that it asks at once each may leave it to the other.
fn step_in_order() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (0..MACHINES, claimed()).prop_map(|(machine, it)| Step::Join(machine % SERVICES, machine, it)),
        1 => both().prop_map(|(service, machine)| Step::Look(service, machine)),
        2 => (0..SERVICES).prop_map(Step::Hear),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        14 => step_in_order(),
        2 => (both(), claimed()).prop_map(|((service, machine), claimed)| Step::Join(service, machine, claimed)),
        1 => (0..SERVICES).prop_map(Step::List),
        1 => (0..SERVICES, 1..6_usize).prop_map(|(service, changes)| Step::ListLate(service, changes)),
        2 => both().prop_map(|(service, machine)| Step::Write(service, machine)),
        2 => both().prop_map(|(service, machine)| Step::Serve(service, machine)),
        1 => (0..SERVICES).prop_map(Step::Sweep),
        1 => (0..SERVICES).prop_map(Step::End),
        1 => (0..MACHINES).prop_map(Step::Remove),
        1 => (0..MACHINES).prop_map(Step::Show),
        1 => (0..MACHINES).prop_map(Step::Touch),
        1 => (0..MACHINES, claimed()).prop_map(|(machine, claimed)| Step::Make(machine, claimed)),
    ]
}

fn run(steps: Vec<Step>) -> (Etcd, Vec<Service>) {
    let mut etcd = Etcd::default();
    let mut services: Vec<Service> = (0..SERVICES).map(|_| Service::default()).collect();
    for service in &mut services {
        service.list(&etcd, 0);
    }
    for step in steps {
        match step {
            Step::Join(service, machine, claimed) => services[service].join(&mut etcd, machine, claimed),
            Step::Look(service, machine) => services[service].look(&mut etcd, machine),
            Step::Hear(service) => services[service].hear(&etcd),
            Step::List(service) => services[service].list(&etcd, etcd.log.len()),
            Step::ListLate(service, changes) => {
                let as_of = services[service].heard.saturating_sub(changes);
                services[service].list(&etcd, as_of);
            }
            Step::Write(service, machine) => services[service].write(&mut etcd, machine),
            Step::Serve(service, machine) => services[service].serve(&mut etcd, machine),
            Step::Sweep(service) => services[service].sweep(&mut etcd),
            Step::End(service) => {
                services[service] = Service::default();
                services[service].list(&etcd, etcd.log.len());
            }
            Step::Remove(machine) => {
                if let Some(object) = etcd.objects.get(&machine).cloned() {
                    drop(etcd.write(machine, Some(&object), None));
                }
            }
            Step::Show(machine) => etcd.change(machine, |etcd, object| {
                etcd.released.contains(&(machine, object.uid)).then_some(Mark::Released)
            }),
            Step::Make(machine, claims) => {
                let object = Object { uid: 0, revision: 0, claims, reserves: BTreeSet::new(), mark: Mark::Stands };
                drop(etcd.write(machine, None, Some(object)));
            }
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
        for service in &mut services {
            while service.heard < etcd.log.len() {
                service.hear(&etcd);
            }
            (0..MACHINES).for_each(|machine| service.look(&mut etcd, machine));
        }
        // Whoever was given back is heard of; what is left was released, and nobody looks at anything any more.
        for service in &mut services {
            while service.heard < etcd.log.len() {
                service.hear(&etcd);
            }
            (0..MACHINES).for_each(|machine| service.look(&mut etcd, machine));
            prop_assert!(service.calls.is_empty() && service.naming.withheld().is_empty());
        }
        let released = |(machine, object): (&usize, &Object)| etcd.released.contains(&(*machine, object.uid));
        prop_assert!(etcd.objects.iter().all(released));
        prop_assert!(etcd.log.is_empty() || !etcd.objects.is_empty(), "the first one in the log stands");
    }
}

#[test]
fn all_that_a_record_may_claim_can_be_reserved() {
    let disk = |number: usize| Claimed::Disk(format!("0a0a0a0a-0000-4000-8000-{number:012x}").parse().unwrap());
    let name = Claimed::Name(format!("{}.{}", "n".repeat(63), "m".repeat(63)).parse().unwrap());
    let all: BTreeSet<_> = (0..MAX_DISKS + MAX_RETIRED).map(disk).chain([name]).collect();
    let text = serde_json::to_string(&all).unwrap();
    let annotations = Some([(RESERVES.to_owned(), text)].into());
    assert_eq!(reserved(&ObjectMeta { annotations, ..ObjectMeta::default() }), all);
}
