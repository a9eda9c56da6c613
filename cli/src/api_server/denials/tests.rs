//! Commands that change denials at once, with others between any two of their steps, and commands that end after any step.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::Pin;

use latchkey_keys::ClusterId;
use serde_json::Value;
use smol::future::{poll_once, yield_now};

use super::*;

/// The two objects, each of which is read and written as a whole.
struct Memory {
    objects: RefCell<BTreeMap<String, Value>>,
    revision: Cell<u64>,
    /// The cluster's document cannot be written.
    is_broken: Cell<bool>,
}

impl Maps for Memory {
    async fn known(&self, name: &str) -> Result<Option<ConfigMap>, CommandError> {
        yield_now().await;
        Ok(self.objects.borrow().get(name).map(|object| serde_json::from_value(object.clone()).unwrap()))
    }

    async fn put_document(&self, map: &ConfigMap) -> Result<bool, CommandError> {
        yield_now().await;
        let object: Value = serde_json::from_slice(&map.to_document()).unwrap();
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        if self.is_broken.get() && name == CLUSTER_MAP {
            return Err(others_first(&name));
        }
        let known = self.objects.borrow().get(&name).cloned().unwrap_or_default();
        if known["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"] {
            return Ok(false);
        }
        // As an API server does: where nothing changes, the revision stays.
        if known != object {
            self.put(&name, object);
        }
        Ok(true)
    }

    fn is_gone(&self, name: &str) -> CommandError {
        others_first(name)
    }
}

fn ek(byte: u8) -> EkDigest {
    EkDigest::from_hex(&format!("{byte:02x}").repeat(32)).unwrap()
}

const A: u8 = 0x0a;
const B: u8 = 0x0b;
const C: u8 = 0x0c;
const D: u8 = 0x0d;

impl Memory {
    /// A, B and C are shut out.
    fn new() -> Self {
        let memory = Self { objects: RefCell::default(), revision: Cell::default(), is_broken: Cell::default() };
        let cluster = ClusterFile::new("demo", ClusterId::from_bytes([0xc1; 32]), [0x5a; 32], 1, 1_800_000_000);
        let cluster = cluster.counting(CountedDenials::of(3)).to_json();
        let listed = [A, B, C].map(|byte| (ek(byte).to_string(), String::new()));
        for map in [
            ConfigMap::with(CLUSTER_MAP, [(CLUSTER_FILE.to_owned(), cluster)].into()),
            ConfigMap::with(DENIED_MAP, listed.into()),
        ] {
            let object: Value = serde_json::from_slice(&map.to_document()).unwrap();
            memory.put(object["metadata"]["name"].as_str().unwrap(), object.clone());
        }
        memory
    }

    fn put(&self, name: &str, mut object: Value) {
        self.revision.set(self.revision.get() + 1);
        object["metadata"]["resourceVersion"] = self.revision.get().to_string().into();
        self.objects.borrow_mut().insert(name.to_owned(), object);
    }

    fn now(&self) -> Denials {
        smol::block_on(self.denied()).unwrap()
    }

    /// Of these machines; that nothing is lost, and as many are counted as are shut out.
    fn is_whole(&self, denied: &[u8], about: &str) {
        let known = self.now();
        assert_eq!(known.iter().copied().collect::<Vec<_>>(), denied.iter().map(|byte| ek(*byte)).collect::<Vec<_>>());
        let counted = CountedDenials { last: known.counted().unwrap().last, ..CountedDenials::of(denied.len() as u64) };
        assert_eq!((known.counted(), known.lost()), (Some(&counted), 0), "{about}");
    }
}

/// What an operator does.
#[derive(Clone, Copy, Debug)]
enum Act {
    Deny(u8),
    Allow(u8),
}

type Doing<'a> = Pin<Box<dyn Future<Output = Result<(), CommandError>> + 'a>>;

impl Act {
    fn begin(self, memory: &Memory) -> Doing<'_> {
        match self {
            Self::Deny(byte) => Box::pin(memory.shut_out(ek(byte), "")),
            Self::Allow(byte) => Box::pin(async move { memory.take_denial_back(ek(byte)).await.map(drop) }),
        }
    }

    fn whole(self, memory: &Memory) {
        smol::block_on(self.begin(memory)).unwrap();
    }
}

/// Takes so many steps, if there are as many; whether it came to its end.
fn take(doing: &mut Option<Doing<'_>>, steps: usize) -> bool {
    for _ in 0..steps {
        let Some(one) = doing else { break };
        if let Some(done) = smol::block_on(poll_once(one)) {
            done.unwrap();
            *doing = None;
        }
    }
    doing.is_none()
}

/// More than any of them takes, if nobody comes between.
const STEPS: usize = 18;

/// The first takes some steps, then the second, then the first again; then each comes to its end.
fn in_every_order(acts: [Act; 2], check: impl Fn(&Memory, &str)) {
    for first in 0..STEPS {
        'second: for second in 0..STEPS {
            for third in 0..STEPS {
                let memory = Memory::new();
                let [mut one, mut other] = acts.map(|act| Some(act.begin(&memory)));
                let is_over = [take(&mut one, first), take(&mut other, second), take(&mut one, third)];
                assert!(take(&mut other, usize::MAX) && take(&mut one, usize::MAX));
                check(&memory, &format!("{acts:?} {first} {second} {third}"));
                match is_over {
                    [_, true, _] => break 'second,
                    [_, _, true] => break,
                    _ => {}
                }
            }
        }
    }
}

