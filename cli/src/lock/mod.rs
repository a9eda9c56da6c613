//! One operator at a time works on something of a cluster: a `Lease` in the cluster, named by who holds it.
//!
//! It is held when it was seen unchanged *here* for its whole time, whatever the clocks say; so a run that was interrupted is
//! followed by the next one after that time, and one that goes on is never taken over: a run that could not renew it in time stops
//! before another one begins. The lease also carries a note of how far the work is, so that the next run knows what was left half
//! done by a run like itself.

mod lease;

use std::cell::Cell;
use std::time::{Duration, Instant};

use latchkey_keys::Uuid;
use serde::Serialize;
use serde::de::DeserializeOwned;
use smol::Timer;
use smol::future::FutureExt as _;
use smol::lock::Mutex;

use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::output::{Output, printable};
use crate::stock::{Kubectl, StockCode};
use lease::{Lease, WriteError};

/// How often others may be quicker.
const TRIES: usize = 8;

/// What is worked on.
#[derive(Debug)]
pub(crate) struct About {
    /// The name of the lease.
    pub(crate) lease: &'static str,
    /// The annotation with the note.
    pub(crate) note: &'static str,
    /// As people say it: "this cluster's charts".
    pub(crate) what: &'static str,
    /// Somebody else works on it.
    pub(crate) busy: CommandCode,
    /// The lock was lost.
    pub(crate) lost: CommandCode,
}

/// For how long, and how often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// For how long it is held once it was written.
    pub(crate) held: Duration,
    /// When a run stops that could not write it anew: what it started ends before another run begins.
    pub(crate) given_up: Duration,
    /// How often it is written anew.
    pub(crate) renewed: Duration,
    /// How often it is looked at while somebody else holds it.
    pub(crate) look: Duration,
}

impl Times {
    pub(crate) const USUAL: Self = Self {
        held: Duration::from_mins(1),
        given_up: Duration::from_secs(50),
        renewed: Duration::from_secs(10),
        look: Duration::from_secs(2),
    };
}

/// The lock, held. Its note is an `N`, and its default stands for none.
#[derive(Debug)]
pub(crate) struct Lock<N> {
    about: &'static About,
    kubectl: Kubectl,
    /// Whose it is: this run's, and no other's.
    mine: String,
    times: Cell<Times>,
    lease: Mutex<Lease>,
    /// When the last write was begun that is known to be done.
    written: Cell<Instant>,
    /// What earlier runs left.
    left: N,
}

