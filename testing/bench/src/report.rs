//! The run for people, and for programs.

use latchkey_bench::Figure;

use crate::outcome::{Outcome, Promise};

/// One JSON object.
pub(crate) fn json(outcome: &Outcome) {
    println!("{}", serde_json::to_string_pretty(outcome).unwrap_or_default());
}

/// Figures, what is missing, comparisons; and at the end each promise, kept or not.
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
    for quantity in &outcome.quantities {
        println!("{:<70} {:>11}", quantity.what, quantity.count);
    }
    if !outcome.skipped.is_empty() {
        println!("\nNot measured");
        outcome.skipped.iter().for_each(|skipped| println!("  {}: {}", skipped.what, skipped.why));
    }
    comparisons(outcome);
    promises(outcome);
}

fn comparisons(outcome: &Outcome) {
    println!("\nBeside peers: how often ours is done in the time of the peer's one");
    for comparison in &outcome.comparisons {
        println!("  {:<28} {:>8.2} ×  {}", comparison.ours, comparison.ratio, comparison.peer);
    }
}

fn promises(outcome: &Outcome) {
    println!(
        "\n{:<28} {:>10} {:>10}  {:<12}  peers of the same run, in times of ours",
        "Promised", "at most", "measured", ""
    );
    for Promise { id, at_most, measured, kept } in &outcome.promises {
        let verdict = match kept {
            Some(true) => "kept",
            Some(false) => "MISSED",
            None => "not measured",
        };
        let (bound, measured) =
            (at_most.show(at_most.bound()), measured.map_or_else(|| "–".to_owned(), |m| at_most.show(m)));
        println!("{id:<28} {bound:>10} {measured:>10}  {verdict:<12}  {}", outcome.peers(id));
    }
}
