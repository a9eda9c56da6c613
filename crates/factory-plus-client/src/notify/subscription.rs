//! One subscription: what it wants, what was heard, and who waits for more.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::notify::{Read, Request, Response, Update};
use serde_json::{Map, Value};

use super::assembly::Assembly;
use super::{Reading, State};
use crate::{Etag, Limits};

/// What a subscription asks for.
#[derive(Debug, Clone)]
pub(crate) enum Want {
    Watch { url: String },
    Search { parent: String, filter: Option<Value>, reduce: fn(Value) -> Value },
}

/// A subscription.
pub(crate) struct Subscription {
    id: u64,
    want: Want,
    known: Mutex<Known>,
    heard: event_listener::Event,
}

/// What was heard.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) state: State,
    /// Counts what was heard.
    pub(crate) number: u64,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Watch(Option<Reading>),
    Search(Assembly),
}

impl Subscription {
    pub(crate) fn new(id: u64, want: Want, limits: &Limits) -> Self {
        let content = match &want {
            Want::Watch { .. } => Content::Watch(None),
            Want::Search { .. } => Content::Search(Assembly::new(limits.children, limits.children_bytes)),
        };
        let known = Known { state: State::Waiting, number: 0, content };
        Self { id, want, known: Mutex::new(known), heard: event_listener::Event::new() }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn request(&self, uuid: Uuid) -> Request {
        match self.want.clone() {
            Want::Watch { url } => Request::Watch { uuid, request: Read { url, method: None } },
            Want::Search { parent, filter, .. } => Request::Search { uuid, parent, filter },
        }
    }

    pub(crate) fn path(&self) -> &str {
        match &self.want {
            Want::Watch { url } => url,
            Want::Search { parent, .. } => parent,
        }
    }

    /// Takes an update that does not end the subscription; what is wrong with it otherwise.
    pub(crate) fn hear(&self, update: Update) -> Result<(), String> {
        let heard = {
            let mut known = self.lock();
            match (&mut known.content, &self.want) {
                (Content::Watch(reading), _) => watched(reading, update),
                (Content::Search(assembly), Want::Search { reduce, .. }) => searched(assembly, update, *reduce),
                (Content::Search(_), Want::Watch { .. }) => Ok(None),
            }
        };
        match heard? {
            Some(refused) => self.stale(&refused),
            None => self.change(|known| known.state = State::Fresh),
        }
        Ok(())
    }

    /// It does not follow any more, or still not.
    pub(crate) fn stale(&self, reason: &str) {
        self.stale_since(Instant::now(), reason);
    }

    /// The same, and did not since then already.
    pub(crate) fn stale_since(&self, since: Instant, reason: &str) {
        self.change(|known| {
            let since = match &known.state {
                State::Stale { since, .. } => *since,
                _ => since,
            };
            known.state = State::Stale { since, reason: reason.into() };
        });
    }

    /// A service that refuses what it told before says that a reading is not ours any more.
    pub(crate) fn forget(&self) {
        if let Content::Watch(reading) = &mut self.lock().content {
            *reading = None;
        }
    }

    pub(crate) fn look<T>(&self, look: impl FnOnce(&Known) -> T) -> T {
        look(&self.lock())
    }

    /// What `look` finds, now or after something was heard.
    pub(crate) async fn wait<T>(&self, mut look: impl FnMut(&mut Known) -> Option<T>) -> T {
        loop {
            let heard = self.heard.listen();
            if let Some(found) = look(&mut self.lock()) {
                return found;
            }
            heard.await;
        }
    }

    fn change(&self, change: impl FnOnce(&mut Known)) {
        let mut known = self.lock();
        change(&mut known);
        known.number += 1;
        drop(known);
        self.heard.notify(usize::MAX);
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Subscription({})", self.path())
    }
}

impl Known {
    pub(crate) fn reading(&self) -> Option<&Reading> {
        match &self.content {
            Content::Watch(reading) => reading.as_ref(),
            Content::Search(_) => None,
        }
    }

    pub(crate) fn assembly(&self) -> Option<&Assembly> {
        match &self.content {
            Content::Search(assembly) => Some(assembly),
            Content::Watch(_) => None,
        }
    }

