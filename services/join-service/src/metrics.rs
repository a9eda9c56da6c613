//! Counters for Prometheus. Labels are closed lists, or names in the operator's own policy and directory: no addresses of nodes.

use crate::decision::{Refusal, Warning};
use latchkey_attestation::reference::ManifestName;
use latchkey_attesting_service::{Behind, Handshakes};
use latchkey_kubelet_certificates::{CLIENT_SIGNER, CertificateRefusal, SERVING_SIGNER};
use latchkey_reason::ReasonCode as _;
use latchkey_service_runtime::page::Page;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The three methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Join,
    Rejoin,
    Report,
}

impl Method {
    const ALL: [Self; 3] = [Self::Join, Self::Rejoin, Self::Report];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Join => "join",
            Self::Rejoin => "rejoin",
            Self::Report => "report",
        }
    }
}

/// The signers of kubelets' certificates, and what they are called here.
const SIGNERS: [(&str, &str); 2] = [(CLIENT_SIGNER, "client"), (SERVING_SIGNER, "serving")];

#[derive(Debug)]
pub(crate) struct Metrics {
    granted: [AtomicU64; Method::ALL.len()],
    refused: Vec<AtomicU64>,
    pub(crate) handshakes: Handshakes,
    warned: Vec<AtomicU64>,
    /// For each signer: approved, then denied by reason code.
    certificates: [Vec<AtomicU64>; SIGNERS.len()],
    certificates_waiting: AtomicU64,
}

/// What is read when the page is asked for.
pub(crate) struct Gauges {
    pub(crate) nodes: usize,
    pub(crate) leased: bool,
    /// How many machines have a firmware that is not the one on record.
    pub(crate) firmware_changed: usize,
    /// The first of the files that cannot be used, and how many there are.
    pub(crate) damaged: (Vec<String>, usize),
    /// How old the oldest is of what the cluster decides by, where an API server tells of it.
    pub(crate) unheard: Option<Duration>,
    /// How many disk keys were released by what was known last.
    pub(crate) released_unheard: u64,
    /// How many TPMs are shut out.
    pub(crate) denied: usize,
    /// Those of them that the cluster's store does not list.
    pub(crate) denied_here: usize,
    /// How many machines wait for the operator, where that is known.
    pub(crate) held: Option<usize>,
    pub(crate) initialised: bool,
    /// The names of everything that is followed.
    pub(crate) followed: Vec<&'static str>,
    pub(crate) behind: Vec<Behind>,
    pub(crate) records_busy: Duration,
    pub(crate) records_usable: bool,
    /// Names are of the operator's policy, and safe as labels.
    pub(crate) serials: Vec<(ManifestName, u64)>,
    pub(crate) reloads: u64,
    /// Seconds since the Unix epoch.
    pub(crate) api_certificate_ends: Option<u64>,
    /// Of what vendors publish, and the policy goes by, the first, in seconds since the Unix epoch.
    pub(crate) collateral_ends: Option<u64>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let counters = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        Self {
            granted: Default::default(),
            refused: counters(Refusal::ALL.len() * Method::ALL.len()),
            handshakes: Handshakes::default(),
            warned: counters(Warning::ALL.len()),
            certificates: SIGNERS.map(|_| counters(CertificateRefusal::ALL.len() + 1)),
            certificates_waiting: AtomicU64::new(0),
        }
    }

    /// Counts one call: `None` is a granted one.
    pub(crate) fn call(&self, method: Method, refusal: Option<Refusal>) {
        let counter = match refusal {
            None => self.granted.get(method as usize),
            Some(refusal) => self.refused.get(method as usize * Refusal::ALL.len() + refusal as usize),
        };
        count(counter);
    }

    /// Counts an answer to a request for a kubelet's certificate: `None` is an approval.
    pub(crate) fn certificate(&self, signer: &str, refusal: Option<CertificateRefusal>) {
        let of_signer = SIGNERS.iter().position(|(known, _)| *known == signer);
        let at = refusal.map_or(0, |refusal| refusal as usize + 1);
        count(of_signer.and_then(|signer| self.certificates.get(signer)).and_then(|counters| counters.get(at)));
    }

    /// How many requests for certificates could not be answered yet.
    pub(crate) fn certificates_waiting(&self, waiting: u64) {
        self.certificates_waiting.store(waiting, Relaxed);
    }

    /// Counts a warning about a machine that was let in.
    pub(crate) fn warned(&self, warning: Warning) {
        count(self.warned.get(warning as usize));
    }

    /// The page, without what is known of slots and reloads.
    pub(crate) fn render(&self, gauges: &Gauges) -> Page {
        let mut page = Page::new("latchkey_join_service_");
        self.render_requests(&mut page);
        self.render_warnings(&mut page);
        self.handshakes.render(&mut page);
        self.render_certificates(&mut page);
        render_gauges(&mut page, gauges);
        page
    }

    fn render_requests(&self, page: &mut Page) {
        page.family("requests_total", "counter", "Decisions by method and outcome");
        for method in Method::ALL {
            let label = |outcome: &str| format!("{{method=\"{}\",outcome=\"{outcome}\"}}", method.name());
            page.line("requests_total", &label("granted"), value(self.granted.get(method as usize)));
            for refusal in Refusal::ALL {
                let counter = self.refused.get(method as usize * Refusal::ALL.len() + *refusal as usize);
                page.line("requests_total", &label(refusal.as_str()), value(counter));
            }
        }
        page.family("admissions_total", "counter", "Machines that were let in: tickets, by whether the disk was new");
        for method in [Method::Join, Method::Rejoin] {
            let label = format!("{{method=\"{}\"}}", method.name());
            page.line("admissions_total", &label, value(self.granted.get(method as usize)));
        }
    }

    fn render_warnings(&self, page: &mut Page) {
        page.family("warnings_total", "counter", "Machines that were let in with a warning, by reason code");
        for (warning, counter) in Warning::ALL.iter().zip(&self.warned) {
            page.line("warnings_total", &format!("{{code=\"{}\"}}", warning.as_str()), value(Some(counter)));
        }
    }

    fn render_certificates(&self, page: &mut Page) {
        page.family("certificates_total", "counter", "Answers to requests for kubelets' certificates");
        for ((_, signer), counters) in SIGNERS.iter().zip(&self.certificates) {
            let codes = CertificateRefusal::ALL.iter().map(|refusal| refusal.as_str());
            for (outcome, counter) in std::iter::once("approved").chain(codes).zip(counters) {
                let labels = format!("{{signer=\"{signer}\",outcome=\"{outcome}\"}}");
                page.line("certificates_total", &labels, value(Some(counter)));
            }
        }
        page.family(
            "certificates_waiting",
            "gauge",
            "Requests for kubelets' certificates that wait for a record, or for its store",
        );
        page.line("certificates_waiting", "", value(Some(&self.certificates_waiting)));
    }
}

