//! `latchkey cluster invite`, `uninvite`, `held` and `admit`: what the operator says of machines that register clusters by themselves,
//! in the enrol service's directory.

use std::time::Duration;

use latchkey_attestation::EkDigest;
use latchkey_cluster_store::StoreError;
use latchkey_cluster_store::registration::{
    Admitted, Held, Invitation, InvitationFile, InvitationHash, InvitationToken, RULES, RegistrationStore, Wanted,
};
use latchkey_factory_plus::{ClusterName, Uuid};
use serde::Serialize;

use crate::arguments::Arguments;
use crate::clock::now;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files::{self, Readers};
use crate::output::{Output, Report, Style, Tone, pairs, printable};
use crate::owner::as_owner_of;
use crate::store_error::unusable;
use crate::which_machine;

/// How long an invitation is good for where nobody says.
const LIFETIME: Duration = Duration::from_hours(24);
/// The shortest and the longest.
const LIFETIMES: std::ops::RangeInclusive<Duration> = Duration::from_mins(1)..=Duration::from_hours(24 * 90);

fn directory(arguments: &Arguments) -> Result<RegistrationStore, CommandError> {
    let path = arguments.required_path("directory")?;
    // Nobody would hear of what is said elsewhere. The service starts without its rules as little.
    if !path.join(RULES).exists() {
        let what = format!("{} is no enrol service's directory: it has no {RULES}", path.display());
        let failure = CommandError::new(Exit::Missing, CommandCode::DirectoryUnusable, what);
        return Err(failure.fix("name the directory that `directory` of the enrol service's configuration names"));
    }
    as_owner_of(path, || RegistrationStore::open(path).map_err(unusable))
}

/// Does what concerns its files.
fn within<T: Send>(
    directory: &RegistrationStore,
    work: impl FnOnce() -> Result<T, StoreError> + Send,
) -> Result<T, CommandError> {
    as_owner_of(directory.documents().path(), || work().map_err(unusable))
}

fn wanted(arguments: &Arguments, name: &str) -> Result<Wanted, CommandError> {
    let name: ClusterName = name.parse().map_err(|error| CommandError::usage(format!("{name}: {error}")))?;
    let namespace = arguments.text("namespace")?.map(str::to_owned);
    Ok(Wanted { name, namespace, chart: arguments.value::<Uuid>("chart")? })
}

/// Makes an invitation: its hash for the service, its token for the operator.
pub(crate) fn invite(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let (directory, to) = (directory(arguments)?, arguments.required_path("to")?);
    let cluster = wanted(arguments, arguments.operand_text(0)?)?;
    let lifetime = arguments.duration("lifetime", LIFETIME)?;
    if !LIFETIMES.contains(&lifetime) {
        return Err(CommandError::usage("--lifetime is from 1m to 2160h"));
    }
    let token = InvitationToken::random();
    let token = token.ok_or_else(|| CommandError::usage("the kernel gives no random numbers"))?;
    let made = now();
    let invitation = Invitation::new(token.hash(), cluster, made, made + lifetime.as_secs());
    // Before the service knows it: a token that nobody has would wait for its end.
    files::write_new(to, InvitationFile::new(&token, &invitation).to_json().as_bytes(), Readers::OwnerOnly)?;
    within(&directory, || directory.invite(&invitation)).inspect_err(|_| drop(std::fs::remove_file(to)))?;
    output.report(&InviteReport {
        cluster: invitation.cluster.name,
        invitation: invitation.sha256,
        expires: invitation.expires,
        file: to.display().to_string(),
    })
}

/// A cluster may register.
#[derive(Serialize)]
struct InviteReport {
    cluster: ClusterName,
    invitation: InvitationHash,
    expires: u64,
    file: String,
}

impl Report for InviteReport {
    fn text(&self, _: Style) -> String {
        let lines = pairs(&[("invited", self.cluster.to_string()), ("invitation", self.invitation.to_string())]);
        let file = &self.file;
        format!(
            "{lines}\n{file} has the token, which registers one cluster: give it to one machine, and to nobody else.\n"
        )
    }
}

