//! One WebSocket: who it is, then subscriptions.

use super::outbox::{Outbox, Outgoing, outbox};
use super::{Feed, FeedRefusal, Told};
use crate::auth::gate::Denied;
use crate::auth::tokens::Ticket;
use crate::config::size;
use crate::connection::wire::Stream;
use crate::handler::Handler;
use crate::server::Shared;
use async_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use async_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use async_tungstenite::tungstenite::{Error, Message};
use async_tungstenite::{WebSocketReceiver, WebSocketSender, WebSocketStream};
use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::notify::{Request, Update};
use latchkey_service_runtime::serve::Stop;
use serde_json::Value;
use smol::future::{FutureExt, yield_now};
use smol::stream::StreamExt;
use smol::{Executor, Task, Timer};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What is read, and gathered for writing, at a time.
const BUFFER: usize = 8 * 1024;

/// How often a token is looked at: it may have been revoked.
const LOOK: Duration = Duration::from_secs(5);

/// How long the last frame may take.
const FAREWELL: Duration = Duration::from_secs(2);

/// The longest first frame: no token is longer.
const MAX_FIRST: usize = 8192;

type Sender = WebSocketSender<Stream>;
type Incoming = WebSocketReceiver<Stream>;

/// Why a WebSocket ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The client closed it, or is gone.
    Gone,
    /// The client does not read.
    Slow,
    /// The client does not answer.
    Silent,
    /// Its token is good no more.
    Expired,
    /// This service stops.
    Stopping,
    /// A frame that is no text.
    NotText,
    /// A text that cannot be answered, since it names no subscription.
    NotJson,
    /// A frame that is too large.
    TooLarge,
}

impl End {
    /// The last frame.
    fn farewell(self) -> Option<CloseFrame> {
        let (code, reason) = match self {
            Self::Gone | Self::Silent => return None,
            Self::Slow => (CloseCode::Policy, "updates are not read fast enough"),
            Self::Expired => (CloseCode::Policy, "the token has ended: come back with a new one"),
            Self::Stopping => (CloseCode::Restart, "this service stops: come back"),
            Self::NotText => (CloseCode::Unsupported, "frames are texts"),
            Self::NotJson => (CloseCode::Invalid, "this is no JSON object with a UUID in its field uuid"),
            Self::TooLarge => (CloseCode::Size, "the frame is too large"),
        };
        Some(CloseFrame { code, reason: reason.into() })
    }
}

/// Serves a WebSocket to its end.
pub(crate) async fn serve<H: Handler>(
    shared: &Arc<Shared<H>>,
    (stream, read): (Stream, Vec<u8>),
    (peer, id): (SocketAddr, Arc<str>),
    stop: &Stop,
) {
    let Some(feed) = &shared.feed else { return };
    let _open = shared.metrics.socket();
    let most = size(shared.limits.frame_bytes);
    let config = WebSocketConfig::default()
        .read_buffer_size(BUFFER)
        .write_buffer_size(BUFFER)
        .max_message_size(Some(most))
        .max_frame_size(Some(most));
    let socket = WebSocketStream::from_partially_read(stream, read, Role::Server, Some(config)).await;
    let (mut sender, mut incoming) = socket.split();
    let first = first_frame(shared, &mut incoming);
    let Some(first) = first
        .or(async {
            stop.wait().await;
            None
        })
        .await
    else {
        return;
    };
    let answer = match &first {
        Ok(_) => "200",
        Err(Denied::Nothing) => "400",
        Err(_) => "401",
    };
    if !said(&mut sender, Message::text(answer)).await {
        return;
    }
    match first {
        Ok(ticket) => {
            let who = ticket.who.upn().clone();
            tracing::info!(%id, %peer, %who, "Change notification begins");
            let end = Box::pin(run(shared, feed, ticket, (&mut sender, &mut incoming), stop)).await;
            tracing::info!(%id, %peer, %who, why = ?end, "Change notification ends");
            if let Some(frame) = end.farewell() {
                said(&mut sender, Message::Close(Some(frame))).await;
            }
        }
        Err(why) => {
            if let Some(left_out) = shared.noise.write_now() {
                tracing::warn!(target: "audit", %id, %peer, %why, left_out, "Not authenticated");
            }
            said(&mut sender, Message::Close(None)).await;
        }
    }
}

