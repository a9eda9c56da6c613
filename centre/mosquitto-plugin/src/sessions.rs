//! Who is connected, and what it may do.

use crate::ask::ask;
use crate::options::Options;
use latchkey_broker::Grants;
use latchkey_broker::protocol::{Answer, Password, Question};
use std::collections::HashMap;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// After a question that was not answered, clients are refused for so long without asking.
const PAUSE: Duration = Duration::from_secs(1);

/// The plugin's state.
pub(crate) struct Sessions {
    options: Options,
    state: Mutex<State>,
    /// Wakes the thread that asks again: when it must end.
    wake: Condvar,
}

#[derive(Default)]
struct State {
    /// By the address of Mosquitto's structure for the client.
    clients: HashMap<usize, Client>,
    principals: HashMap<String, Rights>,
    /// Clients (by id) whose rights have ended, for Mosquitto's thread to disconnect.
    ended: Vec<String>,
    not_before: Option<Instant>,
    over: bool,
    /// Whose connection ended last. Mosquitto says so before it asks whether that client's will may be published, and has one
    /// thread: what it asks next of anybody else comes after that.
    leaving: Option<usize>,
}

struct Client {
    /// Mosquitto may use the address for another one.
    id: String,
    username: String,
    principal: String,
}

struct Rights {
    grants: Grants,
    asked: Instant,
}

/// What a client wants to do.
pub(crate) enum Wish<'a> {
    /// To publish to a topic.
    Publish(&'a str),
    /// To receive a message on a topic.
    Receive(&'a str),
    /// To subscribe to a filter.
    Subscribe(&'a str),
}

/// A client, as Mosquitto tells it.
#[derive(Clone, Copy)]
pub(crate) struct Told<'a> {
    pub(crate) place: usize,
    pub(crate) id: &'a str,
    pub(crate) username: &'a str,
    pub(crate) address: &'a str,
}

impl Sessions {
    pub(crate) fn new(options: Options) -> Self {
        Self { options, state: Mutex::default(), wake: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a client in, or says why not.
    pub(crate) fn connect(&self, client: Told<'_>, password: Zeroizing<String>) -> Result<(), String> {
        // Whatever was known at this place was another client's.
        self.state().forget(client.place);
        if self.state().not_before.is_some_and(|time| Instant::now() < time) {
            return Err("the auth service did not answer a moment ago".into());
        }
        let question = Question::Connect {
            username: client.username.to_owned(),
            password: Password(password),
            address: client.address.to_owned(),
        };
        let answer = ask(&self.options.socket, &question, self.options.deadline);
        let mut state = self.state();
        match answer {
            Ok(Answer::Allowed { principal, topics }) => {
                let client_is =
                    Client { id: client.id.into(), username: client.username.into(), principal: principal.clone() };
                state.clients.insert(client.place, client_is);
                state.principals.insert(principal, Rights { grants: topics, asked: Instant::now() });
                Ok(())
            }
            Ok(Answer::Refused { code, .. }) => Err(code),
            Err(error) => {
                state.not_before = Some(Instant::now() + PAUSE);
                Err(format!("the auth service at {}: {error}", self.options.socket.display()))
            }
        }
    }

    /// Whether a client may. No, if it is not known.
    pub(crate) fn allows(&self, client: Told<'_>, wish: &Wish<'_>) -> bool {
        let mut state = self.state();
        state.left(Some(client.place));
        let known = state.clients.get(&client.place);
        let known = known.filter(|known| known.id == client.id && known.username == client.username);
        let rights = known.and_then(|known| state.principals.get(&known.principal));
        let rights = rights.filter(|rights| rights.asked.elapsed() < self.options.stale);
        rights.is_some_and(|Rights { grants, .. }| match wish {
            Wish::Publish(topic) => grants.may_publish(topic),
            Wish::Receive(topic) => grants.may_receive(topic),
            Wish::Subscribe(filter) => grants.may_subscribe(filter),
        })
    }

    /// A client's connection has ended. It is forgotten once its will, if it has one, may have been asked for.
    pub(crate) fn disconnect(&self, place: usize) {
        let mut state = self.state();
        state.left(None);
        state.leaving = Some(place);
    }

    /// Clients to disconnect.
    pub(crate) fn ended(&self) -> Vec<String> {
        std::mem::take(&mut self.state().ended)
    }

    /// Asks again for the rights of all that are connected, until [`Self::end`].
    pub(crate) fn refresh(&self) {
        loop {
            let state = self.state();
            let waited = self.wake.wait_timeout_while(state, self.options.refresh, |state| !state.over);
            let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if state.over {
                return;
            }
            let principals: Vec<_> = state.principals.keys().cloned().collect();
            drop(state);
            for principal in principals {
                let question = Question::Refresh { principal: principal.clone() };
                let answer = ask(&self.options.socket, &question, self.options.deadline);
                self.state().refreshed(&principal, answer);
            }
        }
    }

    /// Lets the thread that asks again end.
    pub(crate) fn end(&self) {
        self.state().over = true;
        self.wake.notify_all();
    }
}

impl State {
    /// Forgets whose connection ended last, unless it is the one at `asking`.
    fn left(&mut self, asking: Option<usize>) {
        if let Some(place) = self.leaving.filter(|place| Some(*place) != asking) {
            self.forget(place);
        }
    }

    /// Forgets a client, and its rights, if no other one has them.
    fn forget(&mut self, place: usize) {
        self.leaving = self.leaving.filter(|leaving| *leaving != place);
        if let Some(client) = self.clients.remove(&place)
            && !self.clients.values().any(|other| other.principal == client.principal)
        {
            self.principals.remove(&client.principal);
        }
    }

    fn refreshed(&mut self, principal: &str, answer: io::Result<Answer>) {
        let Some(rights) = self.principals.get_mut(principal) else { return };
        match answer {
            Ok(Answer::Allowed { principal: same, topics }) if same == principal => {
                *rights = Rights { grants: topics, asked: Instant::now() };
            }
            // It stays as it was, until it is stale.
            Err(_) | Ok(Answer::Refused { outage: true, .. }) => {}
            Ok(_) => {
                self.principals.remove(principal);
                // Whose connection has ended already may be gone, and another client have its id.
                let connected = self.clients.iter().filter(|(place, _)| Some(**place) != self.leaving);
                let ended = connected.map(|(_, client)| client).filter(|client| client.principal == principal);
                self.ended.extend(ended.map(|client| client.id.clone()));
            }
        }
    }
}
