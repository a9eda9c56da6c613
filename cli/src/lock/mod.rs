//! One operator at a time works on something of a cluster: a `Lease` in the cluster, named by who holds it. Charts and Kubernetes
//! have a lease each, since each is gone on with by itself, and exclude each other.
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
use crate::stock::{Kubectl, StockCode, StockError};
use lease::{Lease, WriteError};

/// How often others may be quicker.
const TRIES: usize = 8;

/// The cluster's charts, changed.
pub(crate) static CHARTS: About = About {
    lease: "latchkey-charts",
    note: "latchkey.dev/in-work",
    what: "this cluster's charts",
    busy: CommandCode::ChartsBusy,
    lost: CommandCode::LockLost,
    excludes: &UPGRADE,
};
/// The cluster's Kubernetes, upgraded.
pub(crate) static UPGRADE: About = About {
    lease: "latchkey-upgrade",
    note: "latchkey.dev/upgrade",
    what: "this cluster's upgrade of Kubernetes",
    busy: CommandCode::UpgradeBusy,
    lost: CommandCode::UpgradeLockLost,
    excludes: &CHARTS,
};

/// What is worked on.
#[derive(Debug)]
pub(crate) struct About {
    /// The name of the lease.
    lease: &'static str,
    /// The annotation with the note.
    note: &'static str,
    /// As people say it: "this cluster's charts".
    what: &'static str,
    /// Somebody else works on it.
    busy: CommandCode,
    /// The lock was lost.
    lost: CommandCode,
    /// What nobody may work on meanwhile.
    excludes: &'static About,
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
        let gone = wait_for_others(about.excludes, times, kubectl, output).await?;
        let mut seen = None;
        for _ in 0..TRIES {
            let known = Lease::read(kubectl, about).await?;
            let other = known.as_ref().filter(|lease| lease.holder().is_some_and(|holder| holder != mine));
            // What an answer that was lost has written is this run's.
            if let Some(other) = other.filter(|_| !is_gone)
                && !is_left(other, about, &mut seen, times, kubectl, output).await?
            {
                continue;
            }
            let left: N = known.as_ref().map(|lease| read_note(lease, about)).unwrap_or_default();
            let begun = Instant::now();
            let holder = Some((&*mine, times.held));
            let lease = Lease::new(about, holder, written(&left)?, known.as_ref().map(Lease::version));
            match lease.write(kubectl).await {
                Ok(lease) => {
                    let (kubectl, lease) = (kubectl.uninterrupted(), Mutex::new(lease));
                    let (times, written) = (Cell::new(times), Cell::new(begun));
                    let lock = Self { about, kubectl, mine, times, lease, written, left };
                    // Of two that begin at once each has its own lease by now, and one at least sees the other's.
                    return match others(about.excludes, &lock.kubectl).await {
                        Ok(Some(other)) if gone.as_ref() != Some(&other.version()) => {
                            lock.give_back().await;
                            Err(busy(about.excludes, &holder_of(&other)))
                        }
                        Ok(_) => Ok(lock),
                        Err(error) => {
                            lock.give_back().await;
                            Err(error.into())
                        }
                    };
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
            self.give_back().await;
        }
        done
    }

    async fn give_back(&self) {
        let lease = self.lease.lock().await;
        let note = lease.note(self.about).map(str::to_owned);
        let free = Lease::new(self.about, None, note, Some(lease.version()));
        // Not given back it ends by itself; what was done is done.
        drop(free.write(&self.kubectl).await);
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

/// The lease, if somebody holds it.
async fn others(about: &About, kubectl: &Kubectl) -> Result<Option<Lease>, StockError> {
    Ok(Lease::read(kubectl, about).await?.filter(|lease| lease.holder().is_some()))
}

/// Waits until nobody works on it: the version of the lease whose holder is gone, if there is one.
async fn wait_for_others(
    about: &About,
    times: Times,
    kubectl: &Kubectl,
    output: &Output,
) -> Result<Option<String>, CommandError> {
    let mut seen = None;
    for _ in 0..TRIES {
        let Some(other) = others(about, kubectl).await? else { return Ok(None) };
        // It is held through the restart of an API server: too long to wait for somebody who may be at it.
        if other.held() > Some(times.held) {
            return Err(busy(about, &holder_of(&other)));
        }
        if is_left(&other, about, &mut seen, times, kubectl, output).await? {
            return Ok(Some(other.version()));
        }
    }
    Err(busy(about, "others, one after the other,"))
}

/// Whether the lease stays as it is until it has ended; the answer no means that it was written meanwhile, for the first time. Who
/// goes on writing it is named by an error.
///
/// `seen` is the version that was seen first, and when.
async fn is_left(
    other: &Lease,
    about: &About,
    seen: &mut Option<(String, Instant)>,
    times: Times,
    kubectl: &Kubectl,
    output: &Output,
) -> Result<bool, CommandError> {
    let (holder, version) = (holder_of(other), other.version());
    let (first, since) = seen.get_or_insert_with(|| (version.clone(), Instant::now()));
    if *first != version {
        return Err(busy(about, &holder));
    }
    output.waiting(&format!("{holder} worked on {}, and may be gone", about.what));
    while since.elapsed() < other.held().unwrap_or(times.held) {
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
    let short = |text: &str| latchkey_reason::printable(text).take(64).collect::<String>();
    let (process, run) = (std::process::id(), Uuid::random()?);
    Ok(format!("{}@{} (process {process}) run {run}", short(&user), short(&machine)))
}

fn holder_of(lease: &Lease) -> String {
    printable(lease.holder().unwrap_or_default())
}

fn busy(about: &About, holder: &str) -> CommandError {
    CommandError::local(about.busy, format!("{holder} works on {}", about.what))
}
