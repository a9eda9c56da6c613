//! Answers the Mosquitto plugin: a part of the auth service, which knows passwords and permissions.

use crate::grant::Grants;
use crate::protocol::{Answer, MAX_FIELD, MAX_QUESTION, Question};
use ring::hmac;
use ring::rand::SystemRandom;
use rustix::net::sockopt::socket_peercred;
use smol::Timer;
use smol::future::FutureExt as _;
use smol::io::{AsyncReadExt as _, AsyncWriteExt as _};
use smol::net::unix::{UnixListener, UnixStream};
use std::collections::HashMap;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// A refusal: its reason code, and whether the question was not judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// For the broker's log.
    pub code: String,
    /// Whether the same question may be allowed later.
    pub outage: bool,
}

/// Who knows passwords and permissions.
pub trait Authority: Send + Sync + 'static {
    /// Whose password this is: the principal in full.
    fn verify(
        &self,
        username: &str,
        password: &Zeroizing<Vec<u8>>,
    ) -> impl Future<Output = Result<String, Refusal>> + Send;

    /// What a principal may do, now. Who may use no topic at all is refused, and disconnected where it is connected: that is what becomes of
    /// an account that is gone.
    fn grants(&self, principal: &str) -> impl Future<Output = Result<Grants, Refusal>> + Send;
}

/// What the server holds its peer and its clients to.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Users that may ask: the broker's.
    pub users: Vec<u32>,
    /// How long a verified password is taken without asking the KDC again: for when all clients come back at once.
    pub remember: Duration,
    /// Wrong passwords of one name from one address, in [`Self::window`]; further ones are refused unjudged.
    pub failures: u32,
    /// See there.
    pub window: Duration,
}

/// A question must come, and an answer be taken, within this time.
const EXCHANGE: Duration = Duration::from_secs(10);
/// Names remembered, at most; the maps are emptied of what is over when they are full, and then take no more.
const MAX_REMEMBERED: usize = 16 * 1024;

/// The socket.
#[derive(Debug)]
pub struct Server<A> {
    listener: UnixListener,
    shared: Arc<Shared<A>>,
}

struct Shared<A> {
    authority: A,
    limits: Limits,
    key: hmac::Key,
    memory: Mutex<Memory>,
}

impl<A> std::fmt::Debug for Shared<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("limits", &self.limits).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Memory {
    /// By a keyed hash of name and password: whose, and until when.
    verified: HashMap<[u8; 32], (String, Instant)>,
    /// By name and address: wrong passwords, and when counting began.
    failures: HashMap<(String, String), (u32, Instant)>,
}

impl<A: Authority> Server<A> {
    /// Listens at `path`, for this user alone and for those of the limits; a socket that a dead server left is replaced.
    ///
    /// # Errors
    /// It cannot listen there, or there is no randomness.
    pub fn bind(path: &Path, authority: A, limits: Limits) -> io::Result<Self> {
        match std::fs::symlink_metadata(path) {
            Ok(old) if old.file_type().is_socket() => std::fs::remove_file(path)?,
            // What else is there stays, and listening fails.
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        // Another user's broker gets in by its directory and group; who asks is held against the limits in any case.
        std::fs::set_permissions(path, Permissions::from_mode(0o660))?;
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).map_err(io::Error::other)?;
        let shared = Shared { authority, limits, key, memory: Mutex::default() };
        Ok(Self { listener, shared: Arc::new(shared) })
    }

    /// Answers until it is dropped.
    ///
    /// # Errors
    /// The socket breaks.
    pub async fn run(&self) -> io::Result<()> {
        let tasks = smol::Executor::new();
        tasks
            .run(async {
                loop {
                    let (stream, _) = self.listener.accept().await?;
                    let asker = socket_peercred(&stream).map(|peer| peer.uid.as_raw());
                    if asker.is_ok_and(|user| self.shared.limits.users.contains(&user)) {
                        let shared = self.shared.clone();
                        tasks.spawn(async move { shared.serve(stream).await }).detach();
                    }
                }
            })
            .await
    }
}

impl<A: Authority> Shared<A> {
    /// One question and its answer; a connection is good for no more.
    async fn serve(&self, mut stream: UnixStream) -> Option<()> {
        let line = within(read_line(&mut stream)).await?;
        let answer = match Question::parse(&line) {
            Ok(question) => self.answer(question).await,
            Err(_) => refused("broker-question-malformed", false),
        };
        let line = answer.line().or_else(|_| refused("broker-topics-too-many", false).line()).ok()?;
        within(async { stream.write_all(&line).await.ok() }).await
    }

