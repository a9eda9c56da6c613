//! `latchkey node list`, `latchkey node show`.

use latchkey_attestation::EkDigest;
use latchkey_cluster_store::{Denials, DiskState, NodeRecord, Outcome, PendingRecord, TpmRecord};
use serde::Serialize;

use crate::arguments::Arguments;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::firmware::waiting as waiting_firmware;
use crate::machines;
use crate::output::{Output, Report, Style, Table, Tone, pairs, printable};
use crate::seen::Seen;

pub(crate) fn list(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let machines = machines::open(arguments)?;
    let (nodes, wrong) = machines.nodes()?;
    let (held, denied) = (machines.pending()?, machines.denials()?);
    for sentence in wrong.iter().chain(denied.unreadable()).chain(&lost(&denied)) {
        output.say(Tone::Warning, "warning", &printable(sentence));
    }
    let (unreadable_denials, denials_lost) = (denied.unreadable().to_vec(), denied.lost());
    let denied = denied.iter().copied().collect();
    let mut seen = machines.seen(&nodes)?;
    let listed = |record: NodeRecord| Listed {
        words: record.ek_sha256.words().to_string(),
        seen: seen.remove(&record.ek_sha256),
        record,
    };
    let nodes = nodes.into_iter().map(listed).collect();
    output.report(&ListReport { nodes, held, denied, unreadable_records: wrong, unreadable_denials, denials_lost })
}

/// A machine on record.
#[derive(Serialize)]
struct Listed {
    #[serde(flatten)]
    record: NodeRecord,
    /// The beginning of its digest.
    words: String,
    /// What it proved last, where that is known.
    seen: Option<Seen>,
}

/// The machines of a cluster.
#[derive(Serialize)]
struct ListReport {
    nodes: Vec<Listed>,
    held: Vec<PendingRecord>,
    denied: Vec<EkDigest>,
    unreadable_records: Vec<String>,
    unreadable_denials: Vec<String>,
    /// How many are counted and not there.
    denials_lost: u64,
}

/// What is to be said of denials of which more are counted than are there.
pub(crate) fn lost(denials: &Denials) -> Option<String> {
    let refusal = denials.check_complete().err()?;
    Some(format!("{}: {refusal}; {}", refusal.code(), refusal.code().remedy()))
}

impl Report for ListReport {
    fn exit(&self) -> Exit {
        let is_whole =
            self.unreadable_records.is_empty() && self.unreadable_denials.is_empty() && self.denials_lost == 0;
        Exit::of_damage(!is_whole)
    }

    fn text(&self, _: Style) -> String {
        let denied = |ek: &EkDigest| self.denied.contains(ek);
        let absent = || "-".to_owned();
        let mut table = Table::new(&["NAME", "ROLE", "STATE", "IMAGE", "AGENT", "PROVEN", "TPM"]);
        // The same in words is below its digits: beside them no terminal would be wide enough.
        let mut row = |said: [String; 3], seen: Option<&Seen>, ek: &EkDigest| {
            let image = seen.map_or_else(absent, |seen| format!("{} {}", seen.image, seen.version));
            let agent = seen.and_then(|seen| seen.agent_version.clone()).unwrap_or_else(absent);
            let proven = seen.and_then(|seen| seen.last_attestation.clone()).unwrap_or_else(absent);
            table.row(said.into_iter().chain([image, agent, proven, ek.to_string()]));
            table.row(std::iter::repeat_n(String::new(), 6).chain([ek.words().to_string()]));
        };
        for Listed { record: node, seen, .. } in &self.nodes {
            let state = if denied(&node.ek_sha256) { "denied".to_owned() } else { state(node) };
            row([node.name.to_string(), node.role.name().to_owned(), state], seen.as_ref(), &node.ek_sha256);
        }
        for one in self.held.iter().filter(|one| !denied(&one.ek_sha256)) {
            let state = format!("held, firmware {}", one.firmware.word());
            row([format!("({})", printable(&one.asks_for_name)), absent(), state], None, &one.ek_sha256);
        }
        for ek in self.denied.iter().filter(|ek| self.nodes.iter().all(|node| node.record.ek_sha256 != **ek)) {
            row([absent(), absent(), "denied".to_owned()], None, ek);
        }
        let note = "A name in brackets is what a machine asks for: `latchkey node admit` lets it in, by its TPM.\n";
        format!("{table}{}", if self.held.is_empty() { "" } else { note })
    }
}

