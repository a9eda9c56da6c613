//! `latchkey node admit`, `deny`, `allow`, `remove`: the operator's word about one machine.

use latchkey_attestation::{EkDigest, FirmwareStanding, KnownBy};
use latchkey_cluster_store::{DenialAsk, DenialOutcome, NodeName, NodeRecord, PlaceCode, Role};
use latchkey_keys::{ClusterId, Uuid};
use serde::Serialize;

use crate::admission::{Admission, Removed};
use crate::arguments::Arguments;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::machines::{self, Store};
use crate::output::{Output, Report, Style, Tone, pairs, printable};

use super::service::{self, Telling, Told};

/// Lets a machine in that no rule spoke of, under the role and name that the operator says.
pub(crate) fn admit(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let machines = machines::open(arguments)?;
    let (ek, record) = super::machine(arguments, &*machines)?;
    let wished = match arguments.text("role")? {
        None => None,
        Some("worker") => Some(Role::Worker),
        Some("control-plane") => Some(Role::ControlPlane),
        Some(other) => {
            return Err(CommandError::usage(format!("--role {other}: expected `worker` or `control-plane`")));
        }
    };
    let name = arguments.value::<NodeName>("name")?;
    if let Some(name) = &name {
        let (nodes, _) = machines.nodes()?;
        if nodes.iter().any(|node| node.name == *name && node.ek_sha256 != ek) {
            return Err(name_taken(name, ek));
        }
    }
    let not_denied = machines.not_denied(ek)?;
    let held = machines.pending()?.into_iter().find(|one| one.ek_sha256 == ek);
    let said = Admission { role: wished, name, on_record: record.as_ref().map(|record| record.role) };
    let rule = machines.admit(&not_denied, &said)?;
    output.report(&AdmitReport {
        ek_sha256: ek,
        role: rule.role.role().map_or("-", Role::name),
        name: rule.name,
        was_waiting: held.is_some(),
        firmware: held.as_ref().map(|one| one.firmware.clone()),
        asked_for_name: held.map(|one| printable(&one.asks_for_name)),
        on_record_as: record.map(|record| record.name),
    })
}

/// The rule would let nobody in: the join service gives no name twice.
fn name_taken(name: &NodeName, ek: EkDigest) -> CommandError {
    let what = format!("{name} is the name of another machine on record, so {ek} cannot have it");
    CommandError::new(Exit::Usage, CommandCode::NameTaken, what)
}

/// A machine is let in, by the rule as it is written.
#[derive(Serialize)]
struct AdmitReport {
    ek_sha256: EkDigest,
    role: &'static str,
    name: Option<NodeName>,
    was_waiting: bool,
    /// Whether its firmware is one that a manifest lists; nothing of a machine that did not wait.
    firmware: Option<FirmwareStanding>,
    asked_for_name: Option<String>,
    #[serde(skip)]
    on_record_as: Option<NodeName>,
}

impl Report for AdmitReport {
    fn text(&self, style: Style) -> String {
        let name = match (self.name.as_ref().or(self.on_record_as.as_ref()), &self.asked_for_name) {
            (Some(name), _) => name.to_string(),
            (None, Some(asked)) => format!("as it asks: {asked}"),
            (None, None) => "as it asks".to_owned(),
        };
        let firmware = self.firmware.as_ref().map_or_else(
            || "not judged: the machine did not wait here".to_owned(),
            |standing| printable(&standing.describe()),
        );
        let tone =
            if matches!(self.firmware, Some(FirmwareStanding::Known { .. })) { Tone::Good } else { Tone::Warning };
        pairs(&[
            ("admitted", style.paint(Tone::Good, &self.ek_sha256.to_string())),
            ("role", self.role.to_owned()),
            ("name", name),
            ("firmware", style.paint(tone, &firmware)),
        ])
    }
}

