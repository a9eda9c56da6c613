//! `latchkey node admit`, `deny`, `allow`, `remove`: the operator's word about one machine.

use latchkey_attestation::{EkDigest, FirmwareStanding, KnownBy};
use latchkey_cluster_store::{Denials, NodeName, RoleRule};
use latchkey_keys::Uuid;
use serde::Serialize;

use crate::arguments::Arguments;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::machines;
use crate::output::{Output, Report, Style, Tone, pairs, printable};

/// Lets a machine in that no rule spoke of, under the role and name that the operator says.
pub(crate) fn admit(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let machines = machines::open(arguments)?;
    let (ek, record) = super::machine(arguments, &*machines)?;
    let role = match arguments.text("role")? {
        None | Some("worker") => RoleRule::Worker,
        Some("control-plane") => RoleRule::ControlPlane,
        Some(other) => {
            return Err(CommandError::usage(format!("--role {other}: expected `worker` or `control-plane`")));
        }
    };
    let name = arguments.value::<NodeName>("name")?;
    let not_denied = machines.not_denied(ek)?;
    let held = machines.pending()?.into_iter().find(|one| one.ek_sha256 == ek);
    machines.admit(&not_denied, role, name.clone())?;
    output.report(&AdmitReport {
        ek_sha256: ek,
        role: role.role().map_or("-", latchkey_cluster_store::Role::name),
        was_waiting: held.is_some(),
        firmware: held.as_ref().map(|one| one.firmware.clone()),
        asked_for_name: held.map(|one| printable(&one.asks_for_name)),
        on_record_as: record.map(|record| record.name),
        name,
    })
}

/// A machine is let in.
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
    let machines = machines::open(arguments)?;
    let (ek, record) = super::machine(arguments, &*machines)?;
    machines.deny(ek, arguments.text("reason")?.unwrap_or_default())?;
    // It is done, whatever else is wrong: a policy that cannot be read says nothing here.
    let known_by = machines.trust().ok().map(|trust| trust.policy.known_by());
    let waits = machines.pending().is_ok_and(|pending| pending.iter().any(|one| one.ek_sha256 == ek));
    let seen = record.is_some() || waits;
    output.report(&DenyReport { ek_sha256: ek, known_by, seen, name: record.map(|record| record.name), denied: true })
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
}

impl Report for DenyReport {
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
            "{denied} {whom}\nIt gets no key from now on. If it is running, it keeps its open disk until it restarts. {keys}\n"
        )
    }
}

/// Takes a denial back.
pub(crate) fn allow(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let machines = machines::open(arguments)?;
    let (ek, _) = super::machine(arguments, &*machines)?;
    if !machines.allow(ek)? {
        let failure = CommandError::new(
            Exit::Usage,
            CommandCode::NotDenied,
            format!("the TPM {ek} is not denied in {}", machines.place()),
        );
        return Err(failure.fix("see `latchkey node list`; a policy may deny it, too"));
    }
    output.report(&AllowReport { ek_sha256: ek, denied: false })
}

/// A denial was taken back.
#[derive(Serialize)]
struct AllowReport {
    ek_sha256: EkDigest,
    denied: bool,
}

impl Report for AllowReport {
    fn text(&self, _: Style) -> String {
        format!("{} is not denied any more; the other rules decide about it\n", self.ek_sha256)
    }
}

/// Forgets a machine.
pub(crate) fn remove(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let machines = machines::open(arguments)?;
    let (ek, record) = super::machine(arguments, &*machines)?;
    if !machines.remove(ek, record.as_ref())? {
        let failure =
            CommandError::new(Exit::Usage, CommandCode::NodeUnknown, format!("nothing is on record of the TPM {ek}"));
        return Err(failure.fix("see `latchkey node list`"));
    }
    // Looked at afterwards: in an API server removing shuts out.
    let denied = machines.denials().as_ref().is_ok_and(|denials: &Denials| denials.has(&ek));
    let disks = record.iter().flat_map(|record| record.disks.iter()).map(|disk| disk.uuid).collect();
    output.report(&RemoveReport { ek_sha256: ek, name: record.map(|record| record.name), disks, denied })
}

/// A machine was forgotten.
#[derive(Serialize)]
struct RemoveReport {
    ek_sha256: EkDigest,
    name: Option<NodeName>,
    disks: Vec<Uuid>,
    /// Whether it stays shut out.
    denied: bool,
}

impl Report for RemoveReport {
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
