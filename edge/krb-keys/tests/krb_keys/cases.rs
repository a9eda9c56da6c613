//! What krb-keys has to do, and how it is when that is done.

use latchkey_kerberos::keytab::Keytab;
use serde_json::{Value, json};

use crate::edge::{Edge, mark};

const PRESET: &str = "chosen by somebody";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    /// A keytab of two principals is made.
    Keytab,
    /// Its keys are made anew on request.
    Rekey,
    /// The same, and old keys are kept.
    RekeyBesideOld,
    /// A Secret is lost whose old keys are kept.
    LostSecret,
    /// Old keys are dropped.
    Trim,
    /// A principal that was disabled is enabled, and its keytab stays.
    Enable,
    /// A password is made.
    Password,
    /// It is made anew on request.
    NewPassword,
    /// The KDC gets a password that somebody else wrote.
    Preset,
    /// A principal is disabled.
    Disable,
    /// A text that no KDC knows is made.
    Local,
    /// A keytab of two principals goes.
    Remove,
}

/// What there was at one time.
#[derive(Debug, PartialEq)]
pub(crate) struct Seen {
    held: Option<Vec<u8>>,
    versions: Vec<String>,
}

impl Case {
    pub(crate) const fn plural(self) -> &'static str {
        if matches!(self, Self::Local) { "localsecrets" } else { "kerberos-keys" }
    }

    /// The principals of a round.
    pub(crate) fn principals(self, name: &str) -> Vec<String> {
        let count = match self {
            Self::Local => 0,
            Self::Keytab | Self::Rekey | Self::Remove => 2,
            _ => 1,
        };
        ["", "-too"][..count].iter().map(|more| format!("nd1/Bolt/{name}{more}")).collect()
    }

    fn spec(self, name: &str) -> Value {
        let secret = format!("{name}/key");
        let principals = self.principals(name);
        let one = |kind: &str| json!({"type": kind, "principal": principals[0], "secret": secret});
        match self {
            Self::Keytab | Self::Rekey | Self::Remove => {
                let mut spec = one("Random");
                spec["additionalPrincipals"] = json!(principals[1..]);
                spec
            }
            Self::RekeyBesideOld | Self::LostSecret | Self::Trim => {
                let mut spec = one("Random");
                spec["keepOldKeys"] = json!(true);
                spec
            }
            Self::Enable => one("Random"),
            Self::Password | Self::NewPassword => one("Password"),
            Self::Preset => one("PresetPassword"),
            Self::Disable => json!({"type": "Disabled", "principal": principals[0]}),
            Self::Local => json!({"secret": name, "key": "key", "format": "Password"}),
        }
    }

    fn make(self, edge: &Edge, name: &str) {
        let kind = if self == Self::Local { "LocalSecret" } else { "KerberosKey" };
        edge.make(kind, name, &self.spec(name));
    }

    /// What is there before, while krb-keys runs.
    pub(crate) fn prepare(self, edge: &Edge, name: &str) {
        match self {
            Self::Keytab | Self::Password | Self::Preset | Self::Disable | Self::Local => return,
            Self::Rekey
            | Self::RekeyBesideOld
            | Self::LostSecret
            | Self::Trim
            | Self::Enable
            | Self::NewPassword
            | Self::Remove => self.make(edge, name),
        }
        edge.reaches(name, "Ready");
        if self == Self::Trim {
            edge.annotate(name, "force-rekey", "");
            latchkey_test_support::until("old keys", || (self.is_met(edge, name) && has_old(edge, name)).then_some(()));
        }
    }

    /// What then happens, while krb-keys does not run.
    pub(crate) fn happen(self, edge: &Edge, name: &str) {
        let principals = self.principals(name);
        match self {
            Self::Keytab | Self::Password | Self::Local => self.make(edge, name),
            Self::Rekey | Self::RekeyBesideOld | Self::NewPassword => edge.annotate(name, "force-rekey", ""),
            Self::LostSecret => drop(edge.admin.delete(&Edge::secret(name), &json!({})).granted()),
            Self::Trim => edge.annotate(name, "rekeyed-at", "1000"),
            Self::Enable => drop(edge.kdc.kadmin_local(&format!("modprinc -allow_tix {}", principals[0]))),
            Self::Preset => {
                let labels = json!({"app.kubernetes.io/managed-by": "krbkeys.factoryplus.app.amrc.co.uk"});
                let secret = json!({"metadata": {"name": name, "labels": labels}, "stringData": {"key": PRESET}});
                edge.admin.post(Edge::secret("").trim_end_matches('/'), &secret).granted();
                self.make(edge, name);
            }
            Self::Disable => {
                edge.kdc.kadmin_local(&format!("addprinc -randkey {}", principals[0]));
                self.make(edge, name);
            }
            Self::Remove => edge.delete(self.plural(), name),
        }
    }

    pub(crate) fn seen(self, edge: &Edge, name: &str) -> Seen {
        let first = self.principals(name).into_iter().next();
        let versions = first.and_then(|first| edge.known(&first)).map(|(_, versions)| versions).unwrap_or_default();
        Seen { held: edge.held(name), versions }
    }

    /// Whether krb-keys says that it has done it: cheap, and asked often.
    pub(crate) fn is_met(self, edge: &Edge, name: &str) -> bool {
        if self == Self::Remove {
            return edge.is_gone(self.plural(), name);
        }
        let has_old = has_old(edge, name);
        let enabled = || edge.known(&self.principals(name)[0]).is_some_and(|(enabled, _)| enabled);
        edge.is_in(self.plural(), name, "Ready")
            && edge.resource(self.plural(), name)["metadata"]["annotations"][mark("force-rekey")].is_null()
            && match self {
                Self::LostSecret => edge.held(name).is_some() && has_old,
                Self::RekeyBesideOld => has_old,
                // It has them before.
                Self::Trim => {
                    edge.resource(self.plural(), name)["metadata"]["annotations"][mark("rekeyed-at")] != "1000"
                }
                Self::Enable => enabled(),
                _ => true,
            }
    }

    /// That all is as it is to be: `before` it happened, `at` the kill, and in the end. `whole` says that it was not killed.
    pub(crate) fn check(self, edge: &Edge, name: &str, before: &Seen, at: &Seen, whole: bool) {
        let (principals, now) = (self.principals(name), self.seen(edge, name));
        for principal in &principals {
            let enabled = edge.known(principal).unwrap().0;
            assert_eq!(enabled, !matches!(self, Self::Disable | Self::Remove), "{principal}");
        }
        match self {
            Self::Disable => assert!(now.held.is_none()),
            Self::Remove => assert!(now.held.is_none(), "the key went"),
            Self::Local => assert_eq!(now.held.as_ref().unwrap().len(), 43),
            Self::Password | Self::NewPassword | Self::Preset => edge.sign_in(name, &principals[0]),
            _ => assert!(principals.iter().all(|principal| edge.serves(name, principal)), "{name}: no key is lost"),
        }
        match self {
            // What is in the Secret once is not made again.
            Self::Password | Self::Local => assert!(at.held.is_none() || at.held == now.held),
            Self::Preset => assert_eq!(now.held.as_deref(), Some(PRESET.as_bytes())),
            Self::Enable => assert_eq!(now, *before, "the key served all the time"),
            Self::Rekey | Self::NewPassword => assert_ne!(now.held, before.held),
            Self::RekeyBesideOld => {
                let (old, new) = (keytab(before), keytab(&now));
                assert!(old.entries().iter().all(|entry| new.entries().contains(entry)), "tickets of before serve");
            }
            Self::Trim => {
                assert!(!has_old(edge, name) && before.versions.len() == 2);
                let newest = keytab(&now).entries().iter().all(|entry| now.versions == [entry.version.to_string()]);
                assert!(newest, "{now:?}");
            }
            Self::Keytab | Self::LostSecret | Self::Disable | Self::Remove => {}
        }
        // Without a kill keys are made once.
        if whole && matches!(self, Self::Rekey | Self::RekeyBesideOld | Self::LostSecret) {
            let kept = if self == Self::Rekey { 0 } else { before.versions.len() };
            assert_eq!(now.versions.len(), kept + 1, "{before:?} {now:?}");
        }
        if matches!(self, Self::RekeyBesideOld | Self::LostSecret) {
            assert!(before.versions.iter().all(|version| now.versions.contains(version)), "{before:?} {now:?}");
            assert!(has_old(edge, name), "they are dropped some day");
        }
    }
}

fn has_old(edge: &Edge, name: &str) -> bool {
    edge.resource("kerberos-keys", name)["metadata"]["labels"][mark("has-old-keys")] == "true"
}

fn keytab(seen: &Seen) -> Keytab {
    Keytab::parse(seen.held.as_ref().unwrap()).unwrap()
}
