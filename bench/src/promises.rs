//! What SPECIFICATION.md promises, and its table.

use serde::Serialize;

use crate::outcome::{Machine, Outcome};

/// The document, from the root of the checkout.
pub(crate) const DOCUMENT: &str = "SPECIFICATION.md";
/// The marks that the table stands between.
const MARKS: [&str; 2] = ["<!-- promises: begin -->\n", "<!-- promises: end -->"];

/// A bound, of a figure or a quantity.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Limit {
    /// A time.
    Microseconds(f64),
    /// So many times as long as another figure of the same run.
    TimesOf(&'static str, f64),
    /// A number of bytes.
    Bytes(u64),
    /// A number of things.
    Count(u64),
}

/// What is promised: a figure or quantity by its id, in words, at most, and what measures it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promised {
    pub(crate) id: &'static str,
    pub(crate) what: &'static str,
    pub(crate) at_most: Limit,
    /// Names that `docs-check` finds: files and tests.
    pub(crate) shown_by: &'static str,
}

const fn promised(id: &'static str, at_most: Limit, what: &'static str, shown_by: &'static str) -> Promised {
    Promised { id, what, at_most, shown_by }
}

/// All promises with numbers, in the order of the document.
pub(crate) const PROMISED: [Promised; 15] = [
    promised("agent/bytes", Limit::Bytes(2_500_000), "the agent, static, stripped", "`qemu-tests/src/bin/size.rs`"),
    promised("agent/crates", Limit::Count(110), "crates in it", "`qemu-tests/src/bin/size.rs`"),
    promised(
        "initramfs/bytes",
        Limit::Bytes(6_000_000),
        "the initramfs with its modules",
        "`qemu-tests/src/bin/size.rs`",
    ),
    promised(
        "agent/peak-memory",
        Limit::Bytes(6_000_000),
        "peak memory of stage 1 on a node that joins (`VmHWM`)",
        "`qemu-tests/benches/boot.rs`",
    ),
    promised(
        "join-service/memory",
        Limit::Bytes(5_000_000),
        "memory of the join service, ready (`VmRSS`)",
        "`services/join-service/benches/tickets.rs`",
    ),
    promised(
        "attestation/quote-rsa",
        Limit::Microseconds(25.0),
        "verifying one quote: keys, signature, PCRs, policy; RSA-2048",
        "`attestation/benches/appraise.rs`",
    ),
    promised(
        "attestation/quote-p256",
        Limit::Microseconds(55.0),
        "the same, P-256",
        "`attestation/benches/appraise.rs`",
    ),
    promised(
        "join-service/join",
        Limit::Microseconds(1000.0),
        "a complete join, the service's side: TLS, evidence, decision, keys, durable record, ticket",
        "`services/join-service/benches/tickets.rs`",
    ),
    promised(
        "disk/key-check",
        Limit::Microseconds(3000.0),
        "checking a key against a LUKS2 header",
        "`disk/benches/unlock.rs`",
    ),
    promised(
        "measurements/image",
        Limit::Microseconds(25_000.0),
        "predicting PCRs and SNP launch digest of a 17 MB image, in the library",
        "`measurements/benches/launch.rs`",
    ),
    promised(
        "cli/measure-image",
        Limit::Microseconds(20_000.0),
        "the same as the command `latchkey measure image`, a process",
        "`cli/benches/measure.rs`",
    ),
    promised(
        "cli/measure-image-direct",
        Limit::Microseconds(25_000.0),
        "the same with the hashes of a direct boot",
        "`cli/benches/measure.rs`",
    ),
    promised(
        "image/build",
        Limit::Microseconds(30e6),
        "building an image of a 200 MB root, signed",
        "`qemu-tests/benches/image.rs`",
    ),
    promised(
        "disk/authenticated-1g",
        Limit::Microseconds(2e6),
        "1 GiB of authenticated state disk, blank to open",
        "`qemu-tests/benches/disk.rs`",
    ),
    promised(
        "boot/ticket",
        Limit::TimesOf("boot/nothing", 1.2),
        "power-on to ticket, beside the same kernel and firmware doing nothing",
        "`qemu-tests/benches/boot.rs`",
    ),
];

/// The document with the table of this run; `None` if it lacks the marks.
pub(crate) fn written(document: &str, outcome: &Outcome) -> Option<String> {
    let (before, rest) = document.split_once(MARKS[0])?;
    let (_, after) = rest.split_once(MARKS[1])?;
    Some([before, MARKS[0], &table(outcome), MARKS[1], after].concat())
}

