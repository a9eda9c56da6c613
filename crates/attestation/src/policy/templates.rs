//! The templates of endorsement keys that a policy takes for a TPM's identity.

use std::collections::BTreeSet;
use std::fmt;

use latchkey_tpm::wire::EkTemplate;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A set of templates; in JSON a list of their names, each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EkTemplates(BTreeSet<EkTemplate>);

impl EkTemplates {
    /// Whether keys of this template stand for their TPM.
    pub fn contains(&self, template: EkTemplate) -> bool {
        self.0.contains(&template)
    }

    /// The templates, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = EkTemplate> {
        self.0.iter().copied()
    }

    /// Whether one TPM can have more than one identity.
    pub fn is_ambiguous(&self) -> bool {
        self.0.len() > 1
    }

    pub(super) fn all() -> Self {
        Self(EkTemplate::ALL.into_iter().collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for EkTemplates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.iter().map(EkTemplate::name).collect();
        f.write_str(&names.join(", "))
    }
}

impl<'de> Deserialize<'de> for EkTemplates {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let names = Vec::<String>::deserialize(deserializer)?;
        let template = |name: &String| {
            let all: Vec<&str> = EkTemplate::ALL.iter().map(|template| template.name()).collect();
            EkTemplate::from_name(name).ok_or_else(|| {
                de::Error::custom(format!(
                    "{:?} is no EK template; there are {}",
                    name.escape_debug().to_string(),
                    all.join(", ")
                ))
            })
        };
        let set = names.iter().map(template).collect::<Result<BTreeSet<_>, _>>()?;
        if set.len() == names.len() { Ok(Self(set)) } else { Err(de::Error::custom("an EK template is listed twice")) }
    }
}

impl Serialize for EkTemplates {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(EkTemplate::name))
    }
}

/// For fields that hold one template.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
pub(crate) fn by_name<S: Serializer>(template: &EkTemplate, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(template.name())
}
