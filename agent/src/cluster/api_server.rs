//! How the API servers of a cluster run where kubeadm leaves it open: their arguments, and the files that these name.
//!
//! | file in [`directory`] | what it says |
//! |---|---|
//! | `authentication.json` | without credentials nobody gets further than the paths of probes |
//! | `admission.json` | pods keep to the Pod Security Standard *baseline*, except in `kube-system` and where a namespace's labels say otherwise |
//! | `audit.json` | what is written to the audit log: who did what to what, never what a Secret holds |
//! | `encryption.json` | Secrets are encrypted before etcd stores them, with a key that is derived from the cluster's master secret |

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_api::v1::SecretsKey;
use serde::Serialize;
use zeroize::Zeroizing;

use super::secure_defaults::{Argument, CIPHER_SUITES};
use super::{StepCode, StepError, files};

/// Where the static pods of kubeadm see the CA, and the node has it.
const CA: &str = "/etc/kubernetes/pki/ca.crt";

/// `AuthenticationConfiguration`: kubelets and balancers probe without credentials, and nobody else comes without
/// (Kubernetes, "Authenticating", "Anonymous authenticator configuration"). Served since 1.32.
const AUTHENTICATION: &[u8] = br#"{
  "apiVersion": "apiserver.config.k8s.io/v1beta1",
  "kind": "AuthenticationConfiguration",
  "anonymous": {"enabled": true, "conditions": [{"path": "/livez"}, {"path": "/readyz"}, {"path": "/healthz"}]}
}
"#;

/// `AdmissionConfiguration` with a `PodSecurityConfiguration` (Kubernetes, "Enforce Pod Security Standards by Configuring the
/// Built-in Admission Controller"). kubeadm's own pods, in `kube-system`, need more than *baseline*.
const ADMISSION: &[u8] = br#"{
  "apiVersion": "apiserver.config.k8s.io/v1",
  "kind": "AdmissionConfiguration",
  "plugins": [
    {
      "name": "PodSecurity",
      "configuration": {
        "apiVersion": "pod-security.admission.config.k8s.io/v1",
        "kind": "PodSecurityConfiguration",
        "defaults": {"enforce": "baseline", "enforce-version": "latest", "audit": "restricted", "audit-version": "latest"},
        "exemptions": {"namespaces": ["kube-system"]}
      }
    }
  ]
}
"#;

/// Audit `Policy` (Kubernetes, "Auditing"): the first rule that fits counts. Bodies are never written: they hold Secrets, and a
/// request for a token holds one. Left out is what components read and what they say all the time.
const AUDIT: &[u8] = br#"{
  "apiVersion": "audit.k8s.io/v1",
  "kind": "Policy",
  "omitStages": ["RequestReceived"],
  "rules": [
    {"level": "Metadata", "resources": [{"group": "", "resources": ["secrets", "serviceaccounts/token"]}]},
    {"level": "None", "nonResourceURLs": ["/livez*", "/readyz*", "/healthz*", "/version"]},
    {"level": "None", "resources": [
      {"group": "coordination.k8s.io", "resources": ["leases"]}, {"group": "", "resources": ["events"]},
      {"group": "events.k8s.io", "resources": ["events"]}
    ]},
    {"level": "None", "verbs": ["get", "list", "watch"], "userGroups": ["system:nodes"]},
    {"level": "None", "verbs": ["get", "list", "watch"], "users": [
      "system:apiserver", "system:kube-controller-manager", "system:kube-scheduler", "system:kube-proxy"
    ]},
    {"level": "Metadata"}
  ]
}
"#;

/// Days, files and megabytes that are kept of the audit log.
const AUDIT_LIMITS: [(&str, &str); 3] =
    [("audit-log-maxage", "30"), ("audit-log-maxbackup", "10"), ("audit-log-maxsize", "100")];

/// The files, to be written before an API server starts.
pub(super) struct ApiServerFiles {
    encryption: Zeroizing<Vec<u8>>,
}

impl ApiServerFiles {
    /// `None` where there is no key, or none that can be one.
    pub(super) fn new(key: Option<&SecretsKey>) -> Option<Self> {
        let key = key.filter(|key| key.key.len() == 32 && key.version > 0)?;
        encryption(key).ok().map(|encryption| Self { encryption })
    }

    /// Writes them into kubeadm's directory `kubernetes`, for root alone.
    pub(super) fn write(&self, kubernetes: &Path) -> Result<(), StepError> {
        let directory = directory(kubernetes);
        for (name, text) in [
            ("authentication.json", AUTHENTICATION),
            ("admission.json", ADMISSION),
            ("audit.json", AUDIT),
            ("encryption.json", &self.encryption),
        ] {
            files::write(&directory.join(name), text)?;
        }
        Ok(())
    }
}

