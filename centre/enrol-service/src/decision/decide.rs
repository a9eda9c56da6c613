//! The decision.

use super::record::{By, Image, Record, Records};
use super::refusal::{Refusal, Waiting};
use latchkey_attestation::validate::AdmittedImage;
use latchkey_attestation::{Digest, EkDigest};
use latchkey_cluster_store::registration::{Admitted, Invitation, InvitationHash, RegistrationRule, Rules, Wanted};
use latchkey_factory_plus::{ClusterName, Uuid};
use latchkey_keys::Uuid as Disk;
use std::collections::BTreeSet;

/// The time that a rule's quota is counted over, in seconds.
const DAY: u64 = 24 * 60 * 60;

/// How long a machine gets links for the cluster that it registered, in seconds: for what was lost on the way, not for ever, since the
/// cluster may have moved to other machines.
const LINKS: u64 = 7 * DAY;

/// A machine whose evidence holds by what is in force now.
#[derive(Clone, Debug)]
pub struct Candidate<'a> {
    /// Its TPM.
    pub ek: EkDigest,
    /// The quoted value of PCR 15; not zero.
    pub lock: Digest,
    /// The image that it runs.
    pub image: &'a AdmittedImage,
    /// SHA-256 over the policy and the manifests, in hexadecimal.
    pub policy_sha256: &'a str,
    /// Its state disk, by its own word.
    pub disk: Disk,
    /// The invitation that it shows.
    pub invitation: Option<InvitationHash>,
}

/// What the operator said of it.
#[derive(Clone, Debug)]
pub struct Said<'a> {
    /// What holds for all.
    pub rules: &'a Rules,
    /// The invitation that it shows, if there is one.
    pub invitation: Option<&'a Invitation>,
    /// The word on this machine.
    pub admitted: Option<&'a Admitted>,
    /// What the centre said of names.
    pub names: &'a CentresNames,
}

impl Said<'_> {
    /// By our records or by the centre's word.
    fn is_taken(&self, records: &Records, name: &ClusterName) -> bool {
        records.has_name(name) || self.names.taken.contains(&name.folded())
    }
}

/// What the centre said of names that a new cluster may get.
#[derive(Clone, Debug, Default)]
pub struct CentresNames {
    free: Option<ClusterName>,
    taken: BTreeSet<String>,
}

impl CentresNames {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self { free: None, taken: BTreeSet::new() }
    }

    /// A new cluster can have it.
    pub fn free(&mut self, name: ClusterName) {
        self.free = Some(name);
    }

    /// A new cluster cannot have it.
    pub fn taken(&mut self, name: &ClusterName) {
        self.taken.insert(name.folded());
    }

    /// How many are taken.
    pub fn len(&self) -> usize {
        self.taken.len()
    }

    /// Whether none is taken, as far as is known.
    pub fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }
}

/// What becomes of a machine's cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The centre has to be asked whether a new cluster can have this name; then decide again.
    Ask(ClusterName),
    /// It was taken up before: this one.
    Known(Uuid),
    /// It is taken up, once this record is written.
    New(Box<Record>),
    /// It waits for the operator.
    Hold(Waiting),
}

/// Decides. `uuid` is what a new cluster is called at the centre; random. `now` is in seconds since the Unix epoch.
///
/// # Errors
/// [`Refusal`].
pub fn decide(
    records: &Records,
    said: &Said<'_>,
    candidate: &Candidate<'_>,
    uuid: Uuid,
    now: u64,
) -> Result<Decision, Refusal> {
    if let Some(record) = records.of_machine(&candidate.ek, candidate.disk) {
        return match record.lock == candidate.lock {
            false => Err(Refusal::OtherLock),
            true if now.saturating_sub(record.at) > LINKS => Err(Refusal::LongAgo),
            true => Ok(Decision::Known(record.cluster)),
        };
    }
    if records.of_lock(&candidate.lock).is_some() {
        return Err(Refusal::ClusterOfAnother);
    }
    let (wanted, by) = match who_says_so(records, said, candidate, now)? {
        Word::Given(wanted, by) => (wanted, by),
        Word::Missing(waiting) => return Ok(Decision::Hold(waiting)),
    };
    if said.is_taken(records, &wanted.name) {
        return Err(Refusal::NameTaken);
    }
    if said.names.free.as_ref() != Some(&wanted.name) {
        return Ok(Decision::Ask(wanted.name));
    }
    let rules = said.rules;
    Ok(Decision::New(Box::new(Record {
        version: 1,
        cluster: uuid,
        name: wanted.name,
        namespace: wanted.namespace.unwrap_or_else(|| rules.namespace.clone()),
        chart: wanted.chart.unwrap_or(rules.chart),
        bare: rules.bare,
        ek_sha256: candidate.ek,
        disk: candidate.disk,
        lock: candidate.lock,
        image: Image::of(candidate.image),
        policy_sha256: candidate.policy_sha256.to_owned(),
        by,
        at: now,
        configured: false,
        ended: false,
    })))
}

/// What was said of a machine.
enum Word {
    /// That it registers this cluster.
    Given(Wanted, By),
    /// Nothing, so far.
    Missing(Waiting),
}

/// The word that speaks of the machine. An invitation that was shown counts, or
/// its refusal: a machine that was to be another's is not taken up as something else.
fn who_says_so(records: &Records, said: &Said<'_>, candidate: &Candidate<'_>, now: u64) -> Result<Word, Refusal> {
    if let Some(shown) = candidate.invitation {
        return invited(records, said, shown, now);
    }
    if let Some(admitted) = said.admitted.filter(|word| word.ek_sha256 == candidate.ek && word.disk == candidate.disk) {
        let by = By::Operator(admitted.id);
        if !records.used(&by) {
            return Ok(Word::Given(admitted.cluster.clone(), by));
        }
    }
    by_rule(records, said, candidate, now)
}

fn invited(records: &Records, said: &Said<'_>, shown: InvitationHash, now: u64) -> Result<Word, Refusal> {
    let by = By::Invitation(shown);
    // Also of one that was taken back since, so that its owner learns of it.
    if records.used(&by) {
        return Err(Refusal::InvitationUsed);
    }
    let known = said.invitation.filter(|known| known.sha256 == shown).ok_or(Refusal::InvitationUnknown)?;
    if now >= known.expires {
        return Err(Refusal::InvitationExpired);
    }
    Ok(Word::Given(known.cluster.clone(), by))
}

fn by_rule(records: &Records, said: &Said<'_>, candidate: &Candidate<'_>, now: u64) -> Result<Word, Refusal> {
    let mut why = Waiting::NotInvited;
    for rule in said.rules.rules.iter().filter(|rule| rule.fits(&candidate.ek, candidate.image)) {
        if is_spent(records, rule, now) {
            why = Waiting::QuotaReached;
            continue;
        }
        let name = rule.cluster_names.first_free(|name| said.is_taken(records, name)).ok_or(Refusal::NoNameLeft)?;
        return Ok(Word::Given(Wanted::called(name), By::Rule(rule.name.clone())));
    }
    Ok(Word::Missing(why))
}

/// A clock that was set back makes the day longer, never the quota.
fn is_spent(records: &Records, rule: &RegistrationRule, now: u64) -> bool {
    let made = records.by_rule_since(&rule.name, now.saturating_sub(DAY));
    made >= usize::try_from(rule.per_day).unwrap_or(usize::MAX)
}
