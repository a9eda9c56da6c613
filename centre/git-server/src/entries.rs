//! Which repositories there are: the entries of "Git repository configuration", and what each name means.

use std::collections::BTreeMap;

use latchkey_factory_plus::Uuid;
use serde_json::Value;

use crate::paths::Repository;

/// The repositories that are to be served. One that has storage and no entry is kept, and not served.
#[derive(Debug, Default)]
pub struct Entries {
    /// The `path` of each; `None` where the entry has none that could be asked for.
    paths: BTreeMap<Uuid, Option<String>>,
    /// `None` where two entries want the same path: who comes later takes nothing over.
    names: BTreeMap<String, Option<Uuid>>,
}

impl Entries {
    /// Those of `all`: the body of each entry by its object.
    pub fn new<'a>(all: impl IntoIterator<Item = (Uuid, &'a Value)>) -> Self {
        let mut entries = Self::default();
        for (uuid, entry) in all {
            entries.set(uuid, entry);
        }
        entries
    }

    /// Takes an entry up, new or changed. Fields beside `path` are other programs' business.
    pub fn set(&mut self, uuid: Uuid, entry: &Value) {
        let path = entry.get("path").and_then(Value::as_str).map(str::to_owned);
        let before = self.paths.insert(uuid, path.clone());
        if before.as_ref() != Some(&path) {
            self.recount(before.flatten());
            self.recount(path);
        }
    }

    /// Forgets an entry; its repository's storage stays.
    pub fn remove(&mut self, uuid: Uuid) {
        let before = self.paths.remove(&uuid);
        self.recount(before.flatten());
    }

    /// Sees again who wants `path`.
    fn recount(&mut self, path: Option<String>) {
        let Some(path) = path else { return };
        let mut wanting = self.paths.iter().filter(|(_, wanted)| wanted.as_ref() == Some(&path)).map(|(uuid, _)| *uuid);
        match (wanting.next(), wanting.next()) {
            (None, _) => drop(self.names.remove(&path)),
            (Some(uuid), None) => drop(self.names.insert(path, Some(uuid))),
            (Some(one), Some(other)) => {
                tracing::warn!(path = %path.escape_debug(), %one, %other, "Two repositories want one path; neither has it");
                self.names.insert(path, None);
            }
        }
    }

    /// The repository that a client means, whether there is an entry of it or not; `None` for a name that none has.
    pub fn resolve(&self, repository: &Repository) -> Option<Uuid> {
        let named = |name: &str| self.names.get(name).copied().flatten();
        match repository {
            Repository::Uuid(uuid) => Some(*uuid),
            Repository::Name(name) => named(name).or_else(|| named(name.strip_suffix(".git")?)),
        }
    }

    /// Whether a repository is to be served.
    pub fn has(&self, uuid: Uuid) -> bool {
        self.paths.contains_key(&uuid)
    }

    /// All repositories that are to be served.
    pub fn iter(&self) -> impl Iterator<Item = Uuid> {
        self.paths.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const A: Uuid = Uuid::constant("aaaaaaaa-0000-4000-8000-000000000000");
    const B: Uuid = Uuid::constant("bbbbbbbb-0000-4000-8000-000000000000");

    fn named(entries: &Entries, name: &str) -> Option<Uuid> {
        entries.resolve(&Repository::Name(name.into()))
    }

    #[test]
    fn a_name_is_that_of_its_entry_with_and_without_git() {
        let mut entries = Entries::new([(A, &json!({"path": "cluster/Nord", "pull": {}}))]);
        assert_eq!(named(&entries, "cluster/Nord"), Some(A));
        assert_eq!(named(&entries, "cluster/Nord.git"), Some(A));
        assert_eq!(named(&entries, "cluster/nord"), None);
        entries.set(A, &json!({"path": "cluster/South"}));
        assert_eq!((named(&entries, "cluster/Nord"), named(&entries, "cluster/South")), (None, Some(A)));
        entries.remove(A);
        assert_eq!(named(&entries, "cluster/South"), None);
        assert!(!entries.has(A));
    }

    #[test]
    fn nobody_takes_a_name_over_by_claiming_it_too() {
        let mut entries = Entries::new([(A, &json!({"path": "shared/helm"})), (B, &json!({"path": "shared/helm"}))]);
        assert_eq!(named(&entries, "shared/helm"), None);
        assert_eq!(entries.resolve(&Repository::Uuid(B)), Some(B));
        entries.remove(B);
        assert_eq!(named(&entries, "shared/helm"), Some(A));
    }

    #[test]
    fn an_entry_without_a_path_is_known_by_its_uuid_alone() {
        for entry in [json!({}), json!(null), json!({"path": 7}), json!([])] {
            let entries = Entries::new([(A, &entry)]);
            assert!(entries.has(A));
            assert_eq!(entries.iter().collect::<Vec<_>>(), [A]);
        }
    }
}