/// What a lease says; nothing where it cannot be read, so that nothing is decided by it.
fn read_note<N: DeserializeOwned + Default>(lease: &Lease, about: &About) -> N {
    lease.note(about).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

fn written<N: Serialize + Default + PartialEq>(note: &N) -> Result<Option<String>, CommandError> {
    if *note == N::default() {
        return Ok(None);
    }
    serde_json::to_string(note).map(Some).map_err(|error| CommandError::local(StockCode::Malformed, error.to_string()))
}

impl<N: Serialize + DeserializeOwned + Default + PartialEq> Lock<N> {
    /// Takes the lock. Somebody else who goes on holding it is named; one who went away is waited out, unless it is known that he did.
    pub(crate) async fn take(
        about: &'static About,
        times: Times,
        is_gone: bool,
        kubectl: &Kubectl,
        output: &Output,
    ) -> Result<Self, CommandError> {
        let mine = my_name()?;
        let mut waited: Option<(String, Instant)> = None;
        for _ in 0..TRIES {
            let known = Lease::read(kubectl, about).await?;
            let other = known.as_ref().filter(|lease| lease.holder().is_some_and(|holder| holder != mine));
            // What an answer that was lost has written is this run's.
            if let Some(other) = other.filter(|_| !is_gone) {
                let (holder, version) = (printable(other.holder().unwrap_or_default()), other.version());
                let (first, since) = waited.get_or_insert_with(|| (version.clone(), Instant::now()));
                if *first != version {
                    return Err(busy(about, &holder));
                }
                output.waiting(&format!("{holder} worked on {}, and may be gone", about.what));
                let times = Times { held: other.held().unwrap_or(times.held), ..times };
                if !unchanged(kubectl, about, &version, *since, times).await? {
                    continue;
                }
            }
            let left: N = known.as_ref().map(|lease| read_note(lease, about)).unwrap_or_default();
            let begun = Instant::now();
            let holder = Some((&*mine, times.held));
            let lease = Lease::new(about, holder, written(&left)?, known.as_ref().map(Lease::version));
            match lease.write(kubectl).await {
                Ok(lease) => {
                    let (kubectl, lease) = (kubectl.uninterrupted(), Mutex::new(lease));
                    let (times, written) = (Cell::new(times), Cell::new(begun));
                    return Ok(Self { about, kubectl, mine, times, lease, written, left });
                }
                Err(WriteError::Changed(_)) => {}
                Err(WriteError::Failed(error)) => return Err(error),
            }
        }
        Err(busy(about, "others, one after the other,"))
    }

    /// What the note of earlier runs is.
    pub(crate) async fn look(about: &About, kubectl: &Kubectl) -> Result<N, CommandError> {
        Ok(Lease::read(kubectl, about).await?.map(|lease| read_note(&lease, about)).unwrap_or_default())
    }

    /// What earlier runs left.
    pub(crate) fn left(&self) -> &N {
        &self.left
    }

    /// Does the work while the lock is held, and gives it back. What the work left half done stays noted in the lease.
    pub(crate) async fn held<T>(&self, work: impl Future<Output = Result<T, CommandError>>) -> Result<T, CommandError> {
        let done = work.or(self.keep()).await;
        if !done.as_ref().err().is_some_and(|error| error.code == self.about.lost.into()) {
            let lease = self.lease.lock().await;
            let note = lease.note(self.about).map(str::to_owned);
            let free = Lease::new(self.about, None, note, Some(lease.version()));
            // Not given back it ends by itself; what was done is done.
            drop(free.write(&self.kubectl).await);
        }
        done
    }

    /// Holds it for so long from now on, though the API server may be away.
    pub(crate) async fn hold_for(&self, held: Duration) -> Result<(), CommandError> {
        let times = self.times.get();
        let margin = times.held.saturating_sub(times.given_up);
        self.times.set(Times { held, given_up: held.saturating_sub(margin), ..times });
        self.note(|_| {}).await
    }

    /// Writes the note anew.
    pub(crate) async fn note(&self, change: impl FnOnce(&mut N)) -> Result<(), CommandError> {
        let mut lease = self.lease.lock().await;
        let mut note = read_note(&lease, self.about);
        change(&mut note);
        let note = written(&note)?;
        for _ in 0..TRIES {
            let begun = Instant::now();
            let holder = Some((&*self.mine, self.times.get().held));
            let wanted = Lease::new(self.about, holder, note.clone(), Some(lease.version()));
            match wanted.write(&self.kubectl).await {
                Ok(written) => {
                    *lease = written;
                    self.written.set(begun);
                    return Ok(());
                }
                // It may be this run's own write, whose answer was lost.
                Err(WriteError::Changed(error)) => match Lease::read(&self.kubectl, self.about).await? {
                    Some(known) if known.holder() == Some(&self.mine) => *lease = known,
                    _ => return Err(self.lost().because(error.to_string())),
                },
                Err(WriteError::Failed(error)) => return Err(error),
            }
        }
        Err(self.lost().because("others write it, again and again"))
    }

    /// Writes it anew, again and again; ends only when it is lost: somebody else has it, or the API server has not taken a write
    /// for as long as it is surely this run's.
    async fn keep<T>(&self) -> Result<T, CommandError> {
        let renew = async {
            loop {
                Timer::after(self.times.get().renewed).await;
                match self.note(|_| {}).await {
                    Err(error) if error.code == self.about.lost.into() => return error,
                    _ => {}
                }
            }
        };
        let too_late = async {
            loop {
                let left = self.times.get().given_up.saturating_sub(self.written.get().elapsed());
                if left.is_zero() {
                    return self.lost().because("the API server was away for too long");
                }
                Timer::after(left).await;
            }
        };
        Err(renew.or(too_late).await)
    }

    fn lost(&self) -> CommandError {
        CommandError::local(self.about.lost, format!("the lock on {} was lost", self.about.what))
    }
}

/// Whether the lease stays as it is until it has ended.
async fn unchanged(
    kubectl: &Kubectl,
    about: &About,
    version: &str,
    since: Instant,
    times: Times,
) -> Result<bool, CommandError> {
    while since.elapsed() < times.held {
        Timer::after(times.look).await;
        if Lease::read(kubectl, about).await?.is_none_or(|lease| lease.version() != version) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// User, machine and process: whom to ask; and a number that no other run has.
fn my_name() -> Result<String, CommandError> {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_else(|_| "somebody".into());
    let machine = rustix::system::uname();
    let machine = machine.nodename().to_string_lossy();
    let short = |text: &str| text.chars().filter(|c| !c.is_control()).take(64).collect::<String>();
    let (process, run) = (std::process::id(), Uuid::random()?);
    Ok(format!("{}@{} (process {process}) run {run}", short(&user), short(&machine)))
}

fn busy(about: &About, holder: &str) -> CommandError {
    CommandError::local(about.busy, format!("{holder} works on {}", about.what))
}
