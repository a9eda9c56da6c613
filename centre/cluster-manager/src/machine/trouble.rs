//! What failed, and how to mend it, as the setup status shows it.

use serde::{Deserialize, Serialize};

use super::{Answer, Effect, Refusal, Service};
use crate::manifests::ManifestError;

/// The most characters of what a service said that are kept.
const MAX_DETAIL: usize = 400;

/// A failure that people see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trouble {
    /// What failed, and why.
    pub message: String,
    /// How to mend it.
    pub fix: String,
    /// When: milliseconds since 1970.
    pub at: u64,
    /// Whether it is tried again without anybody's doing.
    pub retried: bool,
}

impl Trouble {
    /// A configuration that is not carried out.
    pub(super) fn refused(refusal: &Refusal, now: u64) -> Self {
        Self { message: refusal.to_string(), fix: refusal.fix(), at: now, retried: false }
    }

    /// Templates that give no files.
    pub(super) fn manifests(error: &ManifestError, now: u64) -> Self {
        Self {
            message: format!("could not make the files of the repository: {}", cleaned(&error.to_string())),
            fix: "mend the entry that is named, or choose another chart or other values".into(),
            at: now,
            retried: true,
        }
    }

    /// An effect that was not done.
    pub(super) fn of(effect: &Effect, answer: &Answer, now: u64) -> Self {
        let service = effect.service();
        let (why, fix) = match answer {
            Answer::Refused { status, detail } => {
                (format!("{} answered {status}: {}", service.title(), cleaned(detail)), fix(effect, *status))
            }
            Answer::Unreachable(detail) => (
                format!("{} did not answer: {}", service.title(), cleaned(detail)),
                format!("see that {} runs and can be reached from the cluster manager", service.title()),
            ),
            Answer::Done | Answer::Templates(_) => (
                format!("{} answered something else than was asked", service.title()),
                "this is a defect of the cluster manager: report it".into(),
            ),
        };
        Self { message: format!("could not {}: {why}", effect.purpose()), fix, at: now, retried: true }
    }
}

fn fix(effect: &Effect, status: u16) -> String {
    let service = effect.service().title();
    match (status, effect) {
        (401, _) => format!("see that the cluster manager's own principal and keytab are what {service} knows"),
        (403, _) => {
            "the account of the cluster manager lacks a right for this: apply the centre's set-up data again".into()
        }
        (404, Effect::ReadTemplates { .. }) => {
            "see that the configuration's chart is an entry of \"Helm chart template\", and there is a Flux template"
                .into()
        }
        (404 | 410, _) => {
            "an application, a class or an object is missing: apply the centre's set-up data again".into()
        }
        (409, Effect::PutIdentity { upn, .. }) => {
            format!(
                "another account has the principal {upn}: take its identity away, or delete this cluster and \
                 choose another name"
            )
        }
        (409, Effect::CreateObject { uuid, .. }) => format!("{uuid} is an object of another class: report this"),
        (422, _) => "the entry breaks its application's schema: see which schema is registered for it".into(),
        _ if effect.service() == Service::Kerberos => "see the logs of krb5kdc and kadmind".into(),
        _ => format!("see the log of {service}"),
    }
}

/// What somebody else said, in one line and not too long.
fn cleaned(detail: &str) -> String {
    latchkey_reason::printable(detail).take(MAX_DETAIL).collect()
}
