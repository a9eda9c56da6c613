//! The decision of the key service: who, what, when → a key or a refusal. No I/O and no clock of its own.

use crate::callers::Caller;
use crate::config::CallerRule;
use latchkey_connection_limits::{Rate, TokenBucket};
use latchkey_keys::{DerivedKey, IdError, KeyClass, KeyError, KeyId, KeyLength, KeyRelease, KeyVersion, MasterSecret};
use latchkey_reason::reason_codes;
use std::collections::BTreeSet;
use std::time::Duration;

/// What callers without a rule share: enough to learn why they are refused, too little to flood the log.
const STRANGERS: Rate = Rate { per_minute: 60, burst: 10 };

/// One call, as the peer wrote it.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Text form of a [`KeyId`].
    pub key_id: &'a str,
    /// Bytes.
    pub length: u32,
    /// Of the master secret; 0 is the current one.
    pub version: u32,
}

/// The answer, and what the audit line may say about the question.
#[derive(Debug)]
pub struct Decision {
    /// The id in its canonical form, if it was looked at and is one. The peer's own text never gets into a log.
    pub key_id: Option<KeyId>,
    /// The key, or why there is none.
    pub outcome: Result<DerivedKey, KeyRefusal>,
}

reason_codes! {
    /// Why the key service gives no key: in its audit line, its metrics, and what the caller is told.
    pub enum KeyRefusalCode {
        /// Too many calls from this caller.
        RateLimited = "rate-limited": "slow down, and try again with growing pauses";
        /// The certificate is good, but no rule speaks of its names.
        UnknownCaller = "unknown-caller":
            "add one of the certificate's subject alternative names to `callers` of the key service";
        /// The certificate is good, but several rules speak of its names.
        AmbiguousCaller = "ambiguous-caller": "leave one of the certificate's names in `callers` of the key service";
        /// What was asked for is no key id.
        BadKeyId = "bad-key-id":
            "ask for `state-disk/<uuid>`, `measurement-secret` or `secrets-at-rest`; a join service of the same release asks for nothing else";
        /// It is no length that a key can have.
        BadLength = "bad-length": "ask for 16 to 64 bytes";
        /// The caller's rule does not have this class of keys.
        ClassDenied = "class-denied": "add the class to the caller's rule in `callers` of the key service, if it should have it";
        /// The master secret has no such version.
        UnknownVersion = "unknown-version": "give the key service the master secret that has this version";
        /// The derivation failed.
        Internal = "internal": "report it, with the key service's log";
    }
}

/// Why no key is given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyRefusal {
    /// Too many calls from this caller. The caller's fault.
    #[error("too many requests from this caller")]
    RateLimited,
    /// The certificate is good, but no rule speaks of its names.
    #[error("no rule names this certificate")]
    UnknownCaller,
    /// The certificate is good, but several rules speak of its names.
    #[error("several rules name this certificate")]
    AmbiguousCaller,
    /// Not a key id.
    #[error("{0}")]
    BadKeyId(IdError),
    /// Not a length a key can have.
    #[error("{}", KeyError::KeyLength { got: *.0 })]
    BadLength(u32),
    /// The caller's rule does not contain this class.
    #[error("this caller may not have `{0}` keys")]
    ClassDenied(KeyClass),
    /// The master secret has no such version.
    #[error("{0}")]
    UnknownVersion(KeyError),
    /// The derivation failed. This service's fault.
    #[error("the derivation failed")]
    Internal,
}

impl KeyRefusal {
    /// The stable code.
    pub const fn code(&self) -> KeyRefusalCode {
        match self {
            Self::RateLimited => KeyRefusalCode::RateLimited,
            Self::UnknownCaller => KeyRefusalCode::UnknownCaller,
            Self::AmbiguousCaller => KeyRefusalCode::AmbiguousCaller,
            Self::BadKeyId(_) => KeyRefusalCode::BadKeyId,
            Self::BadLength(_) => KeyRefusalCode::BadLength,
            Self::ClassDenied(_) => KeyRefusalCode::ClassDenied,
            Self::UnknownVersion(_) => KeyRefusalCode::UnknownVersion,
            Self::Internal => KeyRefusalCode::Internal,
        }
    }
}

/// The witness of this trust boundary: the rule of a caller that showed its certificate has the class of this key. Which
/// machine the key is for the caller knows and answers for; here are no records. Only [`Gate::decide`] makes it.
#[derive(Debug)]
struct Permitted {
    key_id: KeyId,
    version: Option<KeyVersion>,
}