/// Who it is, by the first frame; `None` when it does not come in time. [`Denied::Nothing`] for what is no such frame.
async fn first_frame<H: Handler>(shared: &Arc<Shared<H>>, incoming: &mut Incoming) -> Option<Result<Ticket, Denied>> {
    let frame = async {
        loop {
            match incoming.next().await? {
                Ok(Message::Ping(_) | Message::Pong(_)) => {}
                Ok(Message::Text(text)) => return Some(ticket(shared, &text)),
                Ok(_) => return Some(Err(Denied::Nothing)),
                Err(_) => return None,
            }
        }
    };
    let late = async {
        Timer::after(shared.paces.head).await;
        None
    };
    frame.or(late).await
}

fn ticket<H: Handler>(shared: &Arc<Shared<H>>, text: &str) -> Result<Ticket, Denied> {
    let words = text.split_once(' ').filter(|_| text.len() <= MAX_FIRST);
    let token = words.filter(|(scheme, token)| *scheme == "Bearer" && !token.is_empty()).map(|(_, token)| token);
    // Whatever it looks like: what is no token of ours is 401.
    shared.gate.ticket(token.ok_or(Denied::Nothing)?)
}

/// Sends a frame, within a while.
async fn said(sender: &mut Sender, frame: Message) -> bool {
    let late = async {
        Timer::after(FAREWELL).await;
        false
    };
    async { sender.send(frame).await.is_ok() }.or(late).await
}

async fn run<H: Handler>(
    shared: &Arc<Shared<H>>,
    feed: &Arc<dyn Feed>,
    ticket: Ticket,
    (sender, incoming): (&mut Sender, &mut Incoming),
    stop: &Stop,
) -> End {
    let (outbox, outgoing) = outbox(size(shared.limits.queue_bytes));
    let heard = AtomicBool::new(true);
    let subscriptions =
        Subscriptions { shared, feed, ticket: &ticket, outbox: outbox.clone(), running: Arc::default() };
    // Subscriptions run as part of this future, so that none outlives its connection.
    let executor = Executor::new();
    let ended = hear(&subscriptions, &executor, incoming, &heard)
        .or(tell(&outgoing, sender, shared.paces.stall))
        .or(ping(&outbox, &heard, Duration::from_secs(shared.limits.ping_seconds.into())))
        .or(expire(shared, &ticket))
        .or(async {
            outgoing.overflowed().await;
            End::Slow
        })
        .or(async {
            stop.wait().await;
            End::Stopping
        });
    let end = executor.run(ended).await;
    if end == End::Slow {
        shared.metrics.slow_reader();
    }
    end
}

/// Takes requests.
async fn hear<'a, H: Handler>(
    subscriptions: &Subscriptions<'a, H>,
    executor: &Executor<'a>,
    incoming: &mut Incoming,
    heard: &AtomicBool,
) -> End {
    while let Some(frame) = incoming.next().await {
        heard.store(true, Relaxed);
        match frame {
            Ok(Message::Text(text)) => {
                if let Err(end) = subscriptions.take(executor, &text) {
                    return end;
                }
            }
            Ok(Message::Ping(_) | Message::Pong(_)) => {}
            Ok(Message::Binary(_) | Message::Frame(_)) => return End::NotText,
            Err(Error::Capacity(_)) => return End::TooLarge,
            Ok(Message::Close(_)) | Err(_) => return End::Gone,
        }
    }
    End::Gone
}

/// Sends what waits.
async fn tell(outgoing: &Outgoing, sender: &mut Sender, stall: Duration) -> End {
    while let Some(frame) = outgoing.next().await {
        let length = frame.len();
        let sending = async { if sender.send(frame).await.is_ok() { None } else { Some(End::Gone) } };
        let late = async {
            Timer::after(stall).await;
            Some(End::Slow)
        };
        if let Some(end) = sending.or(late).await {
            return end;
        }
        outgoing.sent(length);
    }
    End::Gone
}

