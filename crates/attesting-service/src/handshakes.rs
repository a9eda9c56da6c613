//! Counts attested handshakes, for Prometheus. Labels are closed lists.

use latchkey_attestation::ReasonCode;
use latchkey_channel::ChannelError;
use latchkey_service_runtime::page::Page;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How a connection ended before it could carry calls, other than by a refusal of its evidence.
const TURNED: [&str; 2] = ["handshake-deadline", "handshake-failed"];

/// How handshakes ended.
#[derive(Debug)]
pub struct Handshakes {
    admitted: AtomicU64,
    open: AtomicU64,
    evidence: Vec<AtomicU64>,
    not_evidence: AtomicU64,
    turned: [AtomicU64; TURNED.len()],
}

impl Default for Handshakes {
    fn default() -> Self {
        let evidence = ReasonCode::ALL.iter().map(|_| AtomicU64::new(0)).collect();
        let (admitted, open, not_evidence) = Default::default();
        Self { admitted, open, evidence, not_evidence, turned: Default::default() }
    }
}

impl Handshakes {
    /// Counts a connection that proved itself, for as long as the result lives.
    pub fn admitted(&self) -> OpenConnection<'_> {
        self.admitted.fetch_add(1, Relaxed);
        self.open.fetch_add(1, Relaxed);
        OpenConnection(self)
    }

    /// Counts a handshake that failed.
    pub fn failed(&self, error: &ChannelError) {
        let [deadline, broken] = &self.turned;
        let counter = match (error, error.refusal()) {
            (_, Some(refusal)) => {
                let code = refusal.code();
                ReasonCode::ALL.iter().position(|known| *known == code).and_then(|at| self.evidence.get(at))
            }
            (ChannelError::Refused(_), None) => Some(&self.not_evidence),
            (ChannelError::Deadline { .. }, _) => Some(deadline),
            _ => Some(broken),
        };
        if let Some(counter) = counter {
            counter.fetch_add(1, Relaxed);
        }
    }

    /// Its lines of a page.
    pub fn render(&self, page: &mut Page) {
        page.family(
            "handshakes_total",
            "counter",
            "Attested handshakes whose evidence was admitted, whatever was asked then",
        );
        page.line("handshakes_total", "", self.admitted.load(Relaxed));
        page.family("connections", "gauge", "Open connections that passed the handshake");
        page.line("connections", "", self.open.load(Relaxed));
        page.family("refusals_total", "counter", "Attested handshakes that were refused, by reason code");
        for (code, counter) in ReasonCode::ALL.iter().zip(&self.evidence) {
            page.line("refusals_total", &format!("{{code=\"{code}\"}}"), counter.load(Relaxed));
        }
        page.line("refusals_total", "{code=\"other\"}", self.not_evidence.load(Relaxed));
        page.family("connections_refused_total", "counter", "Connections that did not get as far as an appraisal");
        for (reason, counter) in TURNED.iter().zip(&self.turned) {
            page.line("connections_refused_total", &format!("{{reason=\"{reason}\"}}"), counter.load(Relaxed));
        }
    }
}

/// Lowers the gauge when the connection ends, however it ends.
#[derive(Debug)]
pub struct OpenConnection<'a>(&'a Handshakes);

impl Drop for OpenConnection<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}
