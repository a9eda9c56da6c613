//! What a run found: figures, what they are to be compared with, what was promised.

use std::fs;

use latchkey_bench::{Figure, Quantity};
use serde::Serialize;

use crate::promises::{Limit, PROMISED};

/// Ours, and a peer that does the same work, or a part of it.
const COMPARED: [(&str, &str); 23] = [
    ("attestation/quote-p256", "keylime/quote-p256"),
    ("attestation/quote-p256", "tpm2-tools/quote-p256"),
    ("attestation/quote-rsa", "keylime/quote-rsa"),
    ("attestation/quote-rsa", "tpm2-tools/quote-rsa"),
    ("attestation/snp-report", "sev-openssl/snp-report"),
    ("attestation/snp-report", "sev-rustcrypto/snp-report"),
    ("attestation/tdx-quote", "dcap-qvl/tdx-quote"),
    ("channel/join", "rustls/mutual"),
    ("channel/join-tpm", "rustls/mutual"),
    ("api/unary-1", "grpcio/unary"),
    ("api/unary-16", "grpcio/unary"),
    ("disk/key-check", "cryptsetup/test-passphrase"),
    ("disk/authenticated", "cryptsetup/integrity-no-wipe"),
    ("disk/authenticated", "cryptsetup/integrity-wipe"),
    ("measurements/launch-digest", "sev-snp-measure/launch-digest"),
    ("cli/measure-image", "systemd-measure/pcr-11"),
    ("cli/measure-image", "sev-snp-measure/process"),
    ("cli/measure-image", "snpguest/launch-digest"),
    ("config-db/http-get", "pgbench/select"),
    ("config-db/http-put", "pgbench/update"),
    ("config-db/http-patch", "pgbench/update"),
    ("cluster-manager/seal", "kubeseal/seal"),
    ("krb-keys/hundred", "kadmin/hundred"),
];

/// Everything a run found.
#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    pub(crate) machine: Machine,
    pub(crate) figures: Vec<Figure>,
    pub(crate) quantities: Vec<Quantity>,
    pub(crate) comparisons: Vec<Comparison>,
    pub(crate) promises: Vec<Promise>,
    pub(crate) skipped: Vec<Skipped>,
}

/// Where it ran.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) processors: usize,
    /// The load averages of the last minute, before and after.
    pub(crate) load: Vec<f64>,
    /// Whether machines can have their processor's own virtualisation.
    pub(crate) kvm: bool,
}

/// Ours beside a peer.
#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    pub(crate) ours: &'static str,
    pub(crate) peer: &'static str,
    /// How often ours is done in the time of the peer's one: above 1, ours is faster.
    pub(crate) ratio: f64,
}

/// A promise, kept or not.
#[derive(Debug, Serialize)]
pub(crate) struct Promise {
    pub(crate) id: &'static str,
    pub(crate) at_most: Limit,
    /// In the unit of the limit. `None`: nothing was measured.
    pub(crate) measured: Option<f64>,
    pub(crate) kept: Option<bool>,
}

/// Something that could not be measured.
#[derive(Debug, Serialize)]
pub(crate) struct Skipped {
    pub(crate) what: String,
    pub(crate) why: String,
}

impl Outcome {
    pub(crate) fn new(machine: Machine) -> Self {
        Self {
            machine,
            figures: Vec::new(),
            quantities: Vec::new(),
            comparisons: Vec::new(),
            promises: Vec::new(),
            skipped: Vec::new(),
        }
    }

    /// Notes what could not be measured.
    pub(crate) fn skip(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.skipped.push(Skipped { what: what.into(), why: why.into() });
    }

    /// Takes a peer's figures, or notes why there are none.
    pub(crate) fn take(&mut self, what: &str, measured: Result<Vec<Figure>, String>) {
        match measured {
            Ok(figures) => self.figures.extend(figures),
            Err(why) => self.skip(what, why),
        }
    }

