//! What an upgrade would change: objects by name, and the lines that differ. Of a Secret only that it changes.

use std::collections::BTreeMap;

use similar::TextDiff;

use crate::stock::Object;

/// Lines around a change that are shown.
const CONTEXT: usize = 3;

/// A change of one object.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct Change {
    /// Kind, namespace and name.
    pub(super) object: String,
    /// `added`, `removed` or `changed`.
    #[serde(rename = "change")]
    pub(super) kind: ChangeKind,
    /// The lines, as `diff -u` shows them; none of a Secret.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) diff: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ChangeKind {
    Added,
    Removed,
    Changed,
}

impl ChangeKind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Changed => "changed",
        }
    }
}

/// Changes between two manifests, by object.
pub(super) fn between(old: &str, new: &str) -> Vec<Change> {
    compared(&objects(old), &objects(new))
}

/// Changes between objects as the API server has them and as it would, without what it writes of itself.
pub(super) fn of_objects(old: &[Object], new: &[Object]) -> Vec<Change> {
    let named = |objects: &[Object]| objects.iter().map(|object| (name_of(object), text_of(object))).collect();
    compared(&named(old), &named(new))
}

fn name_of(object: &Object) -> String {
    match &object.metadata.namespace {
        Some(namespace) => format!("{} {namespace}/{}", object.kind, object.metadata.name),
        None => format!("{} {}", object.kind, object.metadata.name),
    }
}

/// The lines of its fields, as kubectl printed them.
fn text_of(object: &Object) -> String {
    const WRITTEN: [&str; 5] = ["creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"];
    let metadata = object.metadata.rest.iter().filter(|(name, _)| !WRITTEN.contains(&&***name));
    let rest = object.rest.iter().filter(|(name, _)| *name != "status");
    metadata.chain(rest).fold(String::new(), |text, (name, value)| text + name + ": " + &lines(value.get()) + "\n")
}

/// As if nothing stood around them: in a list kubectl moves them to the right.
fn lines(text: &str) -> String {
    let last = text.lines().last().unwrap_or_default();
    let moved = last.len() - last.trim_start().len();
    let line = |line: &str| line.get(moved..).filter(|_| line.starts_with(' ')).unwrap_or(line).to_owned();
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn compared(old: &BTreeMap<String, String>, new: &BTreeMap<String, String>) -> Vec<Change> {
    let mut changes = Vec::new();
    for (object, text) in old {
        match new.get(object) {
            None => changes.push(change(object, ChangeKind::Removed, text, "")),
            Some(now) if now != text => changes.push(change(object, ChangeKind::Changed, text, now)),
            Some(_) => {}
        }
    }
    for (object, text) in new.iter().filter(|(object, _)| !old.contains_key(*object)) {
        changes.push(change(object, ChangeKind::Added, "", text));
    }
    changes
}

fn change(object: &str, kind: ChangeKind, old: &str, new: &str) -> Change {
    let diff = if is_secret(object) {
        String::new()
    } else {
        TextDiff::from_lines(old, new).unified_diff().context_radius(CONTEXT).to_string()
    };
    Change { object: object.to_owned(), kind, diff }
}

fn is_secret(object: &str) -> bool {
    object.starts_with("Secret ")
}

/// The documents of a manifest by what they are. This reads no YAML: it looks for the lines by which helm's templates name
/// objects. What is not found so is known by its text alone, and is never taken for something else.
fn objects(manifest: &str) -> BTreeMap<String, String> {
    let mut objects = BTreeMap::new();
    let mut document = String::new();
    let mut put = |document: &mut String| {
        // Helm ends what it prints with a line more.
        let text = format!("{}\n", std::mem::take(document).trim_end());
        if text.lines().any(|line| !line.trim().is_empty() && !line.starts_with('#')) {
            let mut name = name(&text);
            while objects.contains_key(&name) {
                name.push('\'');
            }
            objects.insert(name, text);
        }
    };
    for line in manifest.lines() {
        if line.trim_end() == "---" {
            put(&mut document);
        } else {
            document.push_str(line.trim_end());
            document.push('\n');
        }
    }
    put(&mut document);
    objects
}

/// `KIND NAMESPACE/NAME`. A document that could be a Secret and does not say so plainly is one.
fn name(document: &str) -> String {
    let top = |key: &str| document.lines().find_map(|line| line.strip_prefix(key)).map(plain);
    let kind = top("kind:").unwrap_or_default();
    let mut inside = false;
    let (mut name, mut namespace) = (None, None);
    for line in document.lines() {
        if !line.starts_with([' ', '-', '#']) && !line.is_empty() {
            inside = line.starts_with("metadata:");
            let flow = line.strip_prefix("metadata:").unwrap_or_default().trim().trim_matches(['{', '}']);
            for pair in flow.split(',') {
                take(pair.trim(), &mut name, &mut namespace);
            }
        } else if let Some(field) = line.strip_prefix("  ").filter(|field| inside && !field.starts_with(' ')) {
            take(field, &mut name, &mut namespace);
        }
    }
    let kind = if is_plain(document) { kind } else { "Secret or another".into() };
    match (name, namespace) {
        (Some(name), Some(namespace)) => format!("{kind} {namespace}/{name}"),
        (Some(name), None) => format!("{kind} {name}"),
        (None, _) => format!("{kind} without a name"),
    }
}

/// Whether the document says plainly of what kind it is: one kind, in plain letters, that is no list of others; and nothing at its
/// top that only a reader of YAML could tell from a kind (quotes, tags, anchors, flow style).
fn is_plain(document: &str) -> bool {
    let top = document.lines().filter(|line| !line.is_empty() && !line.starts_with([' ', '#', '-']));
    let mut kinds = Vec::new();
    for line in top {
        if !line.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
            return false;
        }
        kinds.extend(line.strip_prefix("kind").map(str::trim_start).filter(|rest| rest.starts_with(':')));
    }
    let [kind] = kinds[..] else { return false };
    let kind = kind.trim_start_matches(':').trim();
    kind == "Secret"
        || kind.bytes().all(|byte| byte.is_ascii_alphanumeric()) && !kind.is_empty() && !kind.ends_with("List")
}

