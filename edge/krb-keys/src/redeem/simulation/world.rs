//! A KDC, a centre and an API server that are none: they do at once what the real ones do, and can be cut off between any two
//! effects.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use latchkey_factory_plus::{Upn, Uuid};
use latchkey_kerberos::keytab::{Entry, Keytab};
use latchkey_kerberos::{AdminKey, Denied, KerberosCode, Secret, Shown};
use zeroize::Zeroizing;

use crate::failure::Failure;
use crate::redeem::{Administrator, OneTime, World};
use crate::secret::{Data, Stored, Written};

pub(super) const CLUSTER: Uuid = Uuid::constant("c1c1c1c1-c1c1-41c1-81c1-c1c1c1c1c1c1");
const ONE_TIME: u32 = 600;

/// When this program is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kill {
    /// At the effect of this number, from 0.
    pub(super) at: usize,
    /// Once that is done; its answer is lost.
    pub(super) after: bool,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Principal {
    pub(super) password: Vec<u8>,
    pub(super) version: u32,
    pub(super) expires: Option<u32>,
    pub(super) password_expires: Option<u32>,
    pub(super) enabled: bool,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) secrets: BTreeMap<String, (bool, u64, Data)>,
    pub(super) kdc: BTreeMap<String, Principal>,
    pub(super) link_over: bool,
    pub(super) claimed: Option<String>,
    pub(super) redemptions: usize,
    pub(super) now: u32,
    pub(super) effects: usize,
    pub(super) kill: Option<Kill>,
    pub(super) dead: bool,
    drawn: u8,
}

/// Clones are one.
#[derive(Clone, Default)]
pub(super) struct Sim(Rc<RefCell<State>>);

pub(super) struct Session {
    sim: Sim,
    who: Upn,
    key: AdminKey,
    open: RefCell<bool>,
}

impl Sim {
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.borrow_mut())
    }

    /// One effect. Others may go on before it.
    async fn act<T>(&self, effect: impl FnOnce(&mut State) -> T) -> Result<T, Killed> {
        smol::future::yield_now().await;
        let mut state = self.0.borrow_mut();
        let kill = state.kill.filter(|kill| kill.at == state.effects);
        state.effects += 1;
        if state.dead || kill.is_some_and(|kill| !kill.after) {
            state.dead = true;
            return Err(Killed);
        }
        let done = effect(&mut state);
        if kill.is_some() {
            state.dead = true;
            return Err(Killed);
        }
        Ok(done)
    }
}

struct Killed;

impl From<Killed> for Failure {
    fn from(_: Killed) -> Self {
        Self::Again("killed".into())
    }
}

impl From<Killed> for Denied {
    fn from(_: Killed) -> Self {
        Self::new(KerberosCode::HelperFailed, "killed")
    }
}

impl State {
    pub(super) fn authenticate(&self, principal: &Upn, key: &AdminKey) -> Result<(), Denied> {
        let denied = |code| Err(Denied::new(code, "simulated"));
        let Some(known) = self.kdc.get(principal.as_str()) else { return denied(KerberosCode::PrincipalUnknown) };
        if !known.enabled {
            return denied(KerberosCode::PrincipalRevoked);
        }
        if known.expires.is_some_and(|end| end <= self.now) {
            return denied(KerberosCode::PrincipalExpired);
        }
        let right = match key {
            AdminKey::Password(password) => **password == known.password,
            AdminKey::KeytabBytes(bytes) => {
                let keytab = Keytab::parse(bytes).unwrap();
                keytab.entries().iter().any(|entry| entry.version == known.version && *entry.key == known.password)
            }
            AdminKey::Keytab(_) => false,
        };
        if right { Ok(()) } else { denied(KerberosCode::WrongPassword) }
    }

    fn known(&mut self, principal: &Upn) -> Result<&mut Principal, Denied> {
        self.kdc.get_mut(principal.as_str()).ok_or_else(|| Denied::new(KerberosCode::PrincipalUnknown, "simulated"))
    }

    /// As the centre does.
    fn admit(&mut self, principal: &Upn, password: Vec<u8>) {
        let ends = Some(self.now + ONE_TIME);
        let fresh = Principal { password: vec![], version: 0, expires: ends, password_expires: ends, enabled: true };
        let known = self.kdc.entry(principal.as_str().to_owned()).or_insert(fresh);
        (known.password, known.version) = (password, known.version + 1);
        (known.expires, known.password_expires) = (ends, ends);
    }

    fn draw(&mut self) -> String {
        self.drawn += 1;
        format!("random {}", self.drawn)
    }
}

