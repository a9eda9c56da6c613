//! Speaks with one service's `/notify/v2`, for as long as somebody wants something of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_tungstenite::tungstenite::client::IntoClientRequest as _;
use async_tungstenite::tungstenite::protocol::WebSocketConfig;
use async_tungstenite::tungstenite::{self, Message};
use async_tungstenite::{WebSocketStream, client_async_with_config};
use latchkey_connection_limits::Backoff;
use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::notify::{Request, Update};
use smol::Timer;
use smol::future::FutureExt as _;
use smol::stream::StreamExt as _;

use super::subscription::{Subscription, refusal};
use super::table::Table;
use crate::client::Opened;
use crate::connection::Stream;
use crate::error::{CallError, Place, shown};
use crate::token::Token;
use crate::within::within;
use crate::{Limits, Service};

/// Where services notify.
const PATH: &str = "notify/v2";
/// Subscriptions that were closed and whose end the service did not confirm yet.
const MOST_CLOSING: usize = 1024;

/// Follows everything in the table, for ever; who drops the future ends it.
pub(super) async fn follow(service: Service, table: Arc<Table>) {
    let limits = service.limits().clone();
    let ceiling = u64::try_from(limits.back_off.as_millis()).unwrap_or(u64::MAX);
    let mut backoff = Backoff::new(seed()).up_to(ceiling);
    let mut spoiled: Option<Token> = None;
    loop {
        wanted(&table).await;
        let begun = Instant::now();
        let (lost, heard) = match connect(&service, spoiled.as_ref(), &limits).await {
            Ok((socket, place)) => {
                spoiled = None;
                Session::new(socket, place, &table, &limits).run().await
            }
            // A token may have ended before its time: another one, at once.
            Err(Refusal::Token(token)) if spoiled.is_none() => {
                spoiled = Some(token);
                continue;
            }
            Err(Refusal::Token(token)) => {
                spoiled = Some(token);
                ("it refuses a new token".into(), Instant::now())
            }
            Err(Refusal::Other(error)) => (error.to_string(), Instant::now()),
        };
        tracing::debug!(why = %lost, "change notification lost");
        table.all().iter().for_each(|subscription| subscription.stale_since(heard, &lost));
        if begun.elapsed() >= limits.back_off {
            backoff.reset();
        }
        Timer::after(Duration::from_millis(backoff.next_ms())).await;
    }
}

async fn wanted(table: &Table) {
    loop {
        let changed = table.changed();
        if !table.is_empty() {
            return;
        }
        changed.await;
    }
}

/// Clients that lost the same service do not come back together.
fn seed() -> u64 {
    let random = *Uuid::random().as_bytes();
    u64::from_ne_bytes([random[0], random[1], random[2], random[3], random[4], random[5], random[9], random[10]])
}

type Socket = WebSocketStream<Stream>;

enum Refusal {
    Token(Token),
    Other(CallError),
}

/// A connection on which the service accepted our token.
async fn connect(service: &Service, spoiled: Option<&Token>, limits: &Limits) -> Result<(Socket, Place), Refusal> {
    let Opened { stream, url, token, place } = service.open(PATH, spoiled).await.map_err(Refusal::Other)?;
    let scheme = if url.is_secure() { "wss" } else { "ws" };
    let request = format!("{scheme}://{}/{PATH}", url.authority()).into_client_request();
    let request = request.map_err(|error| Refusal::Other(CallError::bad_call(&place, &error)))?;
    let config = WebSocketConfig::default()
        .read_buffer_size(16 << 10)
        .write_buffer_size(0)
        .max_write_buffer_size(1 << 20)
        .max_message_size(Some(limits.frame))
        .max_frame_size(Some(limits.frame));
    let silent = || Refusal::Other(CallError::unreachable(&place, &"silent while change notification was asked for"));
    let upgraded = within(limits.connect, client_async_with_config(request, stream, Some(config))).await;
    let (mut socket, _) = upgraded.ok_or_else(silent)?.map_err(|error| Refusal::Other(wrong(&place, &error)))?;
    let introduce = async {
        socket.send(Message::text(token.bearer().as_str())).await?;
        socket.next().await.unwrap_or(Err(tungstenite::Error::ConnectionClosed))
    };
    let answer = within(limits.read, introduce).await.ok_or_else(silent)?;
    match answer.map_err(|error| Refusal::Other(wrong(&place, &error)))? {
        Message::Text(text) if text.as_str() == "200" => Ok((socket, place)),
        Message::Text(text) if text.as_str() == "401" => Err(Refusal::Token(token)),
        other => {
            let said = shown(&other.into_data());
            Err(Refusal::Other(CallError::bad_answer(&place, &format_args!("it answers a token with {said:?}"))))
        }
    }
}