/// Shuts a machine out: a file of its own, which no mistake in another one undoes.
pub(crate) fn deny(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let reason = arguments.text("reason")?.unwrap_or_default();
    // First, where nothing has to be read for it: a store that does not answer is waited for.
    let told =
        named_without_store(arguments).map(|(cluster, ek)| Telling::of(arguments, Some(cluster), DenialAsk::Deny(ek)));
    let denied = denied_in_store(arguments, reason);
    let Denied { machines, ek, record, half } =
        denied.map_err(|failure| denied_without_store(told.as_ref(), failure))?;
    let telling =
        told.unwrap_or_else(|| Telling::of(arguments, machines.cluster_id().ok().flatten(), DenialAsk::Deny(ek)));
    telling.warn(output);
    // It is done, whatever else is wrong: a policy that cannot be read says nothing here.
    let known_by = machines.trust().ok().map(|trust| trust.policy.known_by());
    let waits = machines.pending().is_ok_and(|pending| pending.iter().any(|one| one.ek_sha256 == ek));
    let seen = record.is_some() || waits;
    let name = record.map(|record| record.name);
    let (service, lacking) = (telling.told, telling.is_lacking());
    if let Some(half) = &half {
        output.say(Tone::Warning, half.code.as_str(), &service::in_one_line(half));
    }
    let lacking = lacking || half.is_some();
    let half_done = half.map(|half| half.code.as_str().to_owned());
    output.report(&DenyReport { ek_sha256: ek, known_by, seen, name, denied: true, half_done, service, lacking })
}

/// A denial that is in force.
struct Denied {
    machines: Box<dyn Store>,
    ek: EkDigest,
    record: Option<NodeRecord>,
    /// What of it is still to be done.
    half: Option<CommandError>,
}

/// By a whole digest it is shut out before anything else is read: records that cannot be read, or are gone, do not matter then.
fn denied_in_store(arguments: &Arguments, reason: &str) -> Result<Denied, CommandError> {
    let machines = machines::open_lacking(arguments)?;
    let (ek, record) = match super::whole_digest(arguments) {
        Some(ek) => (ek, None),
        None => super::machine(arguments, &*machines)?,
    };
    let half = match machines.deny(ek, reason) {
        Ok(()) => None,
        Err(failure) if IN_FORCE.iter().any(|code| failure.code == (*code).into()) => Some(failure),
        Err(failure) => return Err(failure),
    };
    let record = record.or_else(|| machines.nodes().ok()?.0.into_iter().find(|node| node.ek_sha256 == ek));
    Ok(Denied { machines, ek, record, half })
}

/// Of a denial that is in force all the same.
const IN_FORCE: [PlaceCode; 2] = [PlaceCode::NotCounted, PlaceCode::NotListed];

/// Machine and cluster, where a whole digest and a directory name them.
fn named_without_store(arguments: &Arguments) -> Option<(ClusterId, EkDigest)> {
    let ek = super::whole_digest(arguments).filter(|_| !arguments.has("kubeconfig"))?;
    Some((service::cluster_of_directory(arguments)?, ek))
}

/// The store did not take the denial; what the join service of this machine was told is said.
fn denied_without_store(told: Option<&Telling>, failure: CommandError) -> CommandError {
    match told {
        Some(telling) => telling.without_store(failure),
        None if matches!(failure.exit, Exit::Usage | Exit::Missing) => failure,
        None => failure.because(
            "nobody was told: without the store a machine is named by its whole digest, and its cluster by --cluster",
        ),
    }
}

/// A machine is shut out.
#[derive(Serialize)]
struct DenyReport {
    ek_sha256: EkDigest,
    /// By which of its keys the policy knows a machine; absent where the policy cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    known_by: Option<KnownBy>,
    /// Whether a machine with this digest is on record, or waits for the operator.
    seen: bool,
    name: Option<NodeName>,
    denied: bool,
    /// Why not all of it is done: it is in force, and not counted, or not listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    half_done: Option<String>,
    /// Whether the join service of this machine was told.
    service: Told,
    /// Whether something was to be done, and was not.
    #[serde(skip)]
    lacking: bool,
}

impl Report for DenyReport {
    fn exit(&self) -> Exit {
        if self.lacking { Exit::Failed } else { Exit::Done }
    }

    fn text(&self, style: Style) -> String {
        let (ek, denied) = (&self.ek_sha256, style.paint(Tone::Bad, "denied"));
        let whom = self.name.as_ref().map_or_else(|| ek.to_string(), |name| format!("{name}, {ek}"));
        let keys = match self.known_by {
            Some(KnownBy::AttestationKey) if !self.seen => {
                "This names an attestation key,\nby which the policy knows machines, and no machine with it was seen yet. The digest of an\n\
                 endorsement key denies nobody here: take `claimed_identity` of the join service's audit line."
            }
            Some(KnownBy::AttestationKey) => "This names its\nattestation key, by which the policy knows it.",
            Some(KnownBy::EndorsementKey) | None => {
                "This names one\nendorsement key: if the policy allows several of a TPM, deny each."
            }
        };
        format!(
            "{denied} {whom}\n{} If it is running, it keeps its open disk until it restarts. {keys}\n",
            in_force(self.service)
        )
    }
}

