//! Which request is answered when: a few at a time, everybody's first before anybody's second, those that failed ever more rarely.

use super::again::{Again, FIRST};
use super::pulse::Pulse;
use super::{Later, MAX_NAME};
use crate::metrics::Metrics;
use latchkey_service_runtime::log_limiter::LogLimiter;
use smol::Task;
use smol::channel::{Receiver, Sender, unbounded};
use smol::future::FutureExt;
use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Requests that are being answered at a time: one that is slow keeps none of the others. A third of the turns that the store of the
/// records gives at once: machines that join need the rest.
pub(super) const AT_ONCE: usize = 8;
/// Until everything is looked at again, though nobody has told of anything.
const ANYWAY: Duration = Duration::from_secs(30);
/// So many are begun, then those that have come meanwhile are taken in, in their turn.
const MOST_IN_A_ROW: usize = 64;

/// Where requests come from, and who answers one.
pub(super) trait Desk: Send + Sync + 'static {
    type Request: Send + Sync + 'static;

    /// Those that nobody has answered yet, in their turn.
    fn waiting(&self) -> Vec<Arc<Self::Request>>;

    fn uid(request: &Self::Request) -> &str;

    fn name(request: &Self::Request) -> &str;

    /// What fails is asked for again.
    fn answer(&self, request: &Arc<Self::Request>) -> impl Future<Output = Result<(), Later>> + Send;
}

pub(super) struct Rounds<D: Desk> {
    desk: Arc<D>,
    metrics: Arc<Metrics>,
    pulse: Arc<Pulse>,
    noise: LogLimiter,
    again: Again,
    /// By uid. Dropped with this, and answers nothing then.
    under_way: HashMap<String, Task<()>>,
    tell: Sender<Ended<D>>,
    ended: Receiver<Ended<D>>,
}

/// A request of which it is known what came of it.
struct Ended<D: Desk> {
    request: Arc<D::Request>,
    begun: Instant,
    answer: Result<(), Later>,
}

impl<D: Desk> Rounds<D> {
    pub(super) fn new(desk: Arc<D>, metrics: Arc<Metrics>, pulse: Arc<Pulse>) -> Self {
        let ((tell, ended), noise) = (unbounded(), LogLimiter::new());
        Self { desk, metrics, pulse, noise, again: Again::default(), under_way: HashMap::new(), tell, ended }
    }

    /// Until dropped. `told` says that something may have come.
    pub(super) async fn run(mut self, told: &Receiver<()>) -> Infallible {
        loop {
            let waits = self.round().await;
            if let Some(time) = waits {
                self.pause(told, time).await;
            }
        }
    }

    /// Begins with those that may be answered now, as far as there is room; how long there is nothing to do then.
    async fn round(&mut self) -> Option<Duration> {
        let waiting = self.desk.waiting();
        self.metrics.certificates_waiting(u64::try_from(waiting.len()).unwrap_or(u64::MAX));
        self.again.keep(&waiting.iter().map(|request| D::uid(request)).collect::<HashSet<_>>());
        let mut begun = 0;
        for request in &waiting {
            self.pulse.beat();
            while self.under_way.len() >= self.room() {
                self.one_ends().await;
            }
            if self.again.pause(Instant::now()).is_some() || begun == MOST_IN_A_ROW {
                break;
            }
            let uid = D::uid(request);
            if !self.under_way.contains_key(uid) && self.again.is_due(uid, Instant::now()) {
                self.begin(request);
                begun += 1;
            }
        }
        self.pulse.beat();
        let rest = if waiting.is_empty() { ANYWAY } else { FIRST };
        let time = self.again.pause(Instant::now()).unwrap_or(rest);
        (begun < MOST_IN_A_ROW).then_some(time)
    }

    /// In trouble one is tried, and not all together.
    fn room(&self) -> usize {
        if self.again.is_in_trouble() { 1 } else { AT_ONCE }
    }

    fn begin(&mut self, request: &Arc<D::Request>) {
        let (desk, request, tell) = (Arc::clone(&self.desk), Arc::clone(request), self.tell.clone());
        let uid = D::uid(&request).to_owned();
        let task = smol::spawn(async move {
            let begun = Instant::now();
            let answer = guarded(desk.answer(&request)).await;
            // Whoever asked may be gone.
            let _ = tell.try_send(Ended { request, begun, answer });
        });
        self.under_way.insert(uid, task);
    }

    async fn one_ends(&mut self) {
        if let Ok(ended) = self.ended.recv().await {
            self.take(ended);
        }
    }