#[test]
fn two_who_change_denials_at_once_lose_none_and_lift_none_in_any_order_of_their_steps() {
    use Act::{Allow, Deny};
    for (acts, denied) in [
        ([Allow(A), Allow(B)], &[C] as &[u8]),
        ([Allow(A), Allow(A)], &[B, C]),
        ([Allow(A), Deny(D)], &[B, C, D]),
        ([Deny(D), Allow(A)], &[B, C, D]),
        ([Deny(C), Deny(D)], &[A, B, C, D]),
        ([Deny(D), Deny(D)], &[A, B, C, D]),
    ] {
        in_every_order(acts, |memory, about| memory.is_whole(denied, about));
    }
    // The word that came last of one machine counts, and none of another is lost.
    for acts in [[Allow(A), Deny(A)], [Deny(A), Allow(A)]] {
        in_every_order(acts, |memory, about| {
            let known = memory.now();
            // Where it is denied it may be so as by hand.
            assert_eq!((known.lost(), known.has(&ek(B)), known.has(&ek(C))), (0, true, true), "{about}");
        });
    }
}

/// The denial that is taken back and said again is listed by who says it, not only named in the cluster's document: there the next one
/// takes its place.
#[test]
fn a_denial_that_is_taken_back_and_said_again_is_not_lost_by_a_third_who_denies_another_machine() {
    use Act::{Allow, Deny};
    for first in 0..STEPS {
        for second in 0..STEPS {
            let mut is_said = false;
            for third in 0..STEPS {
                let memory = Memory::new();
                let [mut one, mut again, mut other] = [Allow(A), Deny(A), Deny(D)].map(|act| Some(act.begin(&memory)));
                take(&mut one, first);
                is_said = take(&mut again, second);
                let is_over = take(&mut other, third);
                for doing in [&mut one, &mut other, &mut again] {
                    assert!(take(doing, usize::MAX));
                }
                let known = memory.now();
                let stay = [B, C, D].map(|byte| known.has(&ek(byte)));
                assert_eq!((known.lost(), stay), (0, [true; 3]), "{first} {second} {third}");
                if is_over {
                    break;
                }
            }
            if is_said {
                break;
            }
        }
    }
}

/// Its machine stays shut out, and nobody else's key waits for it.
#[test]
fn a_denial_that_is_taken_back_and_cut_after_any_step_costs_nobody_else_anything() {
    use Act::{Allow, Deny};
    for steps in 0..STEPS {
        for (next, denied) in
            [(Allow(B), &[C] as &[u8]), (Deny(D), &[B, C, D]), (Deny(A), &[A, B, C]), (Allow(A), &[B, C])]
        {
            let memory = Memory::new();
            let mut cut = Some(Allow(A).begin(&memory));
            take(&mut cut, steps);
            drop(cut);
            let known = memory.now();
            assert_eq!((known.lost(), known.has(&ek(B)), known.has(&ek(C))), (0, true, true), "{steps}");
            next.whole(&memory);
            assert_eq!(memory.now().lost(), 0, "{next:?} after {steps}");
            if !matches!(next, Deny(A) | Allow(A)) {
                // Nobody but who takes it back does.
                assert_eq!(memory.now().has(&ek(A)), known.has(&ek(A)), "{next:?} after {steps}");
                Allow(A).whole(&memory);
            }
            memory.is_whole(denied, &format!("{next:?} after {steps}"));
        }
    }
}

/// Who takes it back was stopped before the entry is removed, say, which says the same as before; and the next denial is counted by then,
/// and not listed.
#[test]
fn one_that_is_denied_again_while_it_is_taken_back_stays_listed_whoever_is_denied_next() {
    use Act::{Allow, Deny};
    for steps in 0..STEPS {
        for of_next in 0..STEPS {
            let memory = Memory::new();
            let mut taken_back = Some(Allow(A).begin(&memory));
            take(&mut taken_back, steps);
            let is_leaving = memory.now().is_leaving(&ek(A));
            Deny(A).whole(&memory);
            let mut next = Some(Deny(D).begin(&memory));
            take(&mut next, of_next);
            assert!(take(&mut taken_back, usize::MAX) && take(&mut next, usize::MAX));
            let known = memory.now();
            assert_eq!((known.lost(), known.has(&ek(D))), (0, true), "{steps} {of_next}");
            assert!(known.has(&ek(A)) || !is_leaving, "{steps} {of_next}");
        }
    }
}

#[test]
fn a_denial_that_could_not_be_counted_is_when_it_is_denied_again() {
    let memory = Memory::new();
    memory.is_broken.set(true);
    let error = smol::block_on(memory.shut_out(ek(D), "stolen")).unwrap_err();
    assert_eq!(error.code, PlaceCode::NotCounted.into());
    assert!(memory.now().has(&ek(D)));
    memory.is_broken.set(false);
    Act::Deny(D).whole(&memory);
    memory.is_whole(&[A, B, C, D], "denied again");
}