impl World for Sim {
    type Admin = Session;

    async fn read(&self, name: &str) -> Result<Option<Stored>, Failure> {
        let read = |state: &mut State| {
            let (ours, version, data) = state.secrets.get(name)?.clone();
            Some(Stored { data, ours, version: version.to_string() })
        };
        Ok(self.act(read).await?)
    }

    async fn write(&self, name: &str, before: Option<&Stored>, data: &Data) -> Result<Written, Failure> {
        let write = |state: &mut State| {
            let there = state.secrets.get(name).map(|(_, version, _)| *version);
            if there.map(|version| version.to_string()) != before.map(|before| before.version.clone()) {
                return Written::Changed;
            }
            state.secrets.insert(name.to_owned(), (true, there.unwrap_or(0) + 1, data.clone()));
            Written::Done
        };
        Ok(self.act(write).await?)
    }

    async fn redeem(&self, claim: &Zeroizing<String>) -> Result<OneTime, Failure> {
        let redeem = |state: &mut State| {
            if state.link_over {
                return Err(Failure::Refused("the link has expired".into()));
            }
            if state.claimed.as_ref().is_some_and(|claimed| *claimed != **claim) {
                return Err(Failure::Refused("another edge redeemed this link".into()));
            }
            state.claimed = Some(claim.to_string());
            state.redemptions += 1;
            let principal: Upn = "op1krbkeys/Nord@R".parse().unwrap();
            let password = state.draw().into_bytes();
            state.admit(&principal, password.clone());
            let principal = principal.as_str().to_owned();
            Ok(OneTime { cluster: CLUSTER, principal, password: Zeroizing::new(password) })
        };
        self.act(redeem).await?
    }

    async fn authenticate(&self, principal: &Upn, key: &AdminKey) -> Result<(), Denied> {
        self.act(|state| state.authenticate(principal, key)).await?
    }

    async fn derive(&self, principal: &Upn, password: &Secret, version: u32) -> Result<Keytab, Denied> {
        let mut keytab = Keytab::default();
        let entry = Entry { principal: principal.clone(), time: 0, version, kind: 20, key: password.clone() };
        keytab.add(entry).unwrap();
        Ok(keytab)
    }

    fn admin(&self, principal: &Upn, key: AdminKey) -> Session {
        Session { sim: self.clone(), who: principal.clone(), key, open: RefCell::new(false) }
    }

    fn random(&self) -> Result<Zeroizing<String>, Failure> {
        Ok(Zeroizing::new(self.with(State::draw)))
    }
}

impl Session {
    async fn act<T>(&self, effect: impl FnOnce(&mut State) -> Result<T, Denied>) -> Result<T, Denied> {
        let act = |state: &mut State| {
            if !*self.open.borrow() {
                state.authenticate(&self.who, &self.key)?;
                *self.open.borrow_mut() = true;
            }
            effect(state)
        };
        self.sim.act(act).await?
    }
}

impl Administrator for Session {
    async fn show(&self, principal: &Upn) -> Result<Option<Shown>, Denied> {
        let shown = |known: &Principal| {
            let Principal { version, expires, password_expires, enabled, .. } = *known;
            Shown { version, enabled, expires, password_expires }
        };
        self.act(|state| Ok(state.kdc.get(principal.as_str()).map(shown))).await
    }

    async fn create(&self, principal: &Upn, password: &Secret) -> Result<(), Denied> {
        let create = |state: &mut State| {
            if state.kdc.contains_key(principal.as_str()) {
                return Err(Denied::new(KerberosCode::PrincipalExists, "simulated"));
            }
            let password = password.to_vec();
            let new = Principal { password, version: 1, expires: None, password_expires: None, enabled: true };
            state.kdc.insert(principal.as_str().to_owned(), new);
            Ok(())
        };
        self.act(create).await
    }

    async fn set_password(&self, principal: &Upn, password: &Secret) -> Result<(), Denied> {
        let set = |state: &mut State| {
            let known = state.known(principal)?;
            (known.password, known.version, known.password_expires) = (password.to_vec(), known.version + 1, None);
            Ok(())
        };
        self.act(set).await
    }

    async fn clear_expiry(&self, principal: &Upn) -> Result<(), Denied> {
        let clear = |state: &mut State| {
            let known = state.known(principal)?;
            (known.expires, known.password_expires) = (None, None);
            Ok(())
        };
        self.act(clear).await
    }

    async fn enable(&self, principal: &Upn) -> Result<(), Denied> {
        self.act(|state| state.known(principal).map(|known| known.enabled = true)).await
    }
}
