//! The run for people, and for programs.

use latchkey_bench::Figure;

use crate::outcome::{Outcome, Promise, Within};

/// One JSON object.
pub(crate) fn json(outcome: &Outcome) {
    println!("{}", serde_json::to_string_pretty(outcome).unwrap_or_default());
}

/// Figures, comparisons, promises, and what is missing.
pub(crate) fn table(outcome: &Outcome) {
    let machine = &outcome.machine;
    let load: Vec<_> = machine.load.iter().map(|load| format!("{load:.2}")).collect();
    println!("{} × {}, load average {}", machine.processors, machine.processor, load.join(" → "));
    println!("\n{:<70} {:>11} {:>11} {:>11}  time", "", "µs, median", "at best", "per second");
    for figure in &outcome.figures {
        let Figure { what, median_us, fastest_us, .. } = figure;
        let (rate, clock) = (figure.per_second(), figure.clock.name());
        println!("{what:<70} {median_us:>11.1} {fastest_us:>11.1} {rate:>11.0}  {clock}");
    }
    comparisons(outcome);
    promises(outcome);
    if !outcome.skipped.is_empty() {
        println!("\nNot measured");
        outcome.skipped.iter().for_each(|skipped| println!("  {}: {}", skipped.what, skipped.why));
    }
}

fn comparisons(outcome: &Outcome) {
    println!("\nBeside peers: how often ours is done in the time of the peer's one");
    for comparison in &outcome.comparisons {
        println!("  {:<28} {:>8.2} ×  {}", comparison.ours, comparison.ratio, comparison.peer);
    }
}

fn promises(outcome: &Outcome) {
    println!("\nPromises");
    let verdict = |kept: Option<bool>| match kept {
        Some(true) => "kept",
        Some(false) => "MISSED",
        None => "not measured",
    };
    for Promise { id, at_most_us, kept } in &outcome.promises {
        let verdict = verdict(*kept);
        let got = outcome.figure(id).map_or_else(|| "–".to_owned(), |figure| format!("{:.1}", figure.median_us));
        println!("  {id:<28} {got:>8} µs of at most {at_most_us:>6.0}  {verdict}");
    }
    for Within { id, beside, at_most, ratio, kept } in &outcome.within {
        let verdict = verdict(*kept);
        let got = ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}"));
        println!("  {id:<28} {got:>8} ×  of at most {at_most:>6.2}  {verdict}, beside {beside}");
    }
}