/// Asks whether anybody is there: two pings without anything heard are the end.
async fn ping(outbox: &Outbox, heard: &AtomicBool, time: Duration) -> End {
    let mut silent = 0;
    loop {
        Timer::after(time).await;
        silent = if heard.swap(false, Relaxed) { 0 } else { silent + 1 };
        if silent == 2 {
            return End::Silent;
        }
        outbox.put(Message::Ping(Vec::new().into()));
    }
}

/// Returns when the token is good no more.
async fn expire<H: Handler>(shared: &Arc<Shared<H>>, ticket: &Ticket) -> End {
    while shared.gate.tokens.holds(ticket) {
        Timer::after(LOOK.min(ticket.until.saturating_duration_since(Instant::now()))).await;
    }
    End::Expired
}

struct Subscriptions<'a, H> {
    shared: &'a Arc<Shared<H>>,
    feed: &'a Arc<dyn Feed>,
    ticket: &'a Ticket,
    outbox: Outbox,
    running: Arc<Mutex<HashMap<Uuid, Task<()>>>>,
}

impl<'a, H: Handler> Subscriptions<'a, H> {
    /// One request of the client.
    ///
    /// # Errors
    /// The end of the connection, for what names no subscription.
    fn take(&self, executor: &Executor<'a>, text: &str) -> Result<(), End> {
        let value: Value = serde_json::from_str(text).map_err(|_| End::NotJson)?;
        let uuid = value.get("uuid").cloned().and_then(|uuid| serde_json::from_value::<Uuid>(uuid).ok());
        let uuid = uuid.ok_or(End::NotJson)?;
        match serde_json::from_value(value) {
            Ok(Request::Close { .. }) => {
                // One that there is not has ended, all the same.
                self.end(uuid);
                self.say(uuid, 410);
            }
            Ok(request) => self.begin(executor, uuid, request),
            Err(_) => {
                self.end(uuid);
                self.say(uuid, 400);
            }
        }
        Ok(())
    }

    fn begin(&self, executor: &Executor<'a>, uuid: Uuid, request: Request) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        // An error ends the subscription of that UUID, so the first one ends, too.
        if running.remove(&uuid).is_some() {
            drop(running);
            return self.say(uuid, 400);
        }
        if running.len() >= size(self.shared.limits.subscriptions) {
            drop(running);
            return self.say(uuid, 503);
        }
        let caller = self.ticket.who.clone();
        let (shared, feed, outbox) = (self.shared, self.feed, self.outbox.clone());
        let own = Arc::clone(&self.running);
        let subscription = async move {
            let _open = shared.metrics.subscription();
            let told = async { follow(feed.watch(caller, request), uuid, &outbox).await };
            let told = AssertUnwindSafe(told).catch_unwind().await;
            if told.is_err() {
                shared.metrics.panicked();
                tracing::error!(%uuid, "A feed panicked");
                put(&outbox, uuid, status(uuid, FeedRefusal::Internal.status()));
            }
            let ended = own.lock().unwrap_or_else(PoisonError::into_inner).remove(&uuid);
            if let Some(task) = ended {
                task.detach();
            }
        };
        // It runs when this future waits, not before: its task is in the table by then.
        running.insert(uuid, executor.spawn(subscription));
    }

    fn end(&self, uuid: Uuid) {
        drop(self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&uuid));
    }

    fn say(&self, uuid: Uuid, code: u16) {
        put(&self.outbox, uuid, status(uuid, code));
    }
}

/// Tells updates, up to the last.
async fn follow(subscribing: super::Subscribing<'_>, uuid: Uuid, outbox: &Outbox) {
    let mut updates = match subscribing.await {
        Ok(updates) => updates,
        Err(refusal) => {
            put(outbox, uuid, status(uuid, refusal.status()));
            return;
        }
    };
    while let Some(told) = updates.next().await {
        let last = told.is_last();
        if !put(outbox, uuid, told) || last {
            return;
        }
        // A feed that always has more must not keep what was told from being sent.
        yield_now().await;
    }
    put(outbox, uuid, status(uuid, FeedRefusal::Unavailable.status()));
}

fn status(uuid: Uuid, status: u16) -> Told {
    Update { uuid, status, response: None, child: None, children: None }.into()
}

/// Whether it fits.
fn put(outbox: &Outbox, uuid: Uuid, told: Told) -> bool {
    told.text(uuid).is_some_and(|text| outbox.put(Message::text(text)))
}
