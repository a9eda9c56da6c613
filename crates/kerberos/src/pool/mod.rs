//! Several helpers, each with one call at a time.

mod helper;

use crate::code::KerberosCode;
use crate::denied::Denied;
use crate::wire::{Answer, Request};
use helper::Helper;
use smol::Timer;
use smol::channel::{Receiver, Sender, bounded};
use smol::future::FutureExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// After a helper's first death; each further one in a row doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// And no more.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A call waits for the end of a pause that is no longer; else it is told at once why the last helper failed.
const SHORT_PAUSE: Duration = Duration::from_millis(500);

/// How helpers are started.
pub(crate) struct Start {
    /// The program.
    pub(crate) program: PathBuf,
    /// All of its environment: MIT's libraries read paths from there. No secret.
    pub(crate) environment: Vec<(&'static str, PathBuf)>,
    /// The first request of each.
    pub(crate) open: Request,
    /// A helper that is older is replaced before its next call, if that is said.
    pub(crate) longest_life: Option<Duration>,
}

/// The limits of a pool.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// Helpers, at most. None runs before it is needed.
    pub(crate) helpers: usize,
    /// Of a call, from the moment it is made.
    pub(crate) deadline: Duration,
    /// Calls that wait for a helper, at most.
    pub(crate) waiting: usize,
}

/// A pool of helpers.
#[derive(Clone)]
pub(crate) struct Pool(Arc<Shared>);

struct Shared {
    start: Start,
    limits: Limits,
    free: Receiver<Seat>,
    back: Sender<Seat>,
    calls: AtomicUsize,
}

/// The place of one helper.
#[derive(Default)]
struct Seat {
    helper: Option<Helper>,
    /// Helpers here that died in a row.
    deaths: u32,
    /// None is started before; and why.
    not_before: Option<(Instant, Denied)>,
}

impl Pool {
    pub(crate) fn new(start: Start, limits: Limits) -> Self {
        let helpers = limits.helpers.max(1);
        let (back, free) = bounded(helpers);
        for _ in 0..helpers {
            // There is room for each.
            let _ = back.try_send(Seat::default());
        }
        Self(Arc::new(Shared { start, limits, free, back, calls: AtomicUsize::new(0) }))
    }

    /// One request and its answer.
    ///
    /// # Errors
    /// What the helper said, or that there was no answer in time, or why there is no helper. Whatever happens, and if this
    /// future is dropped as well, the helper is ready for the next call or gone.
    pub(crate) async fn call(&self, request: &Request) -> Result<Answer, Denied> {
        let _counted = Counted::enter(&self.0)?;
        let deadline = self.0.limits.deadline;
        let late = async {
            Timer::after(deadline).await;
            Err(Denied::new(KerberosCode::TimedOut, format_args!("no answer within {deadline:?}")))
        };
        match self.work(request).or(late).await? {
            Answer::Denied(denied) => Err(denied),
            answer => Ok(answer),
        }
    }

    async fn work(&self, request: &Request) -> Result<Answer, Denied> {
        let seat = self.0.free.recv().await;
        let seat = seat.map_err(|_| Denied::new(KerberosCode::HelperFailed, "the pool is closed"))?;
        let mut taken = Taken { seat: Some(seat), back: &self.0.back };
        let Some(seat) = taken.seat.as_mut() else { unreachable!("it was taken above") };
        let helper = seat.occupied(&self.0.start).await?;
        // Not in the seat while it works: a call that is given up drops it, and so kills it.
        let (result, helper) = helper.call(request).await;
        seat.helper = helper;
        match &result {
            Ok(_) => seat.deaths = 0,
            Err(denied) => seat.died(denied),
        }
        result
    }
}

impl Seat {
    /// Takes its helper, or starts one.
    async fn occupied(&mut self, start: &Start) -> Result<Helper, Denied> {
        let fresh = |helper: &mut Helper| start.longest_life.is_none_or(|life| helper.age() < life) && helper.lives();
        if let Some(mut helper) = self.helper.take()
            && fresh(&mut helper)
        {
            return Ok(helper);
        }
        if let Some((time, why)) = &self.not_before {
            if time.saturating_duration_since(Instant::now()) > SHORT_PAUSE {
                return Err(why.clone());
            }
            Timer::at(*time).await;
        }
        let opened = Helper::start(start).await;
        // A refusal to open is the configuration's: it is asked again, but not without a pause.
        opened.inspect_err(|denied| self.died(denied))
    }

    fn died(&mut self, why: &Denied) {
        let pause = FIRST_PAUSE.saturating_mul(1 << self.deaths.min(10)).min(LONGEST_PAUSE);
        self.deaths = self.deaths.saturating_add(1);
        self.not_before = Some((Instant::now() + pause, why.clone()));
    }
}

/// A seat that goes back, whatever happens.
struct Taken<'a> {
    seat: Option<Seat>,
    back: &'a Sender<Seat>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let Some(seat) = self.seat.take() {
            // There is room for each.
            let _ = self.back.try_send(seat);
        }
    }
}

/// A call among those that wait or work.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn enter(shared: &'a Shared) -> Result<Self, Denied> {
        let limit = shared.limits.helpers.max(1) + shared.limits.waiting;
        let counted = Self(&shared.calls);
        if shared.calls.fetch_add(1, Ordering::Relaxed) < limit {
            Ok(counted)
        } else {
            Err(Denied::new(KerberosCode::Busy, format_args!("{limit} calls wait or work")))
        }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