/// Where it ran, then a row for each promise.
fn table(outcome: &Outcome) -> String {
    use std::fmt::Write as _;
    let Machine { processor, processors, load, kvm } = &outcome.machine;
    let load: Vec<_> = load.iter().map(|load| format!("{load:.2}")).collect();
    let kvm = if *kvm { "with" } else { "without" };
    let mut table = format!(
        "One run on {processors} × {processor}, {kvm} KVM, load average {} (before → after).\n\n",
        load.join(" → ")
    );
    table.push_str("| promise | at most | measured | | beside peers | measured by |\n|---|---|---|---|---|---|\n");
    for promise in &outcome.promises {
        let Some(promised) = PROMISED.iter().find(|promised| promised.id == promise.id) else { continue };
        let measured = promise.measured.map_or_else(|| "–".to_owned(), |value| promise.at_most.show(value));
        let verdict = match promise.kept {
            Some(true) => "kept",
            Some(false) => "**missed**",
            None => "not measured",
        };
        let (what, bound) = (promised.what, promise.at_most.show(promise.at_most.bound()));
        let peers = crate::report::peers(outcome, promise.id);
        let _ = writeln!(table, "| {what} | {bound} | {measured} | {verdict} | {peers} | {} |", promised.shown_by);
    }
    table
}

impl Limit {
    /// The bound, in the unit of the limit: microseconds, times, bytes, things.
    pub(crate) fn bound(self) -> f64 {
        match self {
            Self::Microseconds(bound) | Self::TimesOf(_, bound) => bound,
            #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
            Self::Bytes(bound) | Self::Count(bound) => bound as f64,
        }
    }

    /// A value of this kind, in the unit that people would choose.
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Self::Microseconds(_) => match value {
                ..1e3 => format!("{value:.1} µs"),
                1e3..1e6 => format!("{:.1} ms", value / 1e3),
                _ => format!("{:.2} s", value / 1e6),
            },
            Self::TimesOf(..) => format!("{value:.2} ×"),
            Self::Bytes(_) => format!("{:.2} MB", value / 1e6),
            Self::Count(_) => format!("{value:.0}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use latchkey_bench::{Clock, Figure, Quantity};

    use super::*;

    fn outcome() -> Outcome {
        let machine = Machine { processor: "Slow".to_owned(), processors: 2, load: vec![0.5, 1.0], kvm: false };
        let mut outcome = Outcome::new(machine);
        let figure = |id, micros| Figure::from_batches(id, id, Clock::Processor, 1, &[Duration::from_micros(micros)]);
        outcome.figures.extend([figure("attestation/quote-rsa", 20), figure("keylime/quote-rsa", 50)]);
        outcome.quantities.push(Quantity::new("agent/bytes", "agent", 2_600_000));
        outcome.finish();
        outcome
    }

    #[test]
    fn the_table_has_a_row_for_each_promise_with_what_this_run_measured() {
        let before = format!("# S\n\n{}old\n{}\n\nafter\n", MARKS[0], MARKS[1]);
        let text = written(&before, &outcome()).unwrap();
        assert!(text.starts_with("# S\n") && text.ends_with("\n\nafter\n") && !text.contains("old"), "{text}");
        assert!(text.contains("2 × Slow, without KVM, load average 0.50 → 1.00"), "{text}");
        let row = |what: &str| text.lines().find(|line| line.contains(what)).unwrap().to_owned();
        assert!(row("RSA-2048").contains("| 25.0 µs | 20.0 µs | kept | keylime 2.50 × |"), "{text}");
        assert!(row("the agent, static").contains("| 2.50 MB | 2.60 MB | **missed** |"), "{text}");
        assert!(row("crates in it").contains("| 110 | – | not measured |"), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("| ")).count(), PROMISED.len() + 1);
        assert_eq!(written("no marks", &outcome()), None);
    }

    #[test]
    fn the_document_promises_what_is_promised_here_and_nothing_else() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(DOCUMENT);
        let text = std::fs::read_to_string(path).unwrap();
        let table = text.split(MARKS[0]).nth(1).unwrap().split(MARKS[1]).next().unwrap();
        let rows: Vec<_> = table.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
        assert_eq!(rows.len(), PROMISED.len(), "`./dev bench --write` writes the table");
        for (row, Promised { what, at_most, shown_by, .. }) in rows.iter().zip(PROMISED) {
            let bound = at_most.show(at_most.bound());
            let head = format!("| {what} | {bound} |");
            assert!(row.starts_with(&head) && row.ends_with(&format!("| {shown_by} |")), "{row}\n{head}");
        }
    }
}
