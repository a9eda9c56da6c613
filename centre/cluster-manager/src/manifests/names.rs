//! Names of files.

use latchkey_factory_plus::kubernetes_names::is_kubernetes_subdomain;

/// The name of a file of manifests; templates may leave its end out. `None` where it could lead out of its directory or
/// be hidden.
pub(super) fn file(name: &str) -> Option<String> {
    let stem = name.strip_suffix(".yaml").unwrap_or(name);
    is_kubernetes_subdomain(stem).then(|| format!("{stem}.yaml"))
}
