//! Names of Kubernetes objects and of files.

/// The longest DNS label (RFC 1123).
const LONGEST_LABEL: usize = 63;
/// The longest DNS subdomain, as Kubernetes counts it.
const LONGEST_SUBDOMAIN: usize = 253;

/// Whether a text is a DNS label, as names of namespaces are: lower-case letters, digits and inner hyphens, at most 63.
pub fn is_kubernetes_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty()
        && text.len() <= LONGEST_LABEL
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Whether a text is a DNS subdomain, as names of most objects are: labels with dots between, at most 253 characters.
pub fn is_kubernetes_subdomain(text: &str) -> bool {
    text.len() <= LONGEST_SUBDOMAIN && text.split('.').all(is_kubernetes_label)
}

/// A name for an object of Kubernetes, of parts with hyphens between: in lower case, with one hyphen for every run of
/// characters that a name does not have, and none at either end.
pub fn kubernetes_name(parts: &[&str]) -> String {
    let mut name = String::new();
    for character in parts.join("-").chars() {
        let character = character.to_ascii_lowercase();
        if character.is_ascii_lowercase() || character.is_ascii_digit() {
            name.push(character);
        } else if character == '-' || !name.ends_with('-') {
            name.push('-');
        }
    }
    name.trim_matches('-').into()
}

/// The name of a file of manifests; templates may leave its end out. `None` where it could lead out of its directory or
/// be hidden.
pub(super) fn file(name: &str) -> Option<String> {
    let stem = name.strip_suffix(".yaml").unwrap_or(name);
    is_kubernetes_subdomain(stem).then(|| format!("{stem}.yaml"))
}
