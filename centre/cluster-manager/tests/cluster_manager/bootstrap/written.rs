//! The script as it is written.

use std::collections::BTreeMap;

use latchkey_centre_setup::{Local, Setup, Site};
use latchkey_cluster_manager::links::Token;
use latchkey_cluster_manager::manifests::{Repositories, Repository, Templates, repository};
use latchkey_cluster_manager::script::{CentreValues, ReaderScript, Script, Values, assemble};
use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::cluster::Configuration;
use latchkey_factory_plus::uuids::application::{
    BOOTSTRAP_SCRIPT, FLUX_TEMPLATE, HELM_CHART_TEMPLATE, K8S_RESOURCE_TEMPLATE,
};
use latchkey_factory_plus::uuids::k8s_resource::HELM_RELEASE;
use serde_json::{Value, json};

pub(crate) const CLUSTER: Uuid = Uuid::constant("c1c1c1c1-c1c1-41c1-81c1-c1c1c1c1c1c1");
pub(crate) const NAMESPACE: &str = "fplus-edge";
pub(crate) const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n";

/// The entry of the configuration database.
pub(crate) fn entry() -> Value {
    configs().remove(&BOOTSTRAP_SCRIPT).unwrap().remove(&BOOTSTRAP_SCRIPT).unwrap()
}

/// The files of a cluster's repository.
pub(crate) fn flux_template(configuration: &Configuration) -> Repository {
    let all = configs();
    let templates = Templates {
        flux: all[&FLUX_TEMPLATE][&FLUX_TEMPLATE].clone(),
        chart: all[&HELM_CHART_TEMPLATE].values().next().unwrap().clone(),
        helm_release: all[&K8S_RESOURCE_TEMPLATE][&HELM_RELEASE].clone(),
    };
    let repositories = Repositories { git: "https://git.example.org".into(), helm: CLUSTER };
    repository(CLUSTER, configuration, &repositories, &templates).unwrap()
}

/// All entries, by application and object.
fn configs() -> BTreeMap<Uuid, BTreeMap<Uuid, Value>> {
    let site: Site = serde_json::from_value(json!({
        "realm": "EXAMPLE.ORG", "domain": "example.org", "prefix": "ACME", "administrator": "admin", "authority": AUTHORITY,
        "urls": {
            "directory": "https://directory.example.org", "config_db": "https://configdb.example.org",
            "auth": "https://auth.example.org", "git": "https://git.example.org",
            "cluster_manager": "https://clusters.example.org", "mqtt": "mqtts://mqtt.example.org:8883",
        },
    }))
    .unwrap();
    Setup::new(&site, &Local::new()).unwrap().config_db.configs
}

pub(crate) fn centre() -> CentreValues {
    CentreValues {
        domain: "example.org".into(),
        realm: "EXAMPLE.ORG".into(),
        kdc: "kdc.example.org".into(),
        kadmin: "kadmin.example.org:749".into(),
        krbkeys: format!("registry.example.org/krb-keys@sha256:{}", "0a".repeat(32)),
        directory: "https://directory.example.org".into(),
        manager: "https://clusters.example.org".into(),
        authority: AUTHORITY.into(),
    }
}

/// The script of a cluster in a namespace, with these files of the repositories.
pub(crate) fn stored(name: &str, namespace: &str, added: &[(&str, &str)]) -> Script {
    let name = name.parse().unwrap();
    let added: BTreeMap<_, _> = added.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    let centre = centre();
    assemble(&entry(), &Values { name: &name, uuid: CLUSTER, namespace, centre: &centre }, &added, [7; 16]).unwrap()
}

pub(crate) fn token() -> Token {
    Token::from_random([0xfb; 32])
}

/// What who has the token reads.
pub(crate) fn script(added: &[(&str, &str)]) -> ReaderScript {
    stored("Nord", NAMESPACE, added).for_reader(&token())
}