pub(crate) fn show(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let machines = machines::open(arguments)?;
    let (ek, record) = super::machine(arguments, &*machines)?;
    let denied = machines.denials()?.has(&ek);
    let held = machines.pending()?.into_iter().find(|one| one.ek_sha256 == ek);
    let reason = if denied { machines.denial_reason(ek)? } else { String::new() };
    if record.is_none() && held.is_none() && !denied {
        let failure =
            CommandError::new(Exit::Usage, CommandCode::NodeUnknown, format!("nothing is known here of the TPM {ek}"));
        return Err(failure.fix("see `latchkey node list`"));
    }
    let seen = machines.seen(record.as_slice())?.remove(&ek);
    let words = ek.words().to_string();
    output.report(&ShowReport {
        ek_sha256: ek,
        words,
        record,
        seen,
        held,
        denied,
        denial_reason: reason,
        qr: arguments.has("qr"),
    })
}

/// What is known of one machine.
#[derive(Serialize)]
struct ShowReport {
    ek_sha256: EkDigest,
    /// The beginning of its digest.
    words: String,
    record: Option<NodeRecord>,
    /// What it proved last, where that is known.
    seen: Option<Seen>,
    held: Option<PendingRecord>,
    denied: bool,
    denial_reason: String,
    #[serde(skip)]
    qr: bool,
}

impl Report for ShowReport {
    fn text(&self, _: Style) -> String {
        let mut lines = vec![("TPM", format!("{}\n{}", self.ek_sha256, self.words))];
        lines.extend(self.record.iter().flat_map(described));
        lines.extend(self.seen.iter().flat_map(proven));
        lines.extend(self.held.iter().flat_map(waiting));
        if self.denied {
            let reason = printable(&self.denial_reason);
            lines.push(("denied", if reason.is_empty() { "yes".to_owned() } else { format!("yes: {reason}") }));
        }
        let qr = if self.qr { format!("\n{}", self.ek_sha256.qr()) } else { String::new() };
        format!("{}{qr}", pairs(&lines))
    }
}

fn described(record: &NodeRecord) -> Vec<(&'static str, String)> {
    let disk = |disk: &latchkey_cluster_store::Disk| {
        let state = if disk.state == DiskState::Confirmed { "in use" } else { "issued" };
        format!("{}, epoch {}, key version {}, {state}", disk.uuid, disk.epoch, disk.key_version)
    };
    let disks: Vec<_> = record.disks.iter().map(disk).collect();
    let mut lines = vec![
        ("name", record.name.to_string()),
        ("role", record.role.name().to_owned()),
        ("state", state(record)),
        ("disks", disks.join("\n")),
    ];
    if !record.retired.is_empty() {
        lines.push(("replaced", format!("{} earlier disks", record.retired.len())));
    }
    if let Some(TpmRecord { boot, went_back_at, .. }) = &record.tpm {
        let back = if went_back_at.is_some() { "; the counters went back once" } else { "" };
        lines.push(("TPM state", format!("{} resets, {} restarts{back}", boot.reset_count, boot.restart_count)));
    }
    match (waiting_firmware(record), &record.firmware) {
        (Some((changes, change)), _) => {
            let changes: Vec<_> = changes.iter().map(|change| printable(&change.to_string())).collect();
            let text = format!("changed, and not accepted: `latchkey policy accept-firmware`\n{}", changes.join("\n"));
            lines.extend([("firmware", text), ("change", change.to_string())]);
        }
        (None, Some(known)) => lines.push(("firmware", format!("as on record, PCRs {}", known.measured.pcrs().set()))),
        (None, None) => lines.push(("firmware", "not on record yet".to_owned())),
    }
    if let Some(moved) = &record.moved {
        lines.push(("moved here", format!("from the TPM {}", moved.from)));
    }
    lines
}

fn proven(seen: &Seen) -> Vec<(&'static str, String)> {
    let Seen { image, version, agent_version, last_attestation } = seen;
    let mut lines = vec![("image", printable(&format!("{image} {version}")))];
    lines.extend(agent_version.iter().map(|version| ("agent", printable(version))));
    lines.extend(last_attestation.iter().map(|at| ("proven last", printable(at))));
    lines
}

fn waiting(held: &PendingRecord) -> Vec<(&'static str, String)> {
    vec![
        ("held", "it waits for `latchkey node admit`".to_owned()),
        ("asks for", format!("the name {}; disk {}", printable(&held.asks_for_name), held.disk)),
        ("firmware", printable(&held.firmware.describe())),
    ]
}

/// What was last heard of a node, about its newest disk.
pub(crate) fn state(node: &NodeRecord) -> String {
    let newest = node.disks.iter().max_by_key(|disk| disk.epoch);
    let firmware = if waiting_firmware(node).is_some() { ", firmware changed" } else { "" };
    let reported = node.reported.as_ref().filter(|reported| newest.is_some_and(|disk| disk.uuid == reported.disk));
    let state = match (reported.map(|reported| &reported.outcome), newest.map(|disk| disk.state)) {
        (Some(Outcome::Failed { code, .. }), _) => format!("failed: {code}"),
        (Some(Outcome::Succeeded), _) | (None, Some(DiskState::Confirmed)) => "member".to_owned(),
        (None, _) => "joining".to_owned(),
    };
    format!("{state}{firmware}")
}
