//! Explains whom a policy admits.

use latchkey_attestation::reference::{Image, Machine, Rule};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::{Output, Table, Tone, pairs};
use crate::spec::Arguments;
use crate::trust::{Trust, now};

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let trust = Trust::from_arguments(arguments)?;
    let file: Value = serde_json::from_slice(&trust.policy_file).unwrap_or_default();
    let rules = trust_rules(&file);
    let mut table = Table::new(&["MANIFEST", "IMAGE", "SOURCE", "ENFORCED", "WARNED", "ADMITTED"]);
    let mut images = Vec::new();
    for rule in trust.policy.references() {
        let Some(manifest) = trust.references.manifest(&rule.manifest) else { continue };
        let manifest = manifest.values();
        for (image, machine) in
            manifest.images().iter().flat_map(|image| image.machines().iter().map(move |m| (image, m)))
        {
            let verdict = admissible(image, image.version() >= rule.minimum_version);
            table.row([
                manifest.name().to_string(),
                image.label(),
                image.source().as_str().to_owned(),
                indices(machine, Rule::Enforce),
                indices(machine, Rule::Warn),
                verdict.to_owned(),
            ]);
            images.push(json!({
                "manifest": manifest.name(), "image": image.name(), "version": image.version(),
                "source": image.source(), "admitted": verdict == "yes", "why": verdict,
            }));
        }
    }
    let pcrs = |list: &str| {
        let list = file.pointer(list).and_then(Value::as_array).cloned().unwrap_or_default();
        list.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    let head = pairs(&[
        ("policy", output.paint(Tone::Good, "valid")),
        ("trusts", rules.join("\n")),
        ("enforces", format!("PCR {}", pcrs("/pcrs/enforce"))),
        ("warns", format!("PCR {}", pcrs("/pcrs/warn"))),
        ("lock", "PCR 15: zero before a node joins, its cluster's value afterwards".to_owned()),
    ]);
    let json = json!({"trusts": rules, "pcrs": file.pointer("/pcrs"), "images": images});
    output.result(&json, &format!("{head}\n{table}"));
    Ok(())
}

fn trust_rules(policy: &Value) -> Vec<String> {
    let count = |rule: &Value, field: &str| rule.get(field).and_then(Value::as_array).map_or(0, Vec::len);
    let mut rules: Vec<String> = Vec::new();
    for rule in policy.get("ak_trust").and_then(Value::as_array).into_iter().flatten() {
        rules.push(match rule.get("kind").and_then(Value::as_str) {
            Some("pinned-ek") => {
                plural(count(rule, "ek_sha256"), "TPM, by its endorsement key", "TPMs, by their endorsement keys")
            }
            _ => format!("TPMs certified by {}", plural(count(rule, "roots"), "authority", "authorities")),
        });
    }
    let denied = count(policy, "denied_ek_sha256");
    if denied > 0 {
        rules.push(format!("but not {}", plural(denied, "TPM that is denied", "TPMs that are denied")));
    }
    rules
}

fn plural(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn admissible(image: &Image, recent: bool) -> &'static str {
    let now = now();
    if !recent {
        "no: too old"
    } else if image.not_before().is_some_and(|from| now < from) {
        "not yet"
    } else if image.not_after().is_some_and(|until| now > until) {
        "no: expired"
    } else {
        "yes"
    }
}

fn indices(machine: &Machine, rule: Rule) -> String {
    let chosen = machine.pcrs().iter().filter(|(_, reference)| reference.rule == rule);
    let list: Vec<String> = chosen.map(|(index, _)| index.to_string()).collect();
    if list.is_empty() { "-".to_owned() } else { list.join(" ") }
}
