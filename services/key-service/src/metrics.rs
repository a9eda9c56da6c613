//! Counters for Prometheus (text format 0.0.4). Labels are closed lists: no names, ids or addresses.

use crate::decision::{KeyRefusal, KeyRefusalCode};
use latchkey_reason::ReasonCode as _;
use latchkey_service_runtime::page::Page;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// How a connection ended before it could carry calls.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Turned {
    /// TLS failed: no certificate, wrong authority, old version, garbage.
    HandshakeFailed,
    /// TLS took too long.
    HandshakeTimeout,
}

const TURNED: [&str; 2] = ["handshake-failed", "handshake-timeout"];

#[derive(Debug, Default)]
pub(crate) struct Metrics {
    granted: AtomicU64,
    refused: [AtomicU64; KeyRefusalCode::ALL.len()],
    deciding_nanoseconds: AtomicU64,
    connections: AtomicU64,
    open: AtomicU64,
    turned: [AtomicU64; TURNED.len()],
}

impl Metrics {
    /// Counts one call: `None` is a granted one.
    pub(crate) fn call(&self, refusal: Option<&KeyRefusal>, took: Duration) {
        let slot = refusal.map(|refusal| refusal.code() as usize);
        slot.and_then(|index| self.refused.get(index)).unwrap_or(&self.granted).fetch_add(1, Relaxed);
        self.deciding_nanoseconds.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    /// Counts a connection that passed TLS, for as long as the result lives.
    pub(crate) fn connected(&self) -> OpenConnection<'_> {
        self.connections.fetch_add(1, Relaxed);
        self.open.fetch_add(1, Relaxed);
        OpenConnection(self)
    }

    pub(crate) fn turned_away(&self, how: Turned) {
        if let Some(counter) = self.turned.get(how as usize) {
            counter.fetch_add(1, Relaxed);
        }
    }

    fn calls(&self) -> u64 {
        self.refused.iter().chain([&self.granted]).map(|counter| counter.load(Relaxed)).sum()
    }

    /// The page, without what is known of slots and reloads.
    pub(crate) fn render(&self) -> Page {
        let mut page = Page::new("latchkey_key_service_");
        page.family("requests_total", "counter", "GetDataKey calls by outcome");
        page.line("requests_total", "{outcome=\"granted\"}", self.granted.load(Relaxed));
        for (code, counter) in KeyRefusalCode::ALL.iter().zip(&self.refused) {
            page.line("requests_total", &format!("{{outcome=\"{code}\"}}"), counter.load(Relaxed));
        }
        page.family("decision_duration_seconds", "summary", "Time spent deciding and deriving");
        let spent = Duration::from_nanos(self.deciding_nanoseconds.load(Relaxed)).as_secs_f64();
        page.line("decision_duration_seconds_sum", "", spent);
        page.line("decision_duration_seconds_count", "", self.calls());
        page.family("connections_total", "counter", "Connections that passed TLS");
        page.line("connections_total", "", self.connections.load(Relaxed));
        page.family("connections", "gauge", "Open connections that passed TLS");
        page.line("connections", "", self.open.load(Relaxed));
        page.family("connections_refused_total", "counter", "Connections that did not get as far as a call");
        for (reason, counter) in TURNED.iter().zip(&self.turned) {
            page.line("connections_refused_total", &format!("{{reason=\"{reason}\"}}"), counter.load(Relaxed));
        }
        page
    }
}

/// Lowers the gauge when the connection ends, however it ends.
pub(crate) struct OpenConnection<'a>(&'a Metrics);

impl Drop for OpenConnection<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_counted_apart() {
        let metrics = Metrics::default();
        metrics.call(None, Duration::from_millis(1));
        metrics.call(Some(&KeyRefusal::RateLimited), Duration::from_millis(1));
        metrics.call(Some(&KeyRefusal::RateLimited), Duration::ZERO);
        metrics.turned_away(Turned::HandshakeFailed);
        drop(metrics.connected());
        let page = metrics.render().into_text();
        for line in [
            "latchkey_key_service_requests_total{outcome=\"granted\"} 1",
            "latchkey_key_service_requests_total{outcome=\"rate-limited\"} 2",
            "latchkey_key_service_requests_total{outcome=\"class-denied\"} 0",
            "latchkey_key_service_decision_duration_seconds_sum 0.002",
            "latchkey_key_service_decision_duration_seconds_count 3",
            "latchkey_key_service_connections_total 1",
            "latchkey_key_service_connections 0",
            "latchkey_key_service_connections_refused_total{reason=\"handshake-failed\"} 1",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} in\n{page}");
        }
    }
}
