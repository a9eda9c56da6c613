//! Names of Kubernetes objects.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_kubernetes_allows() {
        assert_eq!(kubernetes_name(&["edge-cluster", "A_b  c!"]), "edge-cluster-a-b-c");
        assert_eq!(kubernetes_name(&["_x_"]), "x");
        assert!(is_kubernetes_label("a-1") && is_kubernetes_label(&"a".repeat(63)));
        for bad in ["", "-a", "a-", "A", "a.b", "a/b", "é", &"a".repeat(64)] {
            assert!(!is_kubernetes_label(bad), "{bad}");
        }
        assert!(
            is_kubernetes_subdomain("a.b-1.c") && !is_kubernetes_subdomain("a..b") && !is_kubernetes_subdomain(".a")
        );
    }
}
