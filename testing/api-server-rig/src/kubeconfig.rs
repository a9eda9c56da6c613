//! Files that programs of Kubernetes find the API server by.

use crate::Credentials;
use serde_json::json;

/// A kubeconfig with everything in it (YAML, and JSON as well). Bytes in it are base64 of PEM.
pub(crate) fn with_certificate(url: &str, authority: &str, credentials: &Credentials) -> String {
    let user = json!({
        "client-certificate-data": base64(&credentials.certificate),
        "client-key-data": base64(&credentials.key),
    });
    document(url, authority, &user)
}

/// The same for who has a token.
pub(crate) fn with_token(url: &str, authority: &str, token: &str) -> String {
    document(url, authority, &json!({"token": token}))
}

fn document(url: &str, authority: &str, user: &serde_json::Value) -> String {
    let document = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "rig", "cluster": {"server": url, "certificate-authority-data": base64(authority)}}],
        "users": [{"name": "rig", "user": user}],
        "contexts": [{"name": "rig", "context": {"cluster": "rig", "user": "rig"}}],
        "current-context": "rig",
    });
    document.to_string()
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}