    pub(crate) fn assembly_mut(&mut self) -> Option<&mut Assembly> {
        match &mut self.content {
            Content::Search(assembly) => Some(assembly),
            Content::Watch(_) => None,
        }
    }
}

/// What was heard of a watch; why it is stale although the subscription goes on, if so.
fn watched(reading: &mut Option<Reading>, update: Update) -> Result<Option<String>, String> {
    let Response { status, body, headers } = update.response.ok_or("an update of a watch without a response")?;
    if status >= 500 {
        return Ok(Some(answers(status)));
    }
    *reading = Some(Reading { status, body: body.map(Arc::new), etag: etag(&headers) });
    Ok(None)
}

/// What was heard of a search; why it is stale although the subscription goes on, if so.
fn searched(assembly: &mut Assembly, update: Update, reduce: fn(Value) -> Value) -> Result<Option<String>, String> {
    let Update { response, child, children, .. } = update;
    if let Some(child) = child {
        if !assembly.is_complete() {
            return Err("a change of a child before all children".into());
        }
        let response = response.ok_or("a change of a child without a response")?;
        match body_of(&child, response)? {
            (child, Some(body)) => assembly.set(child, reduce(body)).map_err(|error| error.to_string())?,
            (child, None) => assembly.gone(child),
        }
        return Ok(None);
    }
    if let Some(Response { status: status @ 400.., .. }) = response {
        return Ok(Some(answers(status)));
    }
    let children = children.ok_or("the start of a search without children")?;
    let mut all = BTreeMap::new();
    for (child, response) in children {
        if let (child, Some(body)) = body_of(&child, response)? {
            all.insert(child, reduce(body));
        }
    }
    assembly.replace(all).map_err(|error| error.to_string())?;
    Ok(None)
}

/// A child, and its body unless it is gone, out of the filter, or not for us.
fn body_of(child: &str, response: Response) -> Result<(Uuid, Option<Value>), String> {
    let child: Uuid = child.parse().map_err(|_| format!("a child {:?} that is no UUID", shortened(child)))?;
    match (response.status, response.body) {
        (200..=299, Some(body)) => Ok((child, Some(body))),
        (403 | 404 | 410 | 412, _) => Ok((child, None)),
        (status, _) => Err(format!("child {child} with status {status} and no body")),
    }
}

fn answers(status: u16) -> String {
    match status {
        403 => "it forbids to read that: grant our principal the permission".into(),
        404 => "it knows no such thing: check the UUIDs, and that the centre's dumps were loaded".into(),
        status => format!("it answers {status}"),
    }
}

/// Why a subscription ended.
pub(crate) fn refusal(status: u16) -> String {
    answers(status)
}

fn shortened(text: &str) -> String {
    text.chars().take(60).collect()
}

/// Services give the tag with its quotes, or without.
fn etag(headers: &Map<String, Value>) -> Option<Etag> {
    let text = headers.get("etag")?.as_str()?;
    Etag::unquoted(text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(json!(null)),
            Just(json!(0)),
            Just(json!([1])),
            Just(json!({"a": "b"})),
            "[ -~]{0,9}".prop_map(Value::from)
        ]
    }

    fn response() -> impl Strategy<Value = Response> {
        let status = prop_oneof![Just(200), Just(204), Just(403), Just(404), Just(412), Just(503), any::<u16>()];
        (status, prop::option::of(value()), prop::option::of(value())).prop_map(|(status, body, etag)| {
            let headers = etag.into_iter().map(|etag| ("etag".to_owned(), etag)).collect();
            Response { status, body, headers }
        })
    }

    fn child() -> impl Strategy<Value = String> {
        prop_oneof![4 => (0..9_u8).prop_map(|n| Uuid::from_bytes([n; 16]).to_string()), 1 => "[ -~]{0,40}"]
    }

    fn update() -> impl Strategy<Value = Update> {
        let children = prop::option::of(prop::collection::btree_map(child(), response(), 0..8));
        (any::<u16>(), prop::option::of(response()), prop::option::of(child()), children).prop_map(
            |(status, response, child, children)| Update { uuid: Uuid::NIL, status, response, child, children },
        )
    }

    proptest! {
        /// Whatever a service tells: it is taken or named, bounds hold, and only what was taken makes a subscription fresh.
        #[test]
        fn any_updates_are_taken_or_named_within_bounds(updates in prop::collection::vec(update(), 0..40)) {
            let limits = Limits { children: 5, children_bytes: 60, ..Limits::default() };
            let search = Want::Search { parent: "v2/".into(), filter: None, reduce: |body| body };
            for want in [Want::Watch { url: "v2/x".into() }, search] {
                let subscription = Subscription::new(1, want, &limits);
                for update in updates.clone() {
                    let before = subscription.look(|known| known.number);
                    match subscription.hear(update) {
                        Ok(()) => prop_assert_eq!(subscription.look(|known| known.number), before + 1),
                        Err(why) => {
                            prop_assert!(why.len() < 200, "{}", why);
                            prop_assert_eq!(subscription.look(|known| known.number), before);
                        }
                    }
                    let children = subscription.look(|known| known.assembly().and_then(Assembly::children));
                    let children: BTreeMap<_, _> = children.unwrap_or_default();
                    prop_assert!(children.len() <= 5);
                    let fresh = subscription.look(|known| known.state == State::Fresh && known.assembly().is_some());
                    prop_assert!(!fresh || subscription.look(|known| known.assembly().is_some_and(Assembly::is_complete)));
                }
            }
        }
    }

    #[test]
    fn a_tag_is_one_with_its_quotes_and_without() {
        let tag = |text: &str| etag(&Map::from_iter([("etag".to_owned(), json!(text))]));
        assert_eq!(tag("a"), tag("\"a\""));
        assert_eq!((tag("a\"b"), etag(&Map::new())), (None, None));
    }

    #[test]
    fn who_is_stale_already_is_so_since_then() {
        let subscription = Subscription::new(1, Want::Watch { url: "v2/x".into() }, &Limits::default());
        let since = Instant::now();
        subscription.stale_since(since, "first");
        subscription.stale("second");
        let state = subscription.look(|known| known.state.clone());
        assert_eq!(state, State::Stale { since, reason: "second".into() });
    }
}