fn render_gauges(page: &mut Page, gauges: &Gauges) {
    page.family("nodes", "gauge", "Nodes on record");
    page.line("nodes", "", gauges.nodes);
    page.family("firmware_changed", "gauge", "Nodes whose firmware is not the one on record, and not accepted");
    page.line("firmware_changed", "", gauges.firmware_changed);
    page.family("records_damaged", "gauge", "Record files that cannot be used");
    page.line("records_damaged", "", gauges.damaged.1);
    page.family(
        "record_damaged",
        "gauge",
        "The record files that cannot be used; the first of them, where there are many",
    );
    for file in &gauges.damaged.0 {
        page.labelled("record_damaged", "file", file, 1);
    }
    if let Some(unheard) = gauges.unheard {
        page.family(
            "unheard_seconds",
            "gauge",
            "For how long nothing complete was heard of what the cluster decides by",
        );
        page.line("unheard_seconds", "", unheard.as_secs());
        page.family(
            "rejoins_unheard_total",
            "counter",
            "Control planes that got the key of their disk by what was known last, while nobody answered",
        );
        page.line("rejoins_unheard_total", "", gauges.released_unheard);
    }
    page.family("denied", "gauge", "TPMs that are shut out");
    page.line("denied", "", gauges.denied);
    page.family("denied_here", "gauge", "TPMs that are shut out at this service alone, by root's word at its socket");
    page.line("denied_here", "", gauges.denied_here);
    page.family(
        "held",
        "gauge",
        "Machines that wait for the operator, see `latchkey node list`; NaN if that is not known",
    );
    page.line("held", "", gauges.held.map_or_else(|| f64::NAN.to_string(), |held| held.to_string()));
    page.family("records_usable", "gauge", "Whether records can be read and written");
    page.line("records_usable", "", u8::from(gauges.records_usable));
    page.family(
        "records_busy_seconds",
        "gauge",
        "How long the access to the records that is under way has taken so far",
    );
    page.line("records_busy_seconds", "", gauges.records_busy.as_secs_f64());
    page.family("control_plane_lease", "gauge", "Whether a control plane is joining");
    page.line("control_plane_lease", "", u8::from(gauges.leased));
    page.family("cluster_initialised", "gauge", "Whether there is a cluster to join");
    page.line("cluster_initialised", "", u8::from(gauges.initialised));
    let behind = |part: &str| gauges.behind.iter().find(|behind| behind.part == part);
    page.family("config_stale", "gauge", "Whether a part's file cannot be used and older content is in its place");
    for part in &gauges.followed {
        page.line("config_stale", &format!("{{part=\"{part}\"}}"), u8::from(behind(part).is_some()));
    }
    page.family("config_stale_seconds", "gauge", "For how long a part has been stale");
    for part in &gauges.followed {
        let age = behind(part).map_or(0, |behind| behind.age.as_secs());
        page.line("config_stale_seconds", &format!("{{part=\"{part}\"}}"), age);
    }
    page.family("reference_serial", "gauge", "The revision of each reference manifest that is in force");
    for (manifest, serial) in &gauges.serials {
        page.line("reference_serial", &format!("{{manifest=\"{manifest}\"}}"), serial);
    }
    page.family("config_reloads_total", "counter", "Parts of the configuration that were swapped in");
    page.line("config_reloads_total", "", gauges.reloads);
    if let Some(ends) = gauges.api_certificate_ends {
        page.family(
            "api_certificate_end_seconds",
            "gauge",
            "When the certificate by which the API server knows this service ends, in seconds since the Unix epoch",
        );
        page.line("api_certificate_end_seconds", "", ends);
    }
    if let Some(ends) = gauges.collateral_ends {
        let what = "When the first of the collateral that the policy goes by ends, in seconds since the Unix epoch";
        page.family("collateral_end_seconds", "gauge", what);
        page.line("collateral_end_seconds", "", ends);
    }
}

fn count(counter: Option<&AtomicU64>) {
    if let Some(counter) = counter {
        counter.fetch_add(1, Relaxed);
    }
}

fn value(counter: Option<&AtomicU64>) -> u64 {
    counter.map_or(0, |counter| counter.load(Relaxed))
}