/// Takes an invitation back.
pub(crate) fn uninvite(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let directory = directory(arguments)?;
    let meant = arguments.operand_text(0)?;
    let invitations = within(&directory, || directory.invitations())?;
    let of_name = |one: &&Invitation| one.cluster.name.as_str() == meant || one.sha256.to_string() == meant;
    let mut revoked = Vec::new();
    for one in invitations.iter().filter(of_name) {
        if within(&directory, || directory.revoke(&one.sha256))? {
            revoked.push(one.sha256);
        }
    }
    output.report(&UninviteReport { revoked })
}

/// Invitations that are over.
#[derive(Serialize)]
struct UninviteReport {
    revoked: Vec<InvitationHash>,
}

impl Report for UninviteReport {
    fn text(&self, _: Style) -> String {
        match self.revoked.len() {
            0 => "There was no such invitation.\n".to_owned(),
            1 => "One invitation is taken back. A cluster that registered with it stays.\n".to_owned(),
            number => format!("{number} invitations are taken back. Clusters that registered with them stay.\n"),
        }
    }
}

/// Who waits.
pub(crate) fn held(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let directory = directory(arguments)?;
    let held = within(&directory, || directory.held())?;
    output.report(&HeldReport { held })
}

/// Machines that wait for the operator.
#[derive(Serialize)]
struct HeldReport {
    held: Vec<Held>,
}

impl Report for HeldReport {
    fn text(&self, _: Style) -> String {
        if self.held.is_empty() {
            return "No machine waits.\n".to_owned();
        }
        let mut text = String::new();
        for one in &self.held {
            text += &pairs(&[
                ("machine", one.reference()),
                ("EK", format!("{}\n{}", one.ek_sha256, one.ek_sha256.words())),
                ("image", printable(&one.image)),
                ("calls itself", printable(&one.node_name)),
                ("Kubernetes", printable(&one.kubernetes_version)),
                ("waits because", printable(&one.why)),
            ]);
            text.push('\n');
        }
        text
    }
}

/// Takes a machine up that waits, as the cluster that the operator says.
pub(crate) fn admit(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let directory = directory(arguments)?;
    let reference = arguments.operand_text(0)?;
    let cluster = wanted(arguments, arguments.required_text("name")?)?;
    let waiting = within(&directory, || directory.held())?;
    let held = one_of(&waiting, reference)?;
    if within(&directory, || directory.documents().denials())?.has(&held.ek_sha256) {
        let failure = CommandError::usage(format!("the TPM {} is shut out", held.ek_sha256));
        return Err(failure.fix("take its file out of `denied/` of the directory first"));
    }
    let admitted = Admitted::new(held.ek_sha256, held.disk, cluster, now());
    within(&directory, || directory.admit(&admitted))?;
    output.report(&AdmitReport { ek_sha256: held.ek_sha256, cluster: admitted.cluster.name })
}

fn one_of<'a>(waiting: &'a [Held], reference: &str) -> Result<&'a Held, CommandError> {
    let known: Vec<_> = waiting.iter().map(|held| (held.ek_sha256, None)).collect();
    let meant = which_machine::find(reference, &known)?;
    waiting.iter().find(|held| meant == Some(held.ek_sha256)).ok_or_else(|| {
        CommandError::usage(format!("no machine waits whose EK begins with {reference}")).fix(
            "see `latchkey cluster held`; eight digits or three words at least name one, and a machine waits once it has asked",
        )
    })
}

/// A machine registers a cluster when it asks again.
#[derive(Serialize)]
struct AdmitReport {
    ek_sha256: EkDigest,
    cluster: ClusterName,
}

impl Report for AdmitReport {
    fn text(&self, style: Style) -> String {
        pairs(&[("admitted", style.paint(Tone::Good, &self.ek_sha256.to_string())), ("as", self.cluster.to_string())])
    }
}
