//! Our own chart, which this crate carries: the bytes of `edge/chart/edge-cluster`.

use std::collections::BTreeMap;

macro_rules! chart {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../edge/chart/edge-cluster/", $name)))),*]
    };
}

/// The version of our chart, and of what it starts.
pub const CHART_VERSION: &str = env!("CARGO_PKG_VERSION");

const FILES: [(&str, &str); 12] = chart![
    "Chart.yaml",
    "crds/kerberos-keys.yaml",
    "crds/local-secrets.yaml",
    "templates/NOTES.txt",
    "templates/_helpers.tpl",
    "templates/_krb5.tpl",
    "templates/edge-monitor.yaml",
    "templates/edge-sync.yaml",
    "templates/keys.yaml",
    "templates/krb-keys.yaml",
    "templates/namespace.yaml",
    "values.yaml",
];
const SCHEMA: (&str, &str) =
    ("values.schema.json", include_str!("../../../edge/chart/edge-cluster/values.schema.json"));

/// The files of our chart by path, as they are in a repository where Sealed Secrets has this version; without it the chart has no
/// chart below it.
pub fn edge_cluster(sealed_secrets: Option<&str>) -> BTreeMap<String, Vec<u8>> {
    let files = FILES.into_iter().chain([SCHEMA]);
    let mut files: BTreeMap<String, Vec<u8>> =
        files.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec())).collect();
    if let (Some(version), Some(about)) = (sealed_secrets, files.get_mut("Chart.yaml")) {
        let dependency = format!(
            "# Imported; its values are those of `sealedSecrets`.\n\
             dependencies:\n  - name: sealed-secrets\n    alias: sealedSecrets\n    version: \"{version}\"\n    \
             repository: \"\"\n    condition: sealedSecrets.enabled\n"
        );
        about.extend_from_slice(dependency.as_bytes());
    }
    files
}