fn wrong(place: &Place, error: &tungstenite::Error) -> CallError {
    match error {
        tungstenite::Error::Io(_) | tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed => {
            CallError::unreachable(place, error)
        }
        tungstenite::Error::Http(answer) => CallError::Refused {
            place: place.clone(),
            status: answer.status().as_u16(),
            text: shown(answer.body().as_deref().unwrap_or_default()),
        },
        other => CallError::bad_answer(place, other),
    }
}

/// One connection and what was asked on it.
struct Session<'a> {
    socket: Socket,
    place: Place,
    table: &'a Table,
    limits: &'a Limits,
    /// By the UUID they were asked with.
    asked: BTreeMap<Uuid, Arc<Subscription>>,
    /// Those that are in `asked`.
    ids: BTreeSet<u64>,
    /// Closed here; the service may not have heard it yet.
    closing: BTreeSet<Uuid>,
    /// Refused ones, and when they are asked for again.
    refused: BTreeMap<u64, (Backoff, Instant)>,
    /// What of the table was compared.
    compared: Option<u64>,
    heard: Instant,
    ping: Instant,
}

enum Step {
    Frame(Option<Result<Message, tungstenite::Error>>),
    Look,
}

impl<'a> Session<'a> {
    fn new(socket: Socket, place: Place, table: &'a Table, limits: &'a Limits) -> Self {
        let now = Instant::now();
        Self {
            socket,
            place,
            table,
            limits,
            asked: BTreeMap::new(),
            ids: BTreeSet::new(),
            closing: BTreeSet::new(),
            refused: BTreeMap::new(),
            compared: None,
            heard: now,
            ping: now + limits.ping,
        }
    }

    /// Until the connection is lost; why it is, and when the service was heard last: what it told may be over since then.
    async fn run(mut self) -> (String, Instant) {
        loop {
            let table = self.table;
            let changed = table.changed();
            let done = match self.reconcile().await {
                Ok(()) => self.step(changed).await,
                Err(error) => Err(error),
            };
            if let Err(error) = done {
                return (error.to_string(), self.heard);
            }
            // A service that sends without pause must not keep the thread to itself.
            smol::future::yield_now().await;
        }
    }

    /// Asks for what is wanted and was not asked for, and ends what is not wanted any more.
    async fn reconcile(&mut self) -> Result<(), CallError> {
        let (now, version) = (Instant::now(), self.table.version());
        if self.compared == Some(version) && self.again().is_none_or(|again| again > now) {
            return Ok(());
        }
        let over: Vec<Uuid> =
            self.asked.iter().filter(|(_, asked)| !self.table.wants(asked.id())).map(|(uuid, _)| *uuid).collect();
        for uuid in over {
            self.close(uuid).await?;
        }
        let table = self.table;
        self.refused.retain(|id, _| table.wants(*id));
        for subscription in self.table.all() {
            let id = subscription.id();
            if self.ids.contains(&id) || self.refused.get(&id).is_some_and(|(_, again)| *again > now) {
                continue;
            }
            let uuid = Uuid::random();
            self.send(&subscription.request(uuid)).await?;
            self.ids.insert(id);
            self.asked.insert(uuid, subscription);
        }
        self.compared = Some(version);
        Ok(())
    }

    /// When a refused subscription is to be asked for again.
    fn again(&self) -> Option<Instant> {
        self.refused.iter().filter(|(id, _)| !self.ids.contains(id)).map(|(_, (_, again))| *again).min()
    }

    async fn close(&mut self, uuid: Uuid) -> Result<(), CallError> {
        if let Some(subscription) = self.asked.remove(&uuid) {
            self.ids.remove(&subscription.id());
        }
        if self.closing.len() >= MOST_CLOSING {
            return Err(CallError::bad_answer(&self.place, &"it confirms no closed subscription"));
        }
        self.closing.insert(uuid);
        self.send(&Request::Close { uuid }).await
    }

