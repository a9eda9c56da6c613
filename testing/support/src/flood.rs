//! Peers that are many, and waste what they are given.

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use smol::Timer;
use smol::future::FutureExt;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// New connections come in bundles, so often.
const PACE: Duration = Duration::from_millis(20);

/// Connections that are looked at for one that ended, before another is opened.
const LOOKS: usize = 64;

/// A connection from this address; all of 127.0.0.0/8 are addresses of this machine.
///
/// # Errors
/// If it is refused.
pub fn connect_from(source: Ipv4Addr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &SocketAddr::from((source, 0)))?;
    connect(&socket, &to)?;
    Ok(TcpStream::from(socket))
}

/// Lets this process have as many files open as the system does: a login shell allows 1024.
///
/// # Panics
/// If it may not.
pub fn open_many_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("what the system allows anyway");
}

/// What a client says first: all that it sends before it has heard anything.
///
/// # Panics
/// If it says nothing.
pub fn first_words(client: impl FnOnce(SocketAddr) + Send + 'static) -> Vec<u8> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("its address");
    let client = std::thread::spawn(move || client(address));
    let (mut stream, _) = listener.accept().expect("the client");
    let mut words = vec![0; 16 * 1024];
    let count = stream.read(&mut words).expect("its first words");
    words.truncate(count);
    drop(stream);
    // It fails, and may say so.
    drop(client.join());
    assert!(!words.is_empty(), "the client said nothing");
    words
}

/// How much of a flood.
#[derive(Clone, Copy, Debug)]
pub struct FloodSize {
    /// Networks (IPv4 /24) it comes from; two hosts in each.
    pub networks: u32,
    /// Connections that are kept open, as long as the other side lets them; another is opened for each that it ends.
    pub connections: usize,
    /// New connections.
    pub per_second: u32,
}

/// Connections from many networks, for as long as this lives. A third of them is silent, a third says a byte now and then, a
/// third begins a handshake and never goes on.
#[derive(Debug)]
pub struct Flood {
    stop: Option<smol::channel::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
    opened: Receiver<()>,
}

impl Flood {
    /// Begins. `first_words` is what a handshake begins with; see [`first_words`].
    pub fn start(to: SocketAddr, first_words: Vec<u8>, size: FloodSize) -> Self {
        let (stop, stopped) = smol::channel::bounded(1);
        let (tell, opened) = channel();
        let flood = async move {
            let mut peers = Peers { to, first_words, size, open: VecDeque::new(), number: 0 };
            let bundle = (size.per_second / 50).max(1);
            loop {
                for _ in 0..bundle {
                    if peers.one_more() {
                        // Nobody may listen any more.
                        let _ = tell.send(());
                    }
                }
                peers.say_a_byte();
                Timer::after(PACE).await;
            }
        };
        let stopped = async move {
            let _closed: Result<Infallible, _> = stopped.recv().await;
        };
        let thread = std::thread::spawn(move || smol::block_on(stopped.or(flood)));
        Self { stop: Some(stop), thread: Some(thread), opened }
    }

    /// Waits until so many more connections were opened.
    ///
    /// # Panics
    /// If they are not within [`crate::PATIENCE`].
    pub fn wait_for(&self, connections: usize) {
        for number in 0..connections {
            let opened = self.opened.recv_timeout(crate::PATIENCE);
            opened.unwrap_or_else(|_| panic!("only {number} of {connections} connections could be opened"));
        }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join)
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

struct Peers {
    to: SocketAddr,
    first_words: Vec<u8>,
    size: FloodSize,
    /// With what is left to say of those that say it byte by byte.
    open: VecDeque<(TcpStream, usize)>,
    number: u32,
}

impl Peers {
    /// Whether there is one more.
    fn one_more(&mut self) -> bool {
        if self.open.len() >= self.size.connections && !self.forget_one_that_ended() {
            return false;
        }
        let number = self.number;
        self.number = self.number.wrapping_add(1);
        let site = number % self.size.networks;
        let host = 1 + number / self.size.networks % 2;
        let [_, high, middle, low] = (0x0001_0000 + (site << 8) + host).to_be_bytes();
        let Ok(mut stream) = connect_from(Ipv4Addr::new(127, high, middle, low), self.to) else { return false };
        stream.set_nonblocking(true).expect("an option that every socket has");
        let said = match number % 3 {
            0 => usize::MAX,
            1 => 0,
            _ => {
                // Who hangs up misses it.
                let _ = stream.write(&self.first_words);
                usize::MAX
            }
        };
        self.open.push_back((stream, said));
        true
    }

    /// Looks at some; whether one had been ended by the other side.
    fn forget_one_that_ended(&mut self) -> bool {
        for _ in 0..LOOKS {
            let Some((mut stream, said)) = self.open.pop_front() else { return false };
            let alive =
                stream.read(&mut [0; 1024]).map_or_else(|error| error.kind() == ErrorKind::WouldBlock, |n| n > 0);
            if !alive {
                return true;
            }
            self.open.push_back((stream, said));
        }
        false
    }

    /// Some of those that speak slowly say a byte more.
    fn say_a_byte(&mut self) {
        let turn = self.number as usize % 16;
        for (stream, said) in self.open.iter_mut().skip(turn).step_by(16) {
            if let Some(byte) = self.first_words.get(*said) {
                let _ = stream.write(&[*byte]);
                *said += 1;
            }
        }
    }
}
