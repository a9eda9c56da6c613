//! Every resource, killed between any two things that are done for it, and taken up again: against a KDC and a Secret that are a model.

use std::collections::BTreeMap;

use super::super::resource::{Place, Wanted};
use super::*;

const NOW: u64 = 1_000_000;
const NAMES: [&str; 2] = ["nd1/N/a", "nd1/N/b"];
const ROUNDS: usize = 5;

/// A key or a password; two are one if they are equal.
type Key = u32;

/// A principal at the KDC.
#[derive(Debug, Clone, PartialEq)]
struct Known {
    enabled: bool,
    /// The newest one last.
    keys: Vec<Key>,
}

#[derive(Debug, Clone)]
struct World {
    resource: Resource,
    kdc: Vec<Option<Known>>,
    /// What the Secret has for each principal.
    held: Option<Vec<Key>>,
    made: Key,
    /// Steps until somebody kills it.
    left: usize,
}

/// It was killed.
#[derive(Debug)]
struct Killed;

impl World {
    fn wanted(&self) -> &Wanted {
        self.resource.wanted.as_ref().unwrap()
    }

    /// What the operator finds out.
    fn facts(&self) -> Facts {
        let shown = |known: &Known| Shown { version: 1, enabled: known.enabled, expires: None, password_expires: None };
        Facts {
            held: self.seen(),
            shown: self.kdc.iter().map(|known| known.as_ref().map(shown)).collect(),
            taken_by: None,
            wanted_by_others: vec![false; self.kdc.len()],
            place_wanted_by_others: false,
            own: false,
            now: NOW,
        }
    }

    fn seen(&self) -> Held {
        if self.wanted().place.is_none() {
            return Held::Nowhere;
        }
        let Some(held) = &self.held else { return Held::Nothing };
        if self.kdc.iter().any(Option::is_none) {
            return Held::Something { serves: Some(false) };
        }
        let mut serves = Some(true);
        for (known, key) in self.kdc.iter().flatten().zip(held) {
            match (known.enabled, known.keys.last() == Some(key)) {
                // The KDC says that it is disabled, and no more.
                (false, _) => serves = None,
                (true, false) => return Held::Something { serves: Some(false) },
                (true, true) => {}
            }
        }
        Held::Something { serves }
    }

    fn key(&mut self) -> Key {
        self.made += 1;
        self.made
    }

    fn place(&self, upn: &Upn) -> usize {
        self.wanted().principals.iter().position(|known| known == upn).expect("a principal of the resource")
    }

    /// Something that is done whole, or not at all.
    fn step(&mut self) -> Result<(), Killed> {
        self.left = self.left.checked_sub(1).ok_or(Killed)?;
        Ok(())
    }

    fn carry_out(&mut self, effect: &Effect) -> Result<(), Killed> {
        self.step()?;
        let all = self.kdc.len();
        match effect {
            Effect::WritePassword => self.held = Some(vec![self.key(); all.max(1)]),
            Effect::CreateWithPassword(upn) | Effect::SetPassword(upn) => {
                let (place, key) = (self.place(upn), self.held.as_ref().expect("it is in the Secret first")[0]);
                let enabled = self.kdc[place].as_ref().is_none_or(|known| known.enabled);
                self.kdc[place] = Some(Known { enabled, keys: vec![key] });
            }
            Effect::CreateRandom(upn) => {
                let (place, key) = (self.place(upn), self.key());
                self.kdc[place].get_or_insert(Known { enabled: true, keys: vec![key] });
            }
            Effect::Rekey { keep_old } => {
                let mut keytab = vec![];
                for place in 0..all {
                    let key = self.key();
                    let keys = &mut self.kdc[place].as_mut().expect("it was made first").keys;
                    keys.retain(|_| *keep_old);
                    keys.push(key);
                    keytab.push(key);
                    self.step()?;
                }
                self.held = Some(keytab);
            }
            Effect::Enable(upn) | Effect::Disable(upn) => {
                let place = self.place(upn);
                self.kdc[place].as_mut().expect("it is there").enabled = matches!(effect, Effect::Enable(_));
            }
            Effect::Trim => {
                for known in self.kdc.iter_mut().flatten() {
                    known.keys.drain(..known.keys.len() - 1);
                }
            }
            Effect::RemoveKey => self.held = None,
            Effect::Hold | Effect::Release | Effect::NoteOldKeys | Effect::ForgetOldKeys | Effect::ForgetForce => {
                effect.note(&mut self.resource, NOW);
            }
        }
        Ok(())
    }

    /// As the operator works: until nothing is to be done, or it is killed after so many steps.
    fn run(&mut self, left: usize) -> Result<(), Killed> {
        self.left = left;
        for _ in 0..ROUNDS {
            let facts = self.facts();
            match decide(&self.resource, &facts) {
                Decision::Do(effects) if effects.is_empty() => return Ok(()),
                Decision::Do(effects) => effects.iter().try_for_each(|effect| self.carry_out(effect))?,
                other => panic!("{other:?}: {self:?}"),
            }
        }
        panic!("it comes to no end: {self:?}");
    }

