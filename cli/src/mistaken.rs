//! Files that are mistaken for each other: said as what they are, and not as bad ones of the other kind.

use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::codes::CommandCode;
use crate::error::CommandError;

/// A kind of file, as far as its fields show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Whom to admit.
    Policy,
    /// Reference values of images.
    Manifest,
    /// What a cluster's keys come from.
    MasterSecret,
}

/// What tells the kinds: a field that every file of the kind has, and no other.
#[derive(Deserialize)]
struct Fields {
    ak_trust: Option<IgnoredAny>,
    images: Option<IgnoredAny>,
    secrets: Option<IgnoredAny>,
}

impl Kind {
    /// `None` of anything else.
    pub(crate) fn of(file: &[u8]) -> Option<Self> {
        let fields: Fields = serde_json::from_slice(file).ok()?;
        let kinds =
            [(fields.ak_trust, Self::Policy), (fields.images, Self::Manifest), (fields.secrets, Self::MasterSecret)];
        kinds.into_iter().find_map(|(field, kind)| field.map(|_| kind))
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Policy => "a policy",
            Self::Manifest => "a reference manifest",
            Self::MasterSecret => "a master secret",
        }
    }

    /// What makes one.
    const fn made_by(self) -> &'static str {
        match self {
            Self::Policy => "`latchkey policy new`",
            Self::Manifest => "`latchkey image build`, or `latchkey record`",
            Self::MasterSecret => "`latchkey secret new`",
        }
    }

    /// The failure to read a file as this kind; if the file is of another one, that it is.
    pub(crate) fn expected(self, failure: CommandError, file: &[u8], path: &Path) -> CommandError {
        match Self::of(file).filter(|kind| *kind != self) {
            Some(other) => {
                let what = format!("{} is {}, and {} is needed", path.display(), other.name(), self.name());
                let failure = CommandError::new(failure.exit, CommandCode::OtherKind, what);
                failure.fix(format!("name the file that {} made", self.made_by()))
            }
            None => failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_known_by_its_fields_and_other_files_are_none() {
        for (text, kind) in [
            (r#"{"version": 3, "ak_trust": []}"#, Some(Kind::Policy)),
            (r#"{"version": 2, "name": "edge", "images": []}"#, Some(Kind::Manifest)),
            (r#"{"schema": 1, "secrets": []}"#, Some(Kind::MasterSecret)),
            (r#"{"version": 1}"#, None),
            ("[]", None),
            ("", None),
        ] {
            assert_eq!(Kind::of(text.as_bytes()), kind, "{text}");
        }
    }
}