    async fn answer(&self, question: Question) -> Answer {
        let (principal, grants) = match question {
            Question::Refresh { principal } => (Ok(principal.clone()), self.authority.grants(&principal).await),
            Question::Connect { username, password, address } => {
                let password = Zeroizing::new(password.0.as_bytes().to_vec());
                match self.verify(username, &password, address).await {
                    Ok(principal) => (Ok(principal.clone()), self.authority.grants(&principal).await),
                    Err(refusal) => (Err(refusal.clone()), Err(refusal)),
                }
            }
        };
        match (principal, grants) {
            (Ok(_), Ok(topics)) if topics.0.is_empty() => refused("broker-no-topics", false),
            (Ok(principal), Ok(topics)) => Answer::Allowed { principal, topics },
            (Err(refusal), _) | (_, Err(refusal)) => refused(&refusal.code, refusal.outage),
        }
    }

    async fn verify(
        &self,
        username: String,
        password: &Zeroizing<Vec<u8>>,
        address: String,
    ) -> Result<String, Refusal> {
        if username.len() > MAX_FIELD || address.len() > MAX_FIELD {
            return Err(Refusal { code: "broker-question-malformed".into(), outage: false });
        }
        let hash = self.hash(&username, password);
        let now = Instant::now();
        let who = (username, address);
        if let Some(known) = self.memory(|memory| memory.known(&hash, now)) {
            return Ok(known);
        }
        if self.memory(|memory| memory.failed(&who, now, &self.limits)) {
            return Err(Refusal { code: "broker-too-many-failures".into(), outage: false });
        }
        let verified = self.authority.verify(&who.0, password).await;
        match &verified {
            Ok(principal) => self.memory(|memory| memory.remember(hash, principal, now + self.limits.remember)),
            Err(refusal) if !refusal.outage => self.memory(|memory| memory.count(who, now, &self.limits)),
            Err(_) => {}
        }
        verified
    }

    fn memory<T>(&self, work: impl FnOnce(&mut Memory) -> T) -> T {
        work(&mut self.memory.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Of the name's length, the name, and the password: no other pair has the same.
    fn hash(&self, username: &str, password: &[u8]) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&u64::try_from(username.len()).unwrap_or(u64::MAX).to_be_bytes());
        context.update(username.as_bytes());
        context.update(password);
        let mut hash = [0; 32];
        hash.copy_from_slice(context.sign().as_ref());
        hash
    }
}

impl Memory {
    fn known(&self, hash: &[u8; 32], now: Instant) -> Option<String> {
        self.verified.get(hash).filter(|(_, until)| now < *until).map(|(principal, _)| principal.clone())
    }

    fn remember(&mut self, hash: [u8; 32], principal: &str, until: Instant) {
        let now = Instant::now();
        if self.verified.len() >= MAX_REMEMBERED {
            self.verified.retain(|_, (_, until)| now < *until);
        }
        if self.verified.len() < MAX_REMEMBERED {
            self.verified.insert(hash, (principal.to_owned(), until));
        }
    }

    fn failed(&self, who: &(String, String), now: Instant, limits: &Limits) -> bool {
        let failures = self.failures.get(who);
        failures.is_some_and(|(count, began)| *count >= limits.failures && now < *began + limits.window)
    }

    fn count(&mut self, who: (String, String), now: Instant, limits: &Limits) {
        if self.failures.len() >= MAX_REMEMBERED {
            self.failures.retain(|_, (_, began)| now < *began + limits.window);
        }
        if self.failures.len() < MAX_REMEMBERED || self.failures.contains_key(&who) {
            let (count, began) = self.failures.entry(who).or_insert((0, now));
            if now >= *began + limits.window {
                (*count, *began) = (0, now);
            }
            *count = count.saturating_add(1);
        }
    }
}

fn refused(code: &str, outage: bool) -> Answer {
    Answer::Refused { code: code.to_owned(), outage }
}

async fn within<T>(work: impl Future<Output = Option<T>>) -> Option<T> {
    let late = async {
        Timer::after(EXCHANGE).await;
        None
    };
    work.or(late).await
}

async fn read_line(stream: &mut UnixStream) -> Option<Zeroizing<Vec<u8>>> {
    let mut line = Zeroizing::new(vec![0; MAX_QUESTION]);
    let mut length = 0;
    loop {
        let read = stream.read(&mut line[length..]).await.ok().filter(|read| *read > 0)?;
        let before = length;
        length += read;
        if line[before..length].contains(&b'\n') {
            line.truncate(length);
            return Some(line);
        }
    }
}