/// `EncryptionConfiguration` with `XSalsa20` and Poly1305, the strongest that Kubernetes has without a program beside it (Kubernetes,
/// "Encrypting Confidential Data at Rest"). There is no `identity`: what is not encrypted with it is none of this cluster's.
fn encryption(key: &SecretsKey) -> Result<Zeroizing<Vec<u8>>, serde_json::Error> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Configuration<'a> {
        api_version: &'a str,
        kind: &'a str,
        resources: [Resources<'a>; 1],
    }
    #[derive(Serialize)]
    struct Resources<'a> {
        resources: [&'a str; 1],
        providers: [Provider<'a>; 1],
    }
    #[derive(Serialize)]
    struct Provider<'a> {
        secretbox: Keys<'a>,
    }
    #[derive(Serialize)]
    struct Keys<'a> {
        keys: [Key<'a>; 1],
    }
    #[derive(Serialize)]
    struct Key<'a> {
        name: String,
        secret: &'a str,
    }
    let secret = Zeroizing::new(STANDARD.encode(&key.key));
    let keys = Keys { keys: [Key { name: format!("v{}", key.version), secret: &secret }] };
    serde_json::to_vec(&Configuration {
        api_version: "apiserver.config.k8s.io/v1",
        kind: "EncryptionConfiguration",
        resources: [Resources { resources: ["secrets"], providers: [Provider { secretbox: keys }] }],
    })
    .map(Zeroizing::new)
}

/// Where the files are: the API server's pod sees them at the same place.
fn directory(kubernetes: &Path) -> PathBuf {
    kubernetes.join("latchkey")
}

/// kubeadm's `apiServer`, without the names for its certificate.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Extra {
    extra_args: Vec<Argument>,
    extra_volumes: [Volume; 2],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Volume {
    name: &'static str,
    host_path: String,
    mount_path: String,
    read_only: bool,
    path_type: &'static str,
}

impl Volume {
    /// At the same place in the pod.
    fn new(name: &'static str, path: &Path, read_only: bool, path_type: &'static str) -> Self {
        let path = path.display().to_string();
        Self { name, host_path: path.clone(), mount_path: path, read_only, path_type }
    }
}

impl Extra {
    /// For the API servers of a cluster whose nodes have kubeadm's files at `kubernetes` and audit logs at `logs`.
    pub(super) fn new(kubernetes: &Path, logs: &Path) -> Self {
        let directory = directory(kubernetes);
        let file = |name: &str| directory.join(name).display().to_string();
        let mut extra_args = vec![
            Argument::new("kubelet-certificate-authority", CA),
            Argument::new("authentication-config", file("authentication.json")),
            Argument::new("admission-control-config-file", file("admission.json")),
            Argument::new("encryption-provider-config", file("encryption.json")),
            Argument::new("audit-policy-file", file("audit.json")),
            Argument::new("audit-log-path", logs.join("audit.log").display().to_string()),
            // The first is kubeadm's choice, too. Without the second, whoever may make a Service can take up any address (CVE-2020-8554).
            Argument::new("enable-admission-plugins", "NodeRestriction,DenyServiceExternalIPs"),
            // Tokens of pods end when they say.
            Argument::new("service-account-extend-token-expiration", "false"),
            Argument::new("profiling", "false"),
            Argument::new("tls-cipher-suites", CIPHER_SUITES.join(",")),
        ];
        extra_args.extend(AUDIT_LIMITS.map(|(name, value)| Argument::new(name, value)));
        Self {
            extra_args,
            extra_volumes: [
                Volume::new("latchkey", &directory, true, "Directory"),
                Volume::new("latchkey-audit", logs, false, "DirectoryOrCreate"),
            ],
        }
    }
}

/// That a cluster's operator, or a control plane's ticket, has to bring.
pub(super) fn key_is_missing(code: StepCode, who: &str) -> StepError {
    StepError::new(code, format!("{who} lacks the key, of 32 bytes, that Secrets are encrypted with"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(length: usize, version: u32) -> SecretsKey {
        let mut key = SecretsKey::default();
        (key.key, key.version) = (vec![7; length], version);
        key
    }

    #[test]
    fn no_other_key_than_one_of_32_bytes_and_a_version_is_taken() {
        assert!(ApiServerFiles::new(Some(&key(32, 1))).is_some());
        for bad in [None, Some(key(0, 1)), Some(key(31, 1)), Some(key(33, 1)), Some(key(32, 0))] {
            assert!(ApiServerFiles::new(bad.as_ref()).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn each_file_that_an_argument_names_is_written_for_root_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        ApiServerFiles::new(Some(&key(32, 3))).unwrap().write(directory.path()).unwrap();
        let extra = Extra::new(directory.path(), Path::new("/var/log/kubernetes"));
        let named = extra
            .extra_args
            .iter()
            .filter(|argument| Path::new(&argument.value).extension().is_some_and(|kind| kind == "json"));
        assert_eq!(named.clone().count(), 4);
        for argument in named {
            let path = Path::new(&argument.value);
            assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600, "{path:?}");
            let _: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        }
        let text = std::fs::read_to_string(directory.path().join("latchkey/encryption.json")).unwrap();
        assert!(text.contains(r#""name":"v3""#) && !text.contains("identity"), "{text}");
    }
}
