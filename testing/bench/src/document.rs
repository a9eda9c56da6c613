//! The table of SPECIFICATION.md: what is promised, and what one run measured.

use std::fmt::Write as _;

use crate::outcome::{Machine, Outcome};
use crate::promises::PROMISED;

/// The document, from the root of the checkout.
pub(crate) const DOCUMENT: &str = "SPECIFICATION.md";
/// The marks that the table stands between.
const MARKS: [&str; 2] = ["<!-- promises: begin -->\n", "<!-- promises: end -->"];

/// The document with the table of this run; `None` if it lacks the marks.
pub(crate) fn written(document: &str, outcome: &Outcome) -> Option<String> {
    let (before, rest) = document.split_once(MARKS[0])?;
    let (_, after) = rest.split_once(MARKS[1])?;
    Some([before, MARKS[0], &table(outcome), MARKS[1], after].concat())
}

/// Where it ran, then a row for each promise.
fn table(outcome: &Outcome) -> String {
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
        let peers = outcome.peers(promise.id);
        let _ = writeln!(table, "| {what} | {bound} | {measured} | {verdict} | {peers} | {} |", promised.shown_by);
    }
    table
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use latchkey_bench::{Clock, Figure, Quantity};

    use super::*;
    use crate::promises::Promised;

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
        let before = format!("# S\n\n{}an earlier table\n{}\n\nafter\n", MARKS[0], MARKS[1]);
        let text = written(&before, &outcome()).unwrap();
        assert!(
            text.starts_with("# S\n") && text.ends_with("\n\nafter\n") && !text.contains("an earlier table"),
            "{text}"
        );
        assert!(text.contains("2 × Slow, without KVM, load average 0.50 → 1.00"), "{text}");
        let row = |what: &str| text.lines().find(|line| line.contains(what)).unwrap().to_owned();
        assert!(row("RSA-2048").contains("| 0.50 × | 0.40 × | kept | keylime 2.50 × |"), "{text}");
        assert!(row("the agent, static").contains("| 2.50 MB | 2.60 MB | **missed** |"), "{text}");
        assert!(row("crates in it").contains("| 110 | – | not measured |"), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("| ")).count(), PROMISED.len() + 1);
        assert_eq!(written("no marks", &outcome()), None);
    }

    #[test]
    fn the_document_promises_what_is_promised_here_and_nothing_else() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(DOCUMENT);
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