fn take(field: &str, name: &mut Option<String>, namespace: &mut Option<String>) {
    if let Some(value) = field.strip_prefix("name:") {
        name.get_or_insert_with(|| plain(value));
    }
    if let Some(value) = field.strip_prefix("namespace:") {
        namespace.get_or_insert_with(|| plain(value));
    }
}

fn plain(value: &str) -> String {
    value.trim().trim_matches(['"', '\'']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "---\n# Source: a\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: \"one\"\n  labels:\n    name: no\ndata:\n  key: old\n---\nkind: Secret\nmetadata:\n  name: s\ndata:\n  password: b2xk\n---\nkind: Service\nmetadata: {name: gone, namespace: x}\n---\n# nothing\n";

    #[test]
    fn objects_are_known_by_their_names_and_lines_show_what_differs() {
        let new = OLD.replace("key: old", "key: new").replace("name: gone", "name: came");
        let changes = between(OLD, &new);
        let names: Vec<_> = changes.iter().map(|change| (&*change.object, change.kind)).collect();
        assert_eq!(
            names,
            [
                ("ConfigMap one", ChangeKind::Changed),
                ("Service x/gone", ChangeKind::Removed),
                ("Service x/came", ChangeKind::Added)
            ]
        );
        assert!(changes[0].diff.contains("-  key: old\n+  key: new\n"), "{}", changes[0].diff);
        assert!(between(OLD, OLD).is_empty() && between(OLD, &format!("{OLD}\n")).is_empty());
        assert!(between(OLD.trim_end_matches("---\n# nothing\n"), &format!("{OLD}\n\n")).is_empty());
    }

    #[test]
    fn of_a_secret_only_that_it_changes_is_said() {
        for kind in [
            "kind: Secret\n",
            "kind: \"Secret\"\n",
            "kind: !!str Secret\n",
            "kind: &a Secret\n",
            "kind: \"S\\u0065cret\"\n",
            "kind: >-\n  Secret\n",
            "kind: SecretList\n",
            "kind: List\n",
            "kind : Secret\nkind: ConfigMap\n",
            "kind: ConfigMap\n\"kind\": Secret\n",
            "? kind\n: Secret\n",
            "",
        ] {
            let (old, new) = (OLD.replace("kind: Secret\n", kind), OLD.replace("kind: Secret\n", kind));
            let changes = between(&old, &new.replace("b2xk", "bmV3"));
            let [Change { object, kind: ChangeKind::Changed, diff }] = &changes[..] else { panic!("{changes:?}") };
            assert!(object.starts_with("Secret") && diff.is_empty(), "{changes:?}");
        }
    }
}