impl KeyRelease for Permitted {
    fn key_id(&self) -> KeyId {
        self.key_id
    }

    fn key_version(&self) -> Option<KeyVersion> {
        self.version
    }
}

/// The master secret behind the rules. The only way to a key is [`handle`](Self::handle).
#[derive(Debug)]
pub struct Gate {
    master: MasterSecret,
    callers: Vec<(BTreeSet<KeyClass>, TokenBucket)>,
    strangers: TokenBucket,
}

impl Gate {
    /// Rules in the order to which [`Caller::Known`] refers.
    pub fn new(master: MasterSecret, rules: &[CallerRule]) -> Self {
        let bucket = |rule: &CallerRule| TokenBucket::new(rule.rate());
        Self {
            master,
            callers: rules.iter().map(|rule| (rule.key_classes.clone(), bucket(rule))).collect(),
            strangers: TokenBucket::new(STRANGERS),
        }
    }

    /// Decides one call. `now` is the time since any fixed moment.
    pub fn handle(&mut self, caller: Caller, asked: Asked<'_>, now: Duration) -> Decision {
        let mut key_id = None;
        let outcome = self.decide(caller, asked, now, &mut key_id);
        Decision { key_id, outcome }
    }

    /// Rate, caller, syntax, class, derivation: the cheapest first, and nothing of the request before the caller is known.
    fn decide(
        &mut self,
        caller: Caller,
        asked: Asked<'_>,
        now: Duration,
        seen: &mut Option<KeyId>,
    ) -> Result<DerivedKey, KeyRefusal> {
        let classes = self.admit(caller, now)?;
        let key_id: KeyId = asked.key_id.parse().map_err(KeyRefusal::BadKeyId)?;
        *seen = Some(key_id);
        let length = KeyLength::new(asked.length).map_err(|_| KeyRefusal::BadLength(asked.length))?;
        if !classes.contains(&key_id.class()) {
            return Err(KeyRefusal::ClassDenied(key_id.class()));
        }
        let permitted = Permitted { key_id, version: KeyVersion::new(asked.version) };
        self.master.derive(&permitted, length).map_err(|error| match error {
            KeyError::UnknownVersion { .. } => KeyRefusal::UnknownVersion(error),
            _ => KeyRefusal::Internal,
        })
    }