    /// That all is as it is to be.
    fn is_right(&self) {
        let resource = &self.resource;
        let known = || self.kdc.iter().flatten();
        if resource.deleting {
            assert!(resource.finalizers.is_empty() && self.held.is_none(), "{self:?}");
            assert!(known().all(|known| !known.enabled), "{self:?}");
            return;
        }
        assert_eq!(resource.finalizers, [FINALIZER], "{self:?}");
        if self.wanted().kind == Kind::Disabled {
            assert!(known().all(|known| !known.enabled), "{self:?}");
            return;
        }
        assert_eq!(self.seen(), Held::Something { serves: Some(true) }, "{self:?}");
        assert!(resource.annotation(FORCE_REKEY).is_none(), "{self:?}");
        assert!(resource.has_old_keys || known().all(|known| known.keys.len() == 1), "nobody drops them: {self:?}");
        assert!(trim_at(resource).is_none_or(|at| at > NOW), "{self:?}");
    }
}

/// What is on a resource at the start.
#[derive(Debug, Clone, Copy)]
enum Mark {
    None,
    /// Somebody wants a new key.
    Force,
    /// Old keys were kept for long enough.
    Old,
    /// Somebody deleted it.
    Deleting,
}

fn world(kind: Kind, principals: &[Option<bool>], held: Option<Key>, mark: Mark) -> World {
    let old = matches!(mark, Mark::Old);
    let keys = if old { vec![1, 2] } else { vec![2] };
    let kdc = principals.iter().map(|enabled| enabled.map(|enabled| Known { enabled, keys: keys.clone() })).collect();
    let upn = |name: &&str| Upn::in_realm(name, &"R".parse().unwrap()).unwrap();
    let place = (kind != Kind::Disabled).then(|| Place { secret: "s".into(), key: "k".into() });
    let wanted = Wanted { kind, principals: NAMES[..principals.len()].iter().map(upn).collect(), place, account: None };
    let annotations = match mark {
        Mark::Force => BTreeMap::from([(FORCE_REKEY.to_owned(), String::new())]),
        Mark::Old => BTreeMap::from([(REKEYED_AT.to_owned(), (NOW - KEEP_OLD).to_string())]),
        Mark::None | Mark::Deleting => BTreeMap::new(),
    };
    let deleting = matches!(mark, Mark::Deleting);
    let resource = Resource {
        uid: "u".into(),
        generation: 1,
        created: String::new(),
        deleting,
        finalizers: if deleting || old { vec![FINALIZER.into()] } else { vec![] },
        annotations,
        has_old_keys: old,
        status: None,
        wanted: Ok(wanted),
    };
    let held = held.filter(|_| kind != Kind::Disabled).map(|key| vec![key; principals.len().max(1)]);
    World { resource, kdc, held, made: 10, left: 0 }
}

/// All of them: each principal missing, disabled and enabled; in the Secret nothing, a key that serves, and another one.
fn worlds() -> Vec<World> {
    let states = [None, Some(false), Some(true)];
    let pairs: Vec<Vec<Option<bool>>> = states.iter().flat_map(|one| states.map(|other| vec![*one, other])).collect();
    let singles: Vec<Vec<Option<bool>>> = states.map(|one| vec![one]).into();
    let mut all = vec![];
    for kind in [
        Kind::Random { keep_old: false },
        Kind::Random { keep_old: true },
        Kind::Password,
        Kind::PresetPassword,
        Kind::Disabled,
        Kind::Local,
    ] {
        let of_kind = match kind {
            Kind::Random { .. } | Kind::Disabled => [singles.clone(), pairs.clone()].concat(),
            Kind::Password | Kind::PresetPassword => singles.clone(),
            Kind::Local => vec![vec![]],
        };
        for principals in of_kind {
            for held in [None, Some(2), Some(7)] {
                for mark in [Mark::None, Mark::Force, Mark::Old, Mark::Deleting] {
                    let keeps = kind == Kind::Random { keep_old: true };
                    // Without a password nothing is to be done; old keys are of those that keep them.
                    let preset = kind == Kind::PresetPassword && held.is_none() && !matches!(mark, Mark::Deleting);
                    if !preset && (keeps || !matches!(mark, Mark::Old)) {
                        all.push(world(kind, &principals, held, mark));
                    }
                }
            }
        }
    }
    all
}

#[test]
fn killed_between_any_two_steps_it_ends_well_when_it_is_started_again() {
    let mut kills = 0;
    for before in worlds() {
        for steps in 0.. {
            let mut world = before.clone();
            let is_done = world.run(steps).is_ok();
            world.run(usize::MAX).unwrap();
            world.is_right();
            if is_done {
                break;
            }
            kills += 1;
        }
    }
    println!("it was killed {kills} times");
    assert!(kills > 1000, "{kills}");
}

#[test]
fn killed_twice_it_ends_well_too() {
    for before in worlds() {
        for first in 0..12 {
            for second in 0..12 {
                let mut world = before.clone();
                let _killed = (world.run(first), world.run(second));
                world.run(usize::MAX).unwrap();
                world.is_right();
            }
        }
    }
}
