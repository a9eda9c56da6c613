//! A proxy that counts what its client sends, and ends the client before or after one of these calls.
//!
//! It knows nothing of what it carries: a call is what the client sends in one piece while nothing came back since, which holds
//! for requests of HTTP without TLS, for frames of `WebSockets` and for the records of kadmind.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use latchkey_test_support::Port;

use crate::error::{HarnessError, io_error};

/// When the client is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Before the call reaches the server.
    Before,
    /// After the server has answered, and before the client hears of it.
    After,
}

/// Ends the client.
type Kill = Box<dyn Fn() + Send>;

/// How many calls there were, and which one is to be the client's last; shared by the proxies of all its servers.
#[derive(Clone, Default)]
pub struct Calls(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    seen: usize,
    armed: Option<(usize, Moment, Kill)>,
    fired: bool,
}

impl std::fmt::Debug for Calls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Calls").field("seen", &self.seen()).finish_non_exhaustive()
    }
}

impl Calls {
    /// Counts from nought again, and ends the client at its call `number` (from 0).
    pub fn arm(&self, number: usize, moment: Moment, kill: impl Fn() + Send + 'static) {
        *self.state() = State { seen: 0, armed: Some((number, moment, Box::new(kill))), fired: false };
    }

    /// Counts from nought again, and ends nobody.
    pub fn disarm(&self) {
        *self.state() = State::default();
    }

    /// How many calls there were since then.
    pub fn seen(&self) -> usize {
        self.state().seen
    }

    /// Whether the client was ended since then.
    pub fn fired(&self) -> bool {
        self.state().fired
    }

    /// A call begins: whether its answer is the one that the client must not hear of. The client is gone if this is `Err`.
    fn begin(&self) -> Result<bool, ()> {
        let mut state = self.state();
        let number = state.seen;
        state.seen += 1;
        match &state.armed {
            Some((at, Moment::After, _)) if *at == number => Ok(true),
            Some((at, Moment::Before, _)) if *at == number => {
                Self::fire(&mut state);
                Err(())
            }
            _ => Ok(false),
        }
    }

    fn answered(&self) {
        Self::fire(&mut self.state());
    }

    fn fire(state: &mut State) {
        if let Some((_, _, kill)) = state.armed.take() {
            kill();
            state.fired = true;
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A proxy in front of one server. It goes on until the tests end.
#[derive(Debug)]
pub struct Proxy {
    port: Port,
}

impl Proxy {
    /// One that tells `calls` of each.
    pub fn before(server: SocketAddr, calls: &Calls) -> Result<Self, HarnessError> {
        let port = Port::reserve();
        let listener = TcpListener::bind(port.address()).map_err(io_error("listen", "proxy".as_ref()))?;
        let calls = calls.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let calls = calls.clone();
                thread::spawn(move || {
                    // A server that is not there is a connection that ends.
                    if let Ok(server) = TcpStream::connect(server) {
                        carry(&client, &server, &calls);
                    }
                    let _ = client.shutdown(Shutdown::Both);
                });
            }
        });
        Ok(Self { port })
    }

    /// Where the client finds it.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }
}

/// Both ways until one of them ends.
fn carry(client: &TcpStream, server: &TcpStream, calls: &Calls) {
    // Whether the next answer must not arrive, and whether one came since the last call.
    let turn = Mutex::new((false, true));
    let turn_now = || turn.lock().unwrap_or_else(PoisonError::into_inner);
    let end = || {
        let _ = client.shutdown(Shutdown::Both);
        let _ = server.shutdown(Shutdown::Both);
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            each_piece(server, |piece| {
                let mut turn = turn_now();
                turn.1 = true;
                if turn.0 {
                    calls.answered();
                    return false;
                }
                drop(turn);
                (&mut &*client).write_all(piece).is_ok()
            });
            end();
        });
        each_piece(client, |piece| {
            let mut turn = turn_now();
            if turn.1 {
                let Ok(last) = calls.begin() else { return false };
                *turn = (last, false);
            }
            drop(turn);
            (&mut &*server).write_all(piece).is_ok()
        });
        end();
    });
}

/// Hands on what comes in, piece by piece, until the stream ends or nobody wants more.
fn each_piece(mut from: &TcpStream, mut wanted: impl FnMut(&[u8]) -> bool) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if !wanted(buffer.get(..length).unwrap_or_default()) {
            return;
        }
    }
}
