//! What is counted.

use crate::auth::Means;
use http::StatusCode;
use latchkey_service_runtime::page::Page;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Upper ends of the buckets of durations, microseconds.
const BUCKETS: [(u64, &str); 7] = [
    (100, "0.0001"),
    (1000, "0.001"),
    (10_000, "0.01"),
    (100_000, "0.1"),
    (1_000_000, "1"),
    (10_000_000, "10"),
    (u64::MAX, "+Inf"),
];

/// Classes of status.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// Counters of a server.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    answered: [AtomicU64; CLASSES.len()],
    durations: [AtomicU64; BUCKETS.len()],
    duration_sum: AtomicU64,
    panics: AtomicU64,
    broken: AtomicU64,
    entered: [AtomicU64; Means::ALL.len()],
    denied: AtomicU64,
    open: AtomicU64,
    sockets: AtomicU64,
    subscriptions: AtomicU64,
    slow: AtomicU64,
}

/// Lowers a gauge when it is dropped.
#[derive(Debug)]
pub(crate) struct Held<'a>(&'a AtomicU64);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Metrics {
    pub(crate) fn answered(&self, status: StatusCode, took: Duration) {
        let class = usize::from(status.as_u16() / 100).saturating_sub(1);
        count(self.answered.get(class));
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        count(BUCKETS.iter().position(|(end, _)| took <= *end).and_then(|bucket| self.durations.get(bucket)));
        self.duration_sum.fetch_add(took, Relaxed);
    }

    pub(crate) fn panicked(&self) {
        self.panics.fetch_add(1, Relaxed);
    }

    /// A connection whose peer spoke no HTTP, or went away.
    pub(crate) fn broken(&self) {
        self.broken.fetch_add(1, Relaxed);
    }

    pub(crate) fn entered(&self, means: Means) {
        count(self.entered.get(means as usize));
    }

    pub(crate) fn denied(&self) {
        self.denied.fetch_add(1, Relaxed);
    }

    pub(crate) fn opened(&self) -> Held<'_> {
        hold(&self.open)
    }

    pub(crate) fn socket(&self) -> Held<'_> {
        hold(&self.sockets)
    }

    pub(crate) fn subscription(&self) -> Held<'_> {
        hold(&self.subscriptions)
    }

    pub(crate) fn slow_reader(&self) {
        self.slow.fetch_add(1, Relaxed);
    }

    pub(crate) fn render(&self, page: &mut Page, tokens: usize) {
        page.family("requests_total", "counter", "Requests that were answered, by class of status");
        for (class, counter) in CLASSES.iter().zip(&self.answered) {
            page.line("requests_total", &format!("{{status=\"{class}\"}}"), counter.load(Relaxed));
        }
        page.family("request_seconds", "histogram", "From a request's head to the head of its response");
        let mut so_far = 0;
        for ((_, end), counter) in BUCKETS.iter().zip(&self.durations) {
            so_far += counter.load(Relaxed);
            page.line("request_seconds_bucket", &format!("{{le=\"{end}\"}}"), so_far);
        }
        let sum = Duration::from_micros(self.duration_sum.load(Relaxed));
        page.line("request_seconds_sum", "", sum.as_secs_f64());
        page.line("request_seconds_count", "", so_far);
        page.family("authenticated_total", "counter", "Requests whose caller was authenticated, by its means");
        for (means, counter) in Means::ALL.iter().zip(&self.entered) {
            page.line("authenticated_total", &format!("{{means=\"{}\"}}", means.name()), counter.load(Relaxed));
        }
        for (name, kind, help, value) in [
            ("not_authenticated_total", "counter", "Requests without credentials that are good", &self.denied),
            ("handler_panics_total", "counter", "Requests whose handler panicked", &self.panics),
            ("connections_broken_total", "counter", "Connections that ended in the middle of something", &self.broken),
            ("connections", "gauge", "Open connections, WebSockets included", &self.open),
            ("notify_connections", "gauge", "Open WebSockets of change notification", &self.sockets),
            ("notify_subscriptions", "gauge", "Open subscriptions", &self.subscriptions),
            ("notify_slow_total", "counter", "WebSockets that were closed since they did not read", &self.slow),
        ] {
            page.family(name, kind, help);
            page.line(name, "", value.load(Relaxed));
        }
        page.family("tokens", "gauge", "Tokens that are remembered");
        page.line("tokens", "", tokens);
    }
}

fn count(counter: Option<&AtomicU64>) {
    if let Some(counter) = counter {
        counter.fetch_add(1, Relaxed);
    }
}

fn hold(gauge: &AtomicU64) -> Held<'_> {
    gauge.fetch_add(1, Relaxed);
    Held(gauge)
}