    pub(crate) fn figure(&self, id: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.id == id)
    }

    fn quantity(&self, id: &str) -> Option<&Quantity> {
        self.quantities.iter().find(|quantity| quantity.id == id)
    }

    /// The peers of a figure: `keylime 2.63 ×, …`.
    pub(crate) fn peers(&self, ours: &str) -> String {
        let beside = self.comparisons.iter().filter(|comparison| comparison.ours == ours);
        let texts = beside.map(|comparison| {
            let name = comparison.peer.split('/').next().unwrap_or_default();
            format!("{name} {:.2} ×", comparison.ratio)
        });
        texts.collect::<Vec<_>>().join(", ")
    }

    /// Compares and judges what there is.
    pub(crate) fn finish(&mut self) {
        self.machine.load.extend(load());
        let median = |id| self.figure(id).map(|figure| figure.median_us);
        let compared = COMPARED.into_iter().filter_map(|(ours, peer)| {
            let ratio = median(peer)? / median(ours)?;
            Some(Comparison { ours, peer, ratio })
        });
        let promised = PROMISED.into_iter().map(|promised| {
            let (id, at_most) = (promised.id, promised.at_most);
            let measured = match at_most {
                Limit::Microseconds(_) => median(id),
                Limit::TimesOf(other, _) => median(id).zip(median(other)).map(|(ours, other)| ours / other),
                #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
                Limit::Bytes(_) | Limit::Count(_) => self.quantity(id).map(|quantity| quantity.count as f64),
            };
            Promise { id, at_most, measured, kept: measured.map(|measured| measured <= at_most.bound()) }
        });
        (self.comparisons, self.promises) = (compared.collect(), promised.collect());
    }
}

impl Machine {
    pub(crate) fn now() -> Self {
        let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        Self {
            processor: model.map_or("unknown", |(_, name)| name.trim()).to_owned(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            load: load().into_iter().collect(),
            kvm: std::path::Path::new("/dev/kvm").exists() && can_virtualise(&text),
        }
    }
}

/// Whether /proc/cpuinfo lists the processor's own virtualisation. Without it `/dev/kvm` may exist, and machines take TCG.
fn can_virtualise(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find_map(|line| line.strip_prefix("flags")?.split_once(':'));
    flags.is_some_and(|(_, flags)| flags.split_whitespace().any(|flag| flag == "vmx" || flag == "svm"))
}

fn load() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use latchkey_bench::Clock;

    use super::*;

    #[test]
    fn a_peer_that_takes_twice_as_long_is_a_ratio_of_two_and_promises_are_judged_by_the_median() {
        let mut outcome =
            Outcome::new(Machine { processor: String::new(), processors: 1, load: Vec::new(), kvm: false });
        for (id, micros) in [("attestation/quote-rsa", 20), ("keylime/quote-rsa", 40), ("disk/key-check", 3001)] {
            let batch = [Duration::from_micros(micros)];
            outcome.figures.push(Figure::from_batches(id, id, Clock::Processor, 1, &batch));
        }
        outcome.finish();
        let [comparison] = &outcome.comparisons[..] else { panic!("{:?}", outcome.comparisons) };
        assert!(comparison.peer == "keylime/quote-rsa" && (comparison.ratio - 2.0).abs() < 1e-9);
        let kept = |id| outcome.promises.iter().find(|promise| promise.id == id).and_then(|promise| promise.kept);
        assert_eq!((kept("disk/key-check"), kept("attestation/quote-rsa")), (Some(false), Some(true)));
        assert_eq!(kept("attestation/quote-p256"), None);
    }

    #[test]
    fn a_processor_without_its_flag_cannot_virtualise() {
        assert!(can_virtualise("model name\t: A\nflags\t\t: fpu svm sse\n"));
        assert!(!can_virtualise("model name\t: svm\nflags\t\t: fpu sse\nbugs\t: vmx\n"));
        assert!(!can_virtualise(""));
    }

    #[test]
    fn a_promise_beside_another_figure_is_judged_by_the_ratio_of_both() {
        let mut outcome =
            Outcome::new(Machine { processor: String::new(), processors: 1, load: Vec::new(), kvm: false });
        for (id, seconds) in [("boot/nothing", 10), ("boot/ticket", 12)] {
            outcome.figures.push(Figure::from_batches(id, id, Clock::Wall, 1, &[Duration::from_secs(seconds)]));
        }
        outcome.finish();
        let promise = outcome.promises.iter().find(|promise| promise.id == "boot/ticket").unwrap();
        assert!(promise.kept == Some(true) && (promise.measured.unwrap() - 1.2).abs() < 1e-9);
    }
}
