//! Counters for Prometheus. Labels are closed lists, or names in the operator's own files.

use crate::decision::Refusal;
use latchkey_attestation::reference::ManifestName;
use latchkey_attesting_service::{Behind, Handshakes};
use latchkey_reason::ReasonCode as _;
use latchkey_service_runtime::page::Page;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How a call ended that was not refused.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ended {
    /// A cluster was taken up.
    TakenUp,
    /// One that was taken up before.
    Resumed,
    /// The machine waits.
    Held,
}

const ENDED: [&str; 3] = ["taken-up", "resumed", "held"];

#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) handshakes: Handshakes,
    ended: [AtomicU64; ENDED.len()],
    refused: Vec<AtomicU64>,
}

/// What is read when the page is asked for.
pub(crate) struct Gauges {
    pub(crate) clusters: usize,
    pub(crate) unwritten: usize,
    pub(crate) denied: usize,
    pub(crate) followed: Vec<&'static str>,
    pub(crate) behind: Vec<Behind>,
    pub(crate) serials: Vec<(ManifestName, u64)>,
    pub(crate) reloads: u64,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let refused = Refusal::ALL.iter().map(|_| AtomicU64::new(0)).collect();
        Self { handshakes: Handshakes::default(), ended: Default::default(), refused }
    }

    pub(crate) fn ended(&self, how: Ended) {
        if let Some(counter) = self.ended.get(how as usize) {
            counter.fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn refused(&self, refusal: Refusal) {
        if let Some(counter) = self.refused.get(refusal as usize) {
            counter.fetch_add(1, Relaxed);
        }
    }

    /// The page, without what is known of slots and reloads.
    pub(crate) fn render(&self, gauges: &Gauges) -> Page {
        let mut page = Page::new("latchkey_enrol_service_");
        page.family("requests_total", "counter", "Decisions by outcome");
        for (outcome, counter) in ENDED.iter().zip(&self.ended) {
            page.line("requests_total", &format!("{{outcome=\"{outcome}\"}}"), counter.load(Relaxed));
        }
        for (refusal, counter) in Refusal::ALL.iter().zip(&self.refused) {
            page.line("requests_total", &format!("{{outcome=\"{}\"}}", refusal.as_str()), counter.load(Relaxed));
        }
        self.handshakes.render(&mut page);
        render_gauges(&mut page, gauges);
        page
    }
}

fn render_gauges(page: &mut Page, gauges: &Gauges) {
    page.family("clusters", "gauge", "Clusters on record");
    page.line("clusters", "", gauges.clusters);
    page.family("records_unwritten", "gauge", "Records that could not be written to the disk yet");
    page.line("records_unwritten", "", gauges.unwritten);
    page.family("denied", "gauge", "TPMs that are shut out");
    page.line("denied", "", gauges.denied);
    page.family("config_stale", "gauge", "Whether a part's file cannot be used and older content is in its place");
    for part in &gauges.followed {
        let stale = gauges.behind.iter().any(|behind| behind.part == *part);
        page.line("config_stale", &format!("{{part=\"{part}\"}}"), u8::from(stale));
    }
    page.family("reference_serial", "gauge", "The revision of each reference manifest that is in force");
    for (manifest, serial) in &gauges.serials {
        page.line("reference_serial", &format!("{{manifest=\"{manifest}\"}}"), serial);
    }
    page.family("config_reloads_total", "counter", "Parts of the configuration that were swapped in");
    page.line("config_reloads_total", "", gauges.reloads);
}