    fn admit(&mut self, caller: Caller, now: Duration) -> Result<&BTreeSet<KeyClass>, KeyRefusal> {
        let mut known = match caller {
            Caller::Known(index) => self.callers.get_mut(index).ok_or(KeyRefusal::UnknownCaller),
            Caller::Stranger => Err(KeyRefusal::UnknownCaller),
            Caller::Ambiguous => Err(KeyRefusal::AmbiguousCaller),
        };
        let bucket = known.as_mut().map_or(&mut self.strangers, |(_, bucket)| bucket);
        if bucket.take(now).is_err() {
            return Err(KeyRefusal::RateLimited);
        }
        known.map(|(classes, _)| &*classes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DISK: &str = "state-disk/f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
    const JOIN: Caller = Caller::Known(0);
    const DISKS_ONLY: Caller = Caller::Known(1);
    const POWERLESS: Caller = Caller::Known(2);

    fn gate() -> Gate {
        let rules: Vec<CallerRule> = serde_json::from_str(
            r#"[{ "name": "join.example", "key_classes": ["state-disk", "measurement-secret"] },
                { "name": "disks.example", "key_classes": ["state-disk"], "requests_per_minute": 60, "burst": 2 },
                { "name": "powerless.example", "key_classes": [] }]"#,
        )
        .unwrap();
        Gate::new(MasterSecret::random().unwrap(), &rules)
    }

    fn ask(gate: &mut Gate, caller: Caller, key_id: &str, length: u32) -> Result<DerivedKey, KeyRefusal> {
        gate.handle(caller, Asked { key_id, length, version: 0 }, Duration::ZERO).outcome
    }

    #[test]
    fn a_permitted_class_gives_the_derived_key() {
        let mut gate = gate();
        let expected = gate
            .master
            .derive(&Permitted { key_id: DISK.parse().unwrap(), version: None }, KeyLength::DEFAULT)
            .unwrap();
        assert_eq!(ask(&mut gate, JOIN, DISK, 32), Ok(expected));
    }

    #[test]
    fn a_class_outside_the_rule_is_denied() {
        let mut gate = gate();
        let refusal = ask(&mut gate, DISKS_ONLY, "measurement-secret", 32).unwrap_err();
        assert_eq!(refusal, KeyRefusal::ClassDenied(KeyClass::MeasurementSecret));
        assert!(ask(&mut gate, DISKS_ONLY, DISK, 32).is_ok());
        assert_eq!(ask(&mut gate, POWERLESS, DISK, 32), Err(KeyRefusal::ClassDenied(KeyClass::StateDisk)));
    }

    #[test]
    fn who_has_no_rule_gets_nothing_whatever_the_question() {
        for question in [DISK, "measurement-secret", "", "nonsense"] {
            let mut gate = gate();
            assert_eq!(ask(&mut gate, Caller::Stranger, question, 32), Err(KeyRefusal::UnknownCaller));
            assert_eq!(ask(&mut gate, Caller::Ambiguous, question, 32), Err(KeyRefusal::AmbiguousCaller));
            assert_eq!(ask(&mut gate, Caller::Known(99), question, 32), Err(KeyRefusal::UnknownCaller));
        }
    }

    #[test]
    fn an_empty_or_unknown_id_and_an_absurd_length_are_refused() {
        let mut gate = gate();
        assert_eq!(ask(&mut gate, JOIN, "", 32), Err(KeyRefusal::BadKeyId(IdError::Empty)));
        assert_eq!(ask(&mut gate, JOIN, "ca_emergency_ssh", 32), Err(KeyRefusal::BadKeyId(IdError::UnknownClass)));
        for length in [0, 15, 65, u32::MAX] {
            assert_eq!(ask(&mut gate, JOIN, DISK, length), Err(KeyRefusal::BadLength(length)));
        }
    }

    #[test]
    fn a_version_that_is_gone_is_refused() {
        let asked = Asked { key_id: DISK, length: 32, version: 7 };
        let refusal = gate().handle(JOIN, asked, Duration::ZERO).outcome.unwrap_err();
        assert_eq!(refusal.code(), KeyRefusalCode::UnknownVersion);
    }

    #[test]
    fn a_caller_that_floods_is_slowed_and_others_are_not() {
        let mut gate = gate();
        assert!(ask(&mut gate, DISKS_ONLY, DISK, 32).is_ok());
        assert!(ask(&mut gate, DISKS_ONLY, "", 32).is_err(), "a bad question costs as much as a good one");
        assert_eq!(ask(&mut gate, DISKS_ONLY, DISK, 32), Err(KeyRefusal::RateLimited));
        assert!(ask(&mut gate, JOIN, DISK, 32).is_ok());
        let asked = Asked { key_id: DISK, length: 32, version: 0 };
        assert!(gate.handle(DISKS_ONLY, asked, Duration::from_secs(1)).outcome.is_ok());
    }

    #[test]
    fn strangers_share_one_bucket() {
        let mut gate = gate();
        for _ in 0..STRANGERS.burst {
            assert_eq!(ask(&mut gate, Caller::Stranger, DISK, 32), Err(KeyRefusal::UnknownCaller));
        }
        assert_eq!(ask(&mut gate, Caller::Ambiguous, DISK, 32), Err(KeyRefusal::RateLimited));
    }

    #[test]
    fn what_the_peer_wrote_gets_into_the_audit_line_only_in_canonical_form() {
        let mut gate = gate();
        let decision =
            |gate: &mut Gate, key_id| gate.handle(JOIN, Asked { key_id, length: 1, version: 0 }, Duration::ZERO);
        assert_eq!(decision(&mut gate, "evil\nline").key_id, None);
        let upper = "state-disk/F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6";
        assert_eq!(decision(&mut gate, upper).key_id.unwrap().to_string(), DISK);
    }

    proptest! {
        #[test]
        fn no_input_gets_a_key_of_a_class_outside_the_rule(
            caller in prop_oneof![Just(JOIN), Just(DISKS_ONLY), Just(POWERLESS), Just(Caller::Stranger)],
            key_id in prop_oneof![Just(DISK.to_owned()), Just("measurement-secret".to_owned()), "\\PC{0,70}"],
            length in prop_oneof![14..70_u32, any::<u32>()],
            version in 0..3_u32,
        ) {
            let mut gate = gate();
            let decision = gate.handle(caller, Asked { key_id: &key_id, length, version }, Duration::ZERO);
            if let Ok(key) = decision.outcome {
                prop_assert!((16..=64).contains(&length) && key.key.len() == length as usize && version < 2);
                let class = decision.key_id.unwrap().class();
                prop_assert!(caller == JOIN || caller == DISKS_ONLY && class == KeyClass::StateDisk);
            }
        }
    }
}
