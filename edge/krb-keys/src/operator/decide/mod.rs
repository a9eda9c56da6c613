//! What is done about one resource, decided without asking anybody.
//!
//! What goes to the KDC as a password is in the Secret first. A keytab's keys are made by the KDC: between that and the Secret lies one
//! call, and after a crash there the keys are made again, since what the Secret has does not serve.

use latchkey_factory_plus::Upn;
use latchkey_kerberos::Shown;

use super::resource::{FINALIZER, FORCE_REKEY, Kind, REKEYED_AT, Resource, SUSPEND, Wanted};

/// For how long old keys are kept, in seconds.
pub(crate) const KEEP_OLD: u64 = 86_400;

/// What is in the Secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    /// The resource names no Secret.
    Nowhere,
    /// The Secret is somebody else's.
    Foreign,
    /// There is no such Secret, or it lacks the key.
    Nothing,
    /// The key is there.
    Something {
        /// Whether the KDC takes it, of all principals; that of a disabled one is not known.
        serves: Option<bool>,
    },
}

/// What was found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) held: Held,
    /// What the KDC shows, in the order of the principals.
    pub(crate) shown: Vec<Option<Shown>>,
    /// Whose principals or place another resource has, which came first.
    pub(crate) taken_by: Option<String>,
    /// Whether a resource that stays has this principal, in the order of the principals.
    pub(crate) wanted_by_others: Vec<bool>,
    /// Whether one has this place.
    pub(crate) place_wanted_by_others: bool,
    /// Whether one of the principals is this operator's own.
    pub(crate) own: bool,
    /// Seconds since 1970.
    pub(crate) now: u64,
}

/// Something that is done. Each finds its way if it was done before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Puts the finalizer on the resource.
    Hold,
    /// Takes it off: the resource goes.
    Release,
    /// Writes a new random password into the Secret.
    WritePassword,
    /// Makes a principal with the password in the Secret.
    CreateWithPassword(Upn),
    /// Gives the password in the Secret to the KDC.
    SetPassword(Upn),
    /// Makes a principal with a key that nobody knows.
    CreateRandom(Upn),
    /// Has the KDC make keys for all principals, and writes the keytab.
    Rekey {
        /// Whether the KDC keeps older ones for tickets that were issued, and the keytab, too.
        keep_old: bool,
    },
    /// Lets the KDC give tickets.
    Enable(Upn),
    /// Ends that.
    Disable(Upn),
    /// Drops all keys of the principals but the newest, at the KDC and in the keytab.
    Trim,
    /// Takes the key out of the Secret; the Secret goes with its last one.
    RemoveKey,
    /// Notes that old keys are kept since now.
    NoteOldKeys,
    /// Takes that note away.
    ForgetOldKeys,
    /// Takes the wish for a new key away: it was fulfilled.
    ForgetForce,
}

/// What a resource comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    /// These, in order; the first that fails ends it.
    Do(Vec<Effect>),
    /// Nothing, until somebody changes something.
    Refuse(String),
    /// Nothing: it is suspended, or gone.
    Leave,
}