/// Since when a denial that the store has counts.
fn in_force(service: Told) -> &'static str {
    match service {
        Told::Done => {
            "The join service of this machine gives it no key from now on, others as soon as they hear of it."
        }
        Told::Absent => "It gets no key from a join service that hears of it: in a moment, or within half a minute.",
        Told::Failed => {
            "The join service of this machine was not told; it, too, hears of it from the store: in a moment,\nor within half a minute."
        }
    }
}

/// Takes a denial back.
pub(crate) fn allow(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let machines = machines::open(arguments)?;
    let (ek, _) = super::machine(arguments, &*machines)?;
    let was_listed = machines.allow(ek)?;
    let telling = Telling::of(arguments, machines.cluster_id().ok().flatten(), DenialAsk::Allow(ek));
    telling.warn(output);
    let was_denied = was_listed || telling.outcome == Some(DenialOutcome::Allowed { was_denied: true });
    if !was_denied {
        let failure = CommandError::new(
            Exit::Usage,
            CommandCode::NotDenied,
            format!("the TPM {ek} is not denied in {}", machines.place()),
        );
        return Err(failure.fix("see `latchkey node list`; a policy may deny it, too"));
    }
    let (service, lacking) = (telling.told, telling.is_lacking());
    output.report(&AllowReport { ek_sha256: ek, denied: false, service, lacking })
}

/// A denial was taken back.
#[derive(Serialize)]
struct AllowReport {
    ek_sha256: EkDigest,
    denied: bool,
    service: Told,
    #[serde(skip)]
    lacking: bool,
}

impl Report for AllowReport {
    fn exit(&self) -> Exit {
        if self.lacking { Exit::Failed } else { Exit::Done }
    }

    fn text(&self, _: Style) -> String {
        let but = match self.service {
            Told::Failed => {
                "\nThe join service of this machine was not told: what was denied at it alone stays so until it ends."
            }
            Told::Done | Told::Absent => "",
        };
        format!("{} is not denied any more; the other rules decide about it{but}\n", self.ek_sha256)
    }
}

/// Forgets a machine.
pub(crate) fn remove(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let machines = machines::open(arguments)?;
    let (ek, record) = super::machine(arguments, &*machines)?;
    let Some(Removed { denied }) = machines.remove(ek, record.as_ref())? else {
        let failure =
            CommandError::new(Exit::Usage, CommandCode::NodeUnknown, format!("nothing is on record of the TPM {ek}"));
        return Err(failure.fix("see `latchkey node list`"));
    };
    let telling = denied.then(|| Telling::of(arguments, machines.cluster_id().ok().flatten(), DenialAsk::Deny(ek)));
    if let Some(telling) = &telling {
        telling.warn(output);
    }
    let (service, lacking) = (telling.as_ref().map(|it| it.told), telling.is_some_and(|it| it.is_lacking()));
    let disks = record.iter().flat_map(|record| record.disks.iter()).map(|disk| disk.uuid).collect();
    let name = record.map(|record| record.name);
    output.report(&RemoveReport { ek_sha256: ek, name, disks, denied, service, lacking })
}

/// A machine was forgotten.
#[derive(Serialize)]
struct RemoveReport {
    ek_sha256: EkDigest,
    name: Option<NodeName>,
    disks: Vec<Uuid>,
    /// Whether it stays shut out.
    denied: bool,
    /// Whether the join service of this machine was told that it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<Told>,
    #[serde(skip)]
    lacking: bool,
}

impl Report for RemoveReport {
    fn exit(&self) -> Exit {
        if self.lacking { Exit::Failed } else { Exit::Done }
    }

    fn text(&self, _: Style) -> String {
        let then = if self.denied {
            "It is denied: `latchkey node allow` takes that back."
        } else {
            "It may join anew with an empty disk, if the rules let it in: to shut it out, use `latchkey node deny`."
        };
        format!(
            "removed {}\nNobody gets the keys of its disks from the join service or from `latchkey recover` any more:\n{}\n{then}\n",
            self.name.as_ref().map_or_else(|| self.ek_sha256.to_string(), NodeName::to_string),
            self.disks.iter().map(|disk| format!("  {disk}")).collect::<Vec<_>>().join("\n"),
        )
    }
}
