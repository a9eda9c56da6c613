//! What a key is for.

use crate::{IdError, Uuid};
use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Serialize};

/// Names one key. Closed: a new use of keys is a new variant with a class of its own, never a free string, so no
/// caller can reach another class's keys by choosing a clever id.
///
/// The text form is `class` or `class/parameter`: `state-disk/<uuid>`, `measurement-secret`, `secrets-at-rest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyId {
    /// Opens the state disk whose LUKS2 header has this UUID.
    StateDisk(Uuid),
    /// The cluster's measurement secret, from which, with the salt, the [`ClusterId`](crate::ClusterId) comes.
    MeasurementSecret,
    /// What the cluster's API servers encrypt Secrets with before etcd stores them.
    SecretsAtRest,
}

/// A family of keys; what access rules speak about. Spelled as in the text form of [`KeyId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyClass {
    /// See [`KeyId::StateDisk`].
    StateDisk,
    /// See [`KeyId::MeasurementSecret`].
    MeasurementSecret,
    /// See [`KeyId::SecretsAtRest`].
    SecretsAtRest,
}

impl KeyClass {
    /// All classes, for messages and documentation.
    pub const ALL: [Self; 3] = [Self::StateDisk, Self::MeasurementSecret, Self::SecretsAtRest];

    /// The stable name. Part of every derivation label: it must never change.
    pub const fn name(self) -> &'static str {
        match self {
            Self::StateDisk => "state-disk",
            Self::MeasurementSecret => "measurement-secret",
            Self::SecretsAtRest => "secrets-at-rest",
        }
    }
}

impl fmt::Display for KeyClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl KeyId {
    /// Longest text form that is looked at: no valid id is longer.
    pub const MAX_TEXT_LENGTH: usize = 64;

    /// The class, which decides who may ask.
    pub const fn class(&self) -> KeyClass {
        match self {
            Self::StateDisk(_) => KeyClass::StateDisk,
            Self::MeasurementSecret => KeyClass::MeasurementSecret,
            Self::SecretsAtRest => KeyClass::SecretsAtRest,
        }
    }

    /// The bytes that tell this key from the others of its class; empty where the class has only one.
    pub(crate) fn parameter(&self) -> &[u8] {
        match self {
            Self::StateDisk(uuid) => uuid.as_bytes(),
            Self::MeasurementSecret | Self::SecretsAtRest => &[],
        }
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StateDisk(uuid) => write!(f, "{}/{uuid}", self.class()),
            Self::MeasurementSecret | Self::SecretsAtRest => write!(f, "{}", self.class()),
        }
    }
}

impl FromStr for KeyId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        if text.is_empty() {
            return Err(IdError::Empty);
        }
        if text.len() > Self::MAX_TEXT_LENGTH {
            return Err(IdError::TooLong);
        }
        let (class, parameter) = match text.split_once('/') {
            Some((class, parameter)) => (class, Some(parameter)),
            None => (text, None),
        };
        let class = KeyClass::ALL.into_iter().find(|known| known.name() == class).ok_or(IdError::UnknownClass)?;
        match (class, parameter) {
            (KeyClass::StateDisk, Some(uuid)) => uuid.parse().map(Self::StateDisk),
            (KeyClass::StateDisk, None) => Err(IdError::ParameterMissing(class)),
            (KeyClass::MeasurementSecret, None) => Ok(Self::MeasurementSecret),
            (KeyClass::SecretsAtRest, None) => Ok(Self::SecretsAtRest),
            (KeyClass::MeasurementSecret | KeyClass::SecretsAtRest, Some(_)) => {
                Err(IdError::ParameterUnexpected(class))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_ids_round_trip() {
        for text in ["state-disk/f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "measurement-secret", "secrets-at-rest"] {
            assert_eq!(text.parse::<KeyId>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn an_id_outside_the_closed_list_is_refused_with_its_reason() {
        let table = [
            ("", IdError::Empty),
            ("state-disk", IdError::ParameterMissing(KeyClass::StateDisk)),
            ("state-disk/", IdError::UuidSyntax),
            ("state-disk/../measurement-secret", IdError::UuidSyntax),
            ("state-disk/00000000-0000-0000-0000-000000000000", IdError::NilUuid),
            ("measurement-secret/", IdError::ParameterUnexpected(KeyClass::MeasurementSecret)),
            ("secrets-at-rest/1", IdError::ParameterUnexpected(KeyClass::SecretsAtRest)),
            ("Measurement-Secret", IdError::UnknownClass),
            ("measurementSecret", IdError::UnknownClass),
            (" measurement-secret", IdError::UnknownClass),
            ("measurement-secret\0", IdError::UnknownClass),
            ("/", IdError::UnknownClass),
            ("ca_emergency_ssh", IdError::UnknownClass),
        ];
        for (text, expected) in table {
            assert_eq!(text.parse::<KeyId>(), Err(expected), "{text:?}");
        }
        assert_eq!("x".repeat(65).parse::<KeyId>(), Err(IdError::TooLong));
    }

    #[test]
    fn names_in_configuration_are_the_names_in_ids() {
        for class in KeyClass::ALL {
            assert_eq!(serde_json::to_string(&class).unwrap(), format!("\"{class}\""));
        }
    }

    proptest! {
        #[test]
        fn what_parses_prints_the_same_up_to_the_case_of_the_uuid(text in "(state-disk/|measurement-secret|secrets-at-rest)?[0-9a-fA-F-]{0,40}") {
            if let Ok(id) = text.parse::<KeyId>() {
                prop_assert_eq!(id.to_string(), text.to_lowercase());
            }
        }

        #[test]
        fn arbitrary_text_never_panics(text in "\\PC{0,80}") {
            let _ = text.parse::<KeyId>();
        }
    }
}