/// Decides. With an empty list of effects all is as it is to be.
pub(crate) fn decide(resource: &Resource, facts: &Facts) -> Decision {
    let held = resource.finalizers.iter().any(|finalizer| finalizer == FINALIZER);
    if resource.annotation(SUSPEND).is_some() && !resource.deleting {
        return Decision::Leave;
    }
    let wanted = match &resource.wanted {
        Ok(wanted) => wanted,
        // Nothing was made for it, or by a specification that nobody knows any more.
        Err(_) if resource.deleting => return Decision::Do(if held { vec![Effect::Release] } else { vec![] }),
        Err(refused) => return Decision::Refuse(refused.to_string()),
    };
    if resource.deleting {
        return Decision::Do(if held { removal(wanted, facts) } else { vec![] });
    }
    if facts.own {
        return own(resource, facts, held);
    }
    if let Some(other) = &facts.taken_by {
        return Decision::Refuse(format!("{other} was first with the same principal or place in a Secret"));
    }
    if let (Held::Foreign, Some(place)) = (facts.held, &wanted.place) {
        return Decision::Refuse(format!("the Secret {} is not ours; move it away, or name another one", place.secret));
    }
    let force = resource.annotation(FORCE_REKEY).is_some();
    let mut effects = if held { vec![] } else { vec![Effect::Hold] };
    match wanted.kind {
        Kind::Random { keep_old } => effects.extend(random(wanted, facts, force, keep_old)),
        Kind::Password => effects.extend(password(wanted, facts, force)),
        Kind::PresetPassword if facts.held == Held::Nothing => {
            let place =
                wanted.place.as_ref().map(|place| format!("{}/{}", place.secret, place.key)).unwrap_or_default();
            return Decision::Refuse(format!(
                "there is no password in {place} yet; write it there, into a Secret with our label"
            ));
        }
        Kind::PresetPassword => effects.extend(password(wanted, facts, false)),
        Kind::Disabled => effects.extend(disabled(wanted, facts)),
        Kind::Local if facts.held == Held::Nothing || force => effects.push(Effect::WritePassword),
        Kind::Local => {}
    }
    if force && wanted.kind != Kind::Disabled {
        effects.push(Effect::ForgetForce);
    }
    if trim_is_due(resource, facts) && !effects.contains(&Effect::NoteOldKeys) {
        effects.extend([Effect::Trim, Effect::ForgetOldKeys]);
    }
    Decision::Do(effects)
}

/// This operator's own key: whoever changes it by itself may lock itself out half-way. A bootstrap link makes it anew.
fn own(resource: &Resource, facts: &Facts, held: bool) -> Decision {
    match facts.held {
        Held::Something { serves: Some(true) } if resource.annotation(FORCE_REKEY).is_none() => {
            Decision::Do(if held { vec![] } else { vec![Effect::Hold] })
        }
        _ => Decision::Refuse(
            "this is the operator's own key, which a bootstrap link makes: make a new link, and run its command".into(),
        ),
    }
}

/// Whether old keys have been kept for long enough.
fn trim_is_due(resource: &Resource, facts: &Facts) -> bool {
    let since = resource.annotation(REKEYED_AT).and_then(|text| text.parse::<u64>().ok());
    resource.has_old_keys && since.is_none_or(|since| facts.now.saturating_sub(since) >= KEEP_OLD)
}

/// When a resource is to be looked at again because of time alone, in seconds since 1970.
pub(crate) fn trim_at(resource: &Resource) -> Option<u64> {
    let since = resource.annotation(REKEYED_AT)?.parse::<u64>().ok()?;
    resource.has_old_keys.then(|| since.saturating_add(KEEP_OLD))
}

fn each<'a>(wanted: &'a Wanted, facts: &'a Facts) -> impl Iterator<Item = (&'a Upn, Option<&'a Shown>)> {
    wanted.principals.iter().zip(facts.shown.iter().map(Option::as_ref))
}

fn enabled(wanted: &Wanted, facts: &Facts) -> Vec<Effect> {
    let disabled = each(wanted, facts).filter(|(_, shown)| shown.is_some_and(|shown| !shown.enabled));
    disabled.map(|(upn, _)| Effect::Enable(upn.clone())).collect()
}

fn random(wanted: &Wanted, facts: &Facts, force: bool, keep_old: bool) -> Vec<Effect> {
    let missing = each(wanted, facts).filter(|(_, shown)| shown.is_none()).map(|(upn, _)| upn);
    let mut effects: Vec<Effect> = missing.map(|upn| Effect::CreateRandom(upn.clone())).collect();
    let enabling = enabled(wanted, facts);
    let serves = match facts.held {
        // Found out once it is enabled.
        Held::Something { serves: None } => !enabling.is_empty(),
        held => held == Held::Something { serves: Some(true) },
    };
    effects.extend(enabling);
    if force || !serves {
        let keep_old = keep_old && facts.shown.iter().any(Option::is_some);
        // Noted first: whoever is killed between the two knows that there is something to be dropped.
        if keep_old {
            effects.push(Effect::NoteOldKeys);
        }
        effects.push(Effect::Rekey { keep_old });
    }
    effects
}

