//! What stands between Edge Sync and the configuration database: it counts, holds up, refuses, and says other times.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use latchkey_api_server_rig::proxy::{Fault, Proxy};
use smol::channel::{Receiver, Sender, unbounded};
use smol::future::FutureExt as _;
use smol::io::{AsyncReadExt as _, AsyncWriteExt as _};
use smol::net::{TcpListener, TcpStream};

pub(crate) struct Front {
    address: SocketAddr,
    state: Arc<State>,
    _serving: smol::Task<()>,
}

struct State {
    upstream: SocketAddr,
    held: Mutex<Option<Receiver<()>>>,
    expiry: Mutex<Option<Duration>>,
    refuses: AtomicBool,
    tokens: AtomicUsize,
}

/// Lets so many requests pass, to the API server and to the configuration database together, and holds up all others. Who is held
/// up stays so: a gate is dropped last of all.
pub(crate) struct Gate {
    pass: Sender<()>,
    held: Receiver<()>,
}

/// Whoever has a receiver of a gate's and is not held up: the gate, the way to the API server, and that to the database.
const NOT_HELD: usize = 3;

impl Gate {
    pub(crate) fn close_after(requests: usize, proxy: &Proxy, front: &Front) -> Self {
        let (pass, held) = unbounded();
        (0..requests).for_each(|_| pass.try_send(()).unwrap());
        proxy.arm(["/", " HTTP/1.1"], Fault::Held(held.clone()), usize::MAX);
        *front.state.held.lock().unwrap() = Some(held.clone());
        Self { pass, held }
    }

    /// For who comes from now on.
    pub(crate) fn open(proxy: &Proxy, front: &Front) {
        proxy.disarm();
        proxy.cut();
        *front.state.held.lock().unwrap() = None;
    }

    /// Whether as many as may have passed.
    pub(crate) fn is_closed(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether there was one more, which waits.
    pub(crate) fn holds_one(&self) -> bool {
        self.is_closed() && self.pass.receiver_count() > NOT_HELD
    }
}

impl Front {
    pub(crate) fn before(upstream: SocketAddr) -> Self {
        let state = Arc::new(State {
            upstream,
            held: Mutex::default(),
            expiry: Mutex::default(),
            refuses: AtomicBool::new(false),
            tokens: AtomicUsize::new(0),
        });
        let listener = smol::block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let (address, shared) = (listener.local_addr().unwrap(), Arc::clone(&state));
        let serving = smol::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let state = Arc::clone(&shared);
                // Who hangs up, or is not there, is served no more.
                smol::spawn(async move { drop(pass(&state, stream).await) }).detach();
            }
        });
        Self { address, state, _serving: serving }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How often a token was asked for.
    pub(crate) fn tokens(&self) -> usize {
        self.state.tokens.load(SeqCst)
    }

    /// Tokens are said to end so long from now.
    pub(crate) fn say_tokens_end_in(&self, time: Duration) {
        *self.state.expiry.lock().unwrap() = Some(time);
    }

    /// Whether each token is refused, once it is given.
    pub(crate) fn refuse(&self, refuses: bool) {
        self.state.refuses.store(refuses, SeqCst);
    }
}

/// One connection.
async fn pass(state: &State, mut client: TcpStream) -> std::io::Result<()> {
    let mut server = TcpStream::connect(state.upstream).await?;
    let (mut from_client, mut from_server) = (client.clone(), server.clone());
    let mut buffers = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        let asked = async { from_client.read(&mut buffers.0).await.map(|count| (true, count)) };
        let answered = async { from_server.read(&mut buffers.1).await.map(|count| (false, count)) };
        match asked.or(answered).await? {
            (_, 0) => return Ok(()),
            (true, count) => {
                let bytes = &buffers.0[..count];
                if bytes.starts_with(b"POST /token") {
                    state.tokens.fetch_add(1, SeqCst);
                } else if state.refuses.load(SeqCst) {
                    let refusal = b"HTTP/1.1 401 X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                    client.write_all(refusal).await?;
                    return client.close().await;
                }
                let held = state.held.lock().unwrap().clone();
                if let Some(held) = held {
                    held.recv().await.map_err(std::io::Error::other)?;
                }
                server.write_all(bytes).await?;
            }
            (false, count) => {
                let expiry = *state.expiry.lock().unwrap();
                if let Some(expiry) = expiry {
                    say(expiry, &mut buffers.1[..count]);
                }
                client.write_all(&buffers.1[..count]).await?;
            }
        }
    }
}

/// Writes another end over that of a token, where there is one: it has as many digits for some centuries.
fn say(end: Duration, bytes: &mut [u8]) {
    const FIELD: &[u8] = b"\"expiry\":";
    let Some(start) = bytes.windows(FIELD.len()).position(|window| window == FIELD) else { return };
    let digits = &mut bytes[start + FIELD.len()..];
    let end = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + end;
    let end = end.as_millis().to_string();
    assert!(digits[..end.len()].iter().all(u8::is_ascii_digit) && !digits[end.len()].is_ascii_digit());
    digits[..end.len()].copy_from_slice(end.as_bytes());
}
