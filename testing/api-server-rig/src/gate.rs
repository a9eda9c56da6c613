//! Lets so many requests pass, to an API server and to others together, and holds up all that come after them: for programs that are
//! killed after each request that they make.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use smol::channel::{Receiver, Sender, unbounded};
use smol::future::FutureExt as _;
use smol::io::{AsyncReadExt as _, AsyncWriteExt as _};
use smol::net::{TcpListener, TcpStream};

use crate::proxy::{Fault, Proxy};

/// Holds up who asks, also after [`Gate::open`], until this is dropped: the API server would hear then what was held up, so keep it
/// as long as the test looks.
#[derive(Debug)]
pub struct Gate {
    pass: Sender<()>,
    held: Receiver<()>,
    /// How many have a receiver of this one and are not held up: it, the way to the API server, and each other way.
    not_held: usize,
}

impl Gate {
    /// Closes the way to an API server, and these, after so many requests.
    pub fn close_after(requests: usize, proxy: &Proxy, ways: &[Way]) -> Self {
        let (pass, held) = unbounded();
        for _ in 0..requests {
            // It has a receiver, here.
            let _ = pass.try_send(());
        }
        proxy.arm(["/", " HTTP/1.1"], Fault::Held(held.clone()), usize::MAX);
        for way in ways {
            way.hold(Some(held.clone()));
        }
        Self { pass, held, not_held: 2 + ways.len() }
    }

    /// Opens those ways again, for who comes from now on.
    pub fn open(proxy: &Proxy, ways: &[Way]) {
        proxy.disarm();
        proxy.cut();
        for way in ways {
            way.hold(None);
        }
    }

    /// Whether as many as may have passed.
    pub fn is_closed(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether there was one more, which waits.
    pub fn holds_one(&self) -> bool {
        self.is_closed() && self.pass.receiver_count() > self.not_held
    }
}

/// What a test does to what passes on a [`Way`]; by itself, nothing.
pub trait Passing: Send + Sync + 'static {
    /// What a client has said. An answer in the server's place ends the connection, and the server hears nothing.
    fn asked(&self, _bytes: &[u8]) -> Option<Vec<u8>> {
        None
    }

    /// What the server answers.
    fn answered(&self, _bytes: &mut [u8]) {}
}

impl Passing for () {}

type Hold = Arc<Mutex<Option<Receiver<()>>>>;
type Cut = Arc<Mutex<(Sender<()>, Receiver<()>)>>;

/// A way to a server that is not the API server, over TCP as it is. Dropping it takes no more connections.
#[derive(Debug)]
pub struct Way {
    address: SocketAddr,
    hold: Hold,
    cut: Cut,
    _serving: smol::Task<()>,
}

impl Way {
    /// The way to this address.
    ///
    /// # Panics
    /// If nothing can be listened on.
    pub fn to(server: SocketAddr, passing: Arc<impl Passing>) -> Self {
        let listener = smol::block_on(TcpListener::bind("127.0.0.1:0")).expect("loopback");
        let (address, hold) = (listener.local_addr().expect("an address"), Hold::default());
        let cut: Cut = Arc::new(Mutex::new(unbounded()));
        let (shared, cutting) = (Arc::clone(&hold), Arc::clone(&cut));
        let serving = smol::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (hold, passing) = (Arc::clone(&shared), Arc::clone(&passing));
                let (_, cut) = cutting.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let until_cut = async move {
                    let _closed = cut.recv().await;
                    Ok(())
                };
                // Who hangs up, or is not there, is served no more.
                smol::spawn(async move { drop(pass(stream, server, &hold, &*passing).or(until_cut).await) }).detach();
            }
        });
        Self { address, hold, cut, _serving: serving }
    }

    /// Where it begins.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Breaks every connection there is. From now on nothing is said over new ones, until this is dropped.
    pub fn cut(&self) -> Outage<'_> {
        let (silence, held) = unbounded();
        self.hold(Some(held));
        self.break_all();
        Outage { way: self, _silence: silence }
    }

    fn break_all(&self) {
        let mut cut = self.cut.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *cut, unbounded()).0.close();
    }

    fn hold(&self, hold: Option<Receiver<()>>) {
        *self.hold.lock().unwrap_or_else(PoisonError::into_inner) = hold;
    }
}

/// While it lasts, nobody is heard at the end of a [`Way`].
#[derive(Debug)]
pub struct Outage<'w> {
    way: &'w Way,
    /// Those that are held wait for it.
    _silence: Sender<()>,
}

impl Drop for Outage<'_> {
    fn drop(&mut self) {
        self.way.hold(None);
        self.way.break_all();
    }
}

/// One connection. What a client writes at once is a request; one that comes in two parts is two here, which costs nothing.
async fn pass(mut client: TcpStream, server: SocketAddr, hold: &Hold, passing: &impl Passing) -> std::io::Result<()> {
    let mut server = TcpStream::connect(server).await?;
    let (mut from_client, mut from_server) = (client.clone(), server.clone());
    let mut buffers = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        let asked = async { from_client.read(&mut buffers.0).await.map(|count| (true, count)) };
        let answered = async { from_server.read(&mut buffers.1).await.map(|count| (false, count)) };
        match asked.or(answered).await? {
            (_, 0) => return Ok(()),
            (true, count) => {
                let bytes = &buffers.0[..count];
                if let Some(answer) = passing.asked(bytes) {
                    client.write_all(&answer).await?;
                    return client.close().await;
                }
                let gate = hold.lock().unwrap_or_else(PoisonError::into_inner).clone();
                if let Some(gate) = gate {
                    gate.recv().await.map_err(std::io::Error::other)?;
                }
                server.write_all(bytes).await?;
            }
            (false, count) => {
                let bytes = &mut buffers.1[..count];
                passing.answered(bytes);
                client.write_all(bytes).await?;
            }
        }
    }
}