fn password(wanted: &Wanted, facts: &Facts, force: bool) -> Vec<Effect> {
    let mut effects = vec![];
    let new = force || facts.held == Held::Nothing;
    if new {
        effects.push(Effect::WritePassword);
    }
    for (upn, shown) in each(wanted, facts) {
        match shown {
            None => effects.push(Effect::CreateWithPassword(upn.clone())),
            Some(_) if new || facts.held == (Held::Something { serves: Some(false) }) => {
                effects.push(Effect::SetPassword(upn.clone()));
            }
            Some(_) => {}
        }
    }
    effects.extend(enabled(wanted, facts));
    effects
}

fn disabled(wanted: &Wanted, facts: &Facts) -> Vec<Effect> {
    let enabled = each(wanted, facts).filter(|(_, shown)| shown.is_some_and(|shown| shown.enabled));
    enabled.map(|(upn, _)| Effect::Disable(upn.clone())).collect()
}

/// The key goes, then nobody is let in, then the resource may go. What another resource has stays as it is.
fn removal(wanted: &Wanted, facts: &Facts) -> Vec<Effect> {
    let mut effects = vec![];
    if facts.own {
        // Its cluster's end at the centre is its own.
        return vec![Effect::Release];
    }
    if matches!(facts.held, Held::Something { .. }) && !facts.place_wanted_by_others {
        effects.push(Effect::RemoveKey);
    }
    let others = facts.wanted_by_others.iter().chain(std::iter::repeat(&false));
    let ours = each(wanted, facts).zip(others).filter(|(_, others)| !**others);
    let enabled = ours.filter(|((_, shown), _)| shown.is_some_and(|shown| shown.enabled));
    effects.extend(enabled.map(|((upn, _), _)| Effect::Disable(upn.clone())));
    effects.push(Effect::Release);
    effects
}

impl Facts {
    /// Of a resource whose specification cannot be read: nobody is asked.
    pub(crate) fn none(now: u64) -> Self {
        let (shown, wanted_by_others) = (vec![], vec![]);
        let (taken_by, place_wanted_by_others, own) = (None, false, false);
        Self { held: Held::Nowhere, shown, taken_by, wanted_by_others, place_wanted_by_others, own, now }
    }
}

impl Effect {
    /// A word for the log.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Release => "release",
            Self::WritePassword => "write a password",
            Self::CreateWithPassword(_) => "create with the password",
            Self::SetPassword(_) => "set the password",
            Self::CreateRandom(_) => "create",
            Self::Rekey { .. } => "make keys",
            Self::Enable(_) => "enable",
            Self::Disable(_) => "disable",
            Self::Trim => "drop old keys",
            Self::RemoveKey => "remove the key",
            Self::NoteOldKeys => "note old keys",
            Self::ForgetOldKeys => "forget old keys",
            Self::ForgetForce => "take the wish for a new key away",
        }
    }

    /// What the resource is after it.
    pub(crate) fn note(&self, resource: &mut Resource, now: u64) {
        match self {
            Self::Hold => resource.finalizers.push(FINALIZER.to_owned()),
            Self::Release => resource.finalizers.retain(|finalizer| finalizer != FINALIZER),
            Self::NoteOldKeys => {
                resource.annotations.insert(REKEYED_AT.to_owned(), now.to_string());
                resource.has_old_keys = true;
            }
            Self::ForgetOldKeys => {
                resource.annotations.remove(REKEYED_AT);
                resource.has_old_keys = false;
            }
            Self::ForgetForce => drop(resource.annotations.remove(FORCE_REKEY)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod killed;
#[cfg(test)]
mod tests;