    async fn send(&mut self, request: &Request) -> Result<(), CallError> {
        let text = serde_json::to_string(request).map_err(|error| CallError::bad_call(&self.place, &error))?;
        self.write(Message::text(text)).await
    }

    async fn write(&mut self, message: Message) -> Result<(), CallError> {
        match within(self.limits.read, self.socket.send(message)).await {
            Some(sent) => sent.map_err(|error| wrong(&self.place, &error)),
            None => Err(CallError::unreachable(&self.place, &"it reads nothing")),
        }
    }

    /// Waits for whatever comes first, and does what is due.
    async fn step(&mut self, changed: event_listener::EventListener) -> Result<(), CallError> {
        let due = self.again().map_or(self.ping, |again| again.min(self.ping));
        let frame = async { Step::Frame(self.socket.next().await) };
        let changed = async {
            changed.await;
            Step::Look
        };
        let timer = async {
            Timer::at(due).await;
            Step::Look
        };
        match frame.or(changed).or(timer).await {
            Step::Frame(Some(Ok(message))) => {
                self.heard = Instant::now();
                self.take(message).await
            }
            Step::Frame(Some(Err(error))) => Err(wrong(&self.place, &error)),
            Step::Frame(None) => Err(CallError::unreachable(&self.place, &"it closed the connection")),
            Step::Look => self.keep_alive().await,
        }
    }

    async fn keep_alive(&mut self) -> Result<(), CallError> {
        let now = Instant::now();
        if now < self.ping {
            return Ok(());
        }
        if now.duration_since(self.heard) > self.limits.ping * 5 / 2 {
            return Err(CallError::unreachable(&self.place, &"it answers no ping"));
        }
        self.ping = now + self.limits.ping;
        self.write(Message::Ping(bytes::Bytes::new())).await
    }

    async fn take(&mut self, message: Message) -> Result<(), CallError> {
        let text = match message {
            Message::Text(text) => text,
            Message::Ping(_) | Message::Pong(_) => return Ok(()),
            Message::Close(frame) => {
                let said = shown(frame.map(|frame| frame.reason.as_bytes().to_vec()).unwrap_or_default().as_slice());
                return Err(CallError::unreachable(&self.place, &format_args!("it closed the connection: {said:?}")));
            }
            Message::Binary(_) | Message::Frame(_) => {
                return Err(CallError::bad_answer(&self.place, &"a frame that is no text"));
            }
        };
        let update: Update = serde_json::from_str(text.as_str())
            .map_err(|error| CallError::bad_answer(&self.place, &format_args!("a frame that is no update: {error}")))?;
        self.update(update).await
    }

    async fn update(&mut self, update: Update) -> Result<(), CallError> {
        let uuid = update.uuid;
        if self.closing.contains(&uuid) {
            if update.is_last() {
                self.closing.remove(&uuid);
            }
            return Ok(());
        }
        let Some(subscription) = self.asked.get(&uuid).cloned() else {
            return Err(CallError::bad_answer(
                &self.place,
                &format_args!("an update of {uuid}, which nobody asked for"),
            ));
        };
        let path = subscription.path();
        if update.is_last() {
            self.asked.remove(&uuid);
            self.ids.remove(&subscription.id());
            if update.status < 500 {
                subscription.forget();
            }
            self.refuse(&subscription, &format!("{}: {path}: {}", self.place, refusal(update.status)));
        } else if let Err(why) = subscription.hear(update) {
            self.refuse(&subscription, &format!("{}: {path}: a wrong answer: {why}", self.place));
            self.close(uuid).await?;
        } else {
            self.refused.remove(&subscription.id());
        }
        Ok(())
    }

    /// Leaves a subscription for a while.
    fn refuse(&mut self, subscription: &Subscription, why: &str) {
        subscription.stale(why);
        let ceiling = u64::try_from(self.limits.back_off.as_millis()).unwrap_or(u64::MAX);
        let entry = self.refused.entry(subscription.id());
        let (backoff, again) = entry.or_insert_with(|| (Backoff::new(seed()).up_to(ceiling), Instant::now()));
        *again = Instant::now() + Duration::from_millis(backoff.next_ms());
    }
}