    fn take(&mut self, ended: Ended<D>) {
        self.pulse.beat();
        let (uid, now) = (D::uid(&ended.request), Instant::now());
        self.under_way.remove(uid);
        match ended.answer {
            Ok(()) => self.again.answered(uid, now),
            Err(Later::Waits) => self.again.waits(uid, now),
            Err(later) => {
                self.again.failed(uid, later.is_trouble(), ended.begun, now);
                self.say(D::name(&ended.request), &later);
            }
        }
    }

    /// Until something comes, or one ends, or it is time. In trouble it is not asked what comes.
    async fn pause(&mut self, told: &Receiver<()>, most: Duration) {
        let in_trouble = self.again.pause(Instant::now()).is_some();
        let asked = async {
            if in_trouble || told.recv().await.is_err() {
                std::future::pending::<()>().await;
            }
            None
        };
        let late = async {
            smol::Timer::after(most).await;
            None
        };
        let ended = async { self.ended.recv().await.ok() };
        if let Some(ended) = ended.or(asked).or(late).await {
            self.take(ended);
        }
        // All of them before those that wait are looked through again.
        while let Ok(ended) = self.ended.try_recv() {
            self.take(ended);
        }
    }

    /// What is not answered comes again.
    fn say(&self, name: &str, later: &Later) {
        let why = match later {
            Later::Waits => return,
            Later::Records(refusal) => refusal.to_string(),
            Later::Api(error) => error.to_string(),
            Later::Panicked => "a fault of this program: see the panic above".to_owned(),
        };
        if let Some(left_out) = self.noise.write_now() {
            let name: String = name.chars().take(MAX_NAME).collect();
            tracing::error!(request = name, why, left_out, "A certificate request could not be answered, and waits");
        }
    }
}

/// One request must not end the approval of all.
async fn guarded(answer: impl Future<Output = Result<(), Later>>) -> Result<(), Later> {
    AssertUnwindSafe(answer).catch_unwind().await.unwrap_or(Err(Later::Panicked))
}

#[cfg(test)]
mod tests {
    use super::*;
    use latchkey_test_support::block_on;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A fake desk: what is called `slow` is never answered, `bad` panics, and everything else is answered once.
    struct Fake {
        waiting: Mutex<Vec<Arc<String>>>,
        at_once: AtomicUsize,
        most_at_once: AtomicUsize,
        answered: Sender<String>,
    }

    impl Desk for Fake {
        type Request = String;

        fn waiting(&self) -> Vec<Arc<String>> {
            self.waiting.lock().unwrap().clone()
        }

        fn uid(request: &String) -> &str {
            request
        }

        fn name(request: &String) -> &str {
            request
        }

        async fn answer(&self, request: &Arc<String>) -> Result<(), Later> {
            let at_once = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
            self.most_at_once.fetch_max(at_once, Ordering::SeqCst);
            match request.as_str() {
                "slow" => std::future::pending().await,
                name => assert_ne!(name, "bad", "as a fault would"),
            }
            // Others come in between, as they do while an API server is asked.
            smol::future::yield_now().await;
            self.waiting.lock().unwrap().retain(|waiting| waiting != request);
            self.at_once.fetch_sub(1, Ordering::SeqCst);
            self.answered.try_send(request.to_string()).unwrap();
            Ok(())
        }
    }

    /// Answers until so many were answered; the most that were under way together.
    fn answer(waiting: impl IntoIterator<Item = String>, until: usize) -> usize {
        let (answered, heard) = unbounded();
        let waiting = Mutex::new(waiting.into_iter().map(Arc::new).collect());
        let (at_once, most_at_once) = (AtomicUsize::default(), AtomicUsize::default());
        let desk = Arc::new(Fake { waiting, at_once, most_at_once, answered });
        let (_tell, told) = smol::channel::bounded(1);
        let rounds = Rounds::new(Arc::clone(&desk), Arc::new(Metrics::new()), Arc::new(Pulse::new()));
        let all = async {
            let mut names = HashSet::new();
            while names.len() < until {
                names.insert(heard.recv().await.unwrap());
            }
        };
        let never = async { match rounds.run(&told).await {} };
        block_on(all.or(never));
        desk.most_at_once.load(Ordering::SeqCst)
    }

    #[test]
    fn one_answer_that_never_comes_keeps_none_of_five_hundred_waiting() {
        let storm = (0..500).map(|number| format!("node-{number}"));
        let most = answer(["slow".to_owned()].into_iter().chain(storm), 500);
        assert!((2..=AT_ONCE).contains(&most), "{most} at once");
    }

    #[test]
    fn a_request_that_makes_the_program_panic_ends_no_approvals() {
        answer(["bad", "good"].map(str::to_owned), 1);
    }
}
