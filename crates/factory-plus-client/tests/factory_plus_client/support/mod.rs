//! A fake of a centre's service: real HTTP and WebSocket over what a test puts into it. No permissions, no schemas.

mod http;
mod notify;
pub(crate) mod raw;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::notify::Request;
use latchkey_factory_plus_client::{Client, Identity, Insecure, Limits, Service, Services, Settings, Trust};
use latchkey_test_support::Port;
use serde_json::Value;
use smol::Task;
use smol::channel::Sender;
use smol::net::TcpListener;
use zeroize::Zeroizing;

/// The service that tests ask.
pub(crate) const SERVICE: Uuid = Uuid::constant("af15f175-78a0-4e05-97c0-2a0bb82b9f3b");
pub(crate) const PASSWORD: &str = "geheim";

/// A running fake; ends when dropped.
pub(crate) struct Server {
    port: Port,
    world: Arc<World>,
    running: Mutex<Option<Task<()>>>,
}

/// What an answer is made by instead of the resources.
pub(crate) type Answering = fn(&str, &str) -> Option<(u16, &'static str)>;
/// What a frame is answered with instead of what is true; `None` closes the connection.
pub(crate) type Lying = fn(&Request) -> Option<Vec<String>>;

/// What the fake is made of and what it saw.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) resources: Mutex<BTreeMap<String, Value>>,
    pub(crate) tokens: Mutex<BTreeSet<String>>,
    /// `METHOD PATH`, of every request with a token or not.
    pub(crate) seen: Mutex<Vec<String>>,
    /// Headers of the last request, by lower-case name.
    pub(crate) headers: Mutex<BTreeMap<String, String>>,
    pub(crate) accepted: Mutex<usize>,
    /// Requests of change notification.
    pub(crate) asked: Mutex<Vec<Request>>,
    pub(crate) answering: Mutex<Option<Answering>>,
    pub(crate) lying: Mutex<Option<Lying>>,
    /// Whether it stops to read after the token of change notification.
    pub(crate) deaf: Mutex<bool>,
    /// One per live connection of change notification: a path changed.
    listeners: Mutex<Vec<Sender<String>>>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}

impl Server {
    pub(crate) fn start() -> Self {
        let server = Self { port: Port::reserve(), world: Arc::default(), running: Mutex::default() };
        server.up();
        server
    }

    /// Listens, again.
    pub(crate) fn up(&self) {
        let listener = std::net::TcpListener::bind(self.port.address()).unwrap();
        let listener = TcpListener::try_from(listener).unwrap();
        *lock(&self.running) = Some(smol::spawn(serve(listener, Arc::clone(&self.world))));
    }

    /// Ends all connections and listens no more.
    pub(crate) fn down(&self) {
        let task = lock(&self.running).take();
        lock(&self.world.listeners).clear();
        // Cancelled to its end: the listener and all connections are closed when this returns.
        smol::block_on(async {
            if let Some(task) = task {
                task.cancel().await;
            }
        });
    }

    /// As a restarted service: connections and tokens are gone, resources are not.
    pub(crate) fn restart(&self) {
        self.down();
        lock(&self.world.tokens).clear();
        self.up();
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.port.address()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    pub(crate) fn world(&self) -> &World {
        &self.world
    }

    pub(crate) fn set(&self, path: &str, value: Value) {
        lock(&self.world.resources).insert(path.to_owned(), value);
        self.world.tell(path);
    }

    pub(crate) fn remove(&self, path: &str) {
        lock(&self.world.resources).remove(path);
        self.world.tell(path);
    }

    pub(crate) fn seen(&self, what: &str) -> usize {
        lock(&self.world.seen).iter().filter(|seen| *seen == what).count()
    }

    pub(crate) fn client(&self) -> Client {
        self.client_with(limits())
    }

    pub(crate) fn client_with(&self, limits: Limits) -> Client {
        let url = self.url().parse().unwrap();
        let services = Services::fixed([(SERVICE, url)]);
        client(services, Trust::none().allowing(Insecure), limits)
    }

    pub(crate) fn service(&self) -> Service {
        self.client().service(SERVICE)
    }
}

impl World {
    pub(crate) fn nobody_listens(&self) -> bool {
        lock(&self.listeners).is_empty()
    }

    pub(crate) fn tell(&self, path: &str) {
        lock(&self.listeners).retain(|listener| listener.try_send(path.to_owned()).is_ok());
    }
}

pub(crate) fn client(services: Services, trust: Trust, limits: Limits) -> Client {
    let identity = Identity::basic(&"sv1test@REALM".parse().unwrap(), &Zeroizing::new(PASSWORD.into())).unwrap();
    Client::new(Settings { identity, trust, services, limits })
}

/// Those of the product, but a lost connection is tried again within half a second.
pub(crate) fn limits() -> Limits {
    Limits { back_off: Duration::from_millis(500), ..Limits::default() }
}

async fn serve(listener: TcpListener, world: Arc<World>) {
    let mut connections = Vec::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        *lock(&world.accepted) += 1;
        let world = Arc::clone(&world);
        connections.push(smol::spawn(async move {
            let mut start = [0; 14];
            // What it is, without taking it from whoever reads it.
            while let Ok(count @ 1..) = stream.peek(&mut start).await {
                if &start == b"GET /notify/v2" {
                    return notify::serve(stream, &world).await;
                } else if count >= 4 && !start.starts_with(b"GET ") || count == start.len() {
                    return http::serve(stream, world).await;
                }
                smol::future::yield_now().await;
            }
        }));
    }
}
