//! The data are whole: what is named is defined, and every entry is what its schema says.

#![allow(clippy::unwrap_used, reason = "a rig that fails shall fail there")]

use crate::site;

use std::collections::{BTreeMap, BTreeSet};

use crate::site::{BUILT_IN, setup};
use jsonschema::{Draft, PatternOptions, Validator};
use latchkey_centre_setup::dumps::ConfigDbDump;
use latchkey_centre_setup::{Local, Setup};
use latchkey_factory_plus::uuids::{application, class, service, special};
use latchkey_factory_plus::{ClusterName, Uuid};
use proptest::prelude::*;
use serde_json::{Value, json};

/// The table of the contract, section 9, and the document's: what is the same at every site.
const TABLE: &str = include_str!("../table.txt");

fn objects(dump: &ConfigDbDump) -> BTreeSet<Uuid> {
    dump.objects.values().flat_map(BTreeMap::keys).copied().chain(BUILT_IN).collect()
}

/// Every UUID in a value, keys and texts alike.
fn uuids_in(value: &Value, found: &mut BTreeSet<Uuid>) {
    match value {
        Value::String(text) => found.extend(text.parse::<Uuid>().ok()),
        Value::Array(items) => items.iter().for_each(|item| uuids_in(item, found)),
        Value::Object(fields) => fields.iter().for_each(|(key, value)| {
            found.extend(key.parse::<Uuid>().ok());
            uuids_in(value, found);
        }),
        _ => {}
    }
}

fn schema(setup: &Setup, application: Uuid) -> Validator {
    let schema = &setup.config_db.configs[&application::CONFIG_SCHEMA][&application];
    // As the configuration database compiles them: complete in themselves, patterns without look-around.
    let options =
        jsonschema::options().with_draft(Draft::Draft202012).offline().with_pattern_options(PatternOptions::regex());
    options.build(schema).unwrap()
}

#[test]
fn every_uuid_that_is_used_is_defined() {
    let (setup, _) = setup();
    let defined = objects(&setup.config_db);
    for dump in [
        serde_json::to_value(&setup.config_db).unwrap(),
        serde_json::to_value(&setup.auth).unwrap(),
        serde_json::to_value(&setup.directory).unwrap(),
    ] {
        let mut used = BTreeSet::new();
        uuids_in(&dump, &mut used);
        let missing: Vec<_> = used.difference(&defined).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}

#[test]
fn every_row_of_the_contract_is_an_object_once() {
    let (setup, _) = setup();
    let mut defined: Vec<Uuid> = setup.config_db.objects.values().flat_map(BTreeMap::keys).copied().collect();
    let count = defined.len();
    defined.sort_unstable();
    defined.dedup();
    assert_eq!(defined.len(), count, "an object has one primary class");
    let defined = objects(&setup.config_db);
    let rows: Vec<Uuid> = TABLE.split_whitespace().map(|uuid| uuid.parse().unwrap()).collect();
    assert_eq!(rows.len(), 132);
    for row in rows {
        assert!(defined.contains(&row), "{row}");
    }
}

/// The rank of an object: one below its primary class.
fn rank(primary: &BTreeMap<Uuid, Uuid>, object: Uuid) -> u8 {
    let ranks = [(class::RANK_3, 4), (class::RANK_2, 3), (class::RANK_1, 2), (class::INDIVIDUAL, 1)];
    let fixed = ranks.iter().find(|(class, _)| *class == object).map(|(_, rank)| *rank);
    fixed.unwrap_or_else(|| rank(primary, primary[&object]) - 1)
}

#[test]
fn ranks_fit_all_the_way_down() {
    let (setup, _) = setup();
    let primary: BTreeMap<Uuid, Uuid> =
        setup.config_db.objects.iter().flat_map(|(class, objects)| objects.keys().map(|o| (*o, *class))).collect();
    for (class, objects) in &setup.config_db.objects {
        for (object, about) in objects {
            let own = rank(&primary, *object);
            for above in about.member_of.iter().flatten() {
                assert_eq!(rank(&primary, *above), own + 1, "{object} in {above}");
            }
            for above in about.subclass_of.iter().flatten().chain(&about.powerset_of) {
                let wanted = if about.powerset_of == Some(*above) { own - 1 } else { own };
                assert_eq!(rank(&primary, *above), wanted, "{object} below {above}");
            }
            assert!(about.member_of.as_ref().is_none_or(|classes| classes.contains(class)), "{object}");
        }
    }
}

#[test]
fn every_entry_is_what_its_schema_says() {
    let (setup, _) = setup();
    let schemas = &setup.config_db.configs[&application::CONFIG_SCHEMA];
    let mut checked = 0;
    for (application, entries) in &setup.config_db.configs {
        if !schemas.contains_key(application) {
            continue;
        }
        let schema = schema(&setup, *application);
        for (object, entry) in entries {
            let errors: Vec<_> = schema.iter_errors(entry).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{application} {object}: {errors:?}");
            checked += 1;
        }
    }
    assert!(checked > 15, "{checked}");
    for objects in setup.config_db.objects.values().flat_map(BTreeMap::values) {
        assert!(schema(&setup, application::INFO).is_valid(&json!({"name": objects.name})));
    }
}

#[test]
fn the_documents_applications_have_schemas_with_exactly_its_fields() {
    let (setup, _) = setup();
    let good = |application, entry: Value| schema(&setup, application).is_valid(&entry);
    let chart = special::FACTORY_PLUS;
    let cluster = |change: Value| {
        let mut entry = json!({"chart": chart, "name": "Building_1", "namespace": "fplus-edge"});
        for (key, value) in change.as_object().unwrap() {
            if value.is_null() {
                entry.as_object_mut().unwrap().remove(key)
            } else {
                entry[key] = value.clone();
                None
            };
        }
        good(application::EDGE_CLUSTER_CONFIGURATION, entry)
    };
    assert!(cluster(json!({})) && cluster(json!({"bare": true, "values": {"a": null}})));
    for bad in [
        json!({"chart": null}),
        json!({"name": null}),
        json!({"namespace": null}),
        json!({"more": 1}),
        json!({"chart": "x"}),
        json!({"name": "123"}),
        json!({"name": "a b"}),
        json!({"name": "a\nb"}),
        json!({"name": "a\n"}),
        json!({"name": "Admin"}),
        json!({"name": "krbtgt"}),
        json!({"namespace": "Fplus"}),
        json!({"namespace": "a; rm -rf /"}),
        json!({"namespace": "-a"}),
        json!({"namespace": "a".repeat(64)}),
    ] {
        assert!(!cluster(bad.clone()), "{bad}");
    }
    let host = json!({"hostname": "a", "control_plane": true, "k8s_version": "v1.31.0", "arch": "amd64"});
    assert!(good(application::EDGE_CLUSTER_STATUS, json!({"hosts": [host], "kubeseal_cert": "PEM", "later": 1})));
    assert!(good(application::EDGE_CLUSTER_STATUS, json!({"kubeseal_cert": "PEM"})));
    assert!(!good(application::EDGE_CLUSTER_STATUS, json!({"hosts": [{"hostname": "a"}]})));
    assert!(!good(application::EDGE_CLUSTER_STATUS, json!({"hosts": {}})));
    assert!(good(application::EDGE_CLUSTER_SETUP_STATUS, json!({"ready": true, "anything": 1})));
    assert!(!good(application::EDGE_CLUSTER_SETUP_STATUS, json!({"ready": "yes"})));
    assert!(good(application::SPARKPLUG_ADDRESS, json!({"group_id": "ACME-A"})));
    for bad in [json!({"group_id": "A/B"}), json!({"group_id": "+"}), json!({"group_id": "#"}), json!({"node_id": "a"})]
    {
        assert!(!good(application::SPARKPLUG_ADDRESS, bad));
    }
    assert!(good(application::GIT_REPOSITORY_CONFIGURATION, json!({"path": "cluster/A", "pull": {}})));
    for bad in ["cluster", "a/b/c", "../b", "a/..", "/a", "a/"] {
        assert!(!good(application::GIT_REPOSITORY_CONFIGURATION, json!({"path": bad})), "{bad}");
    }
}

proptest! {
    #[test]
    fn the_schema_and_the_programs_take_the_same_names(
        name in prop_oneof!["[A-Za-z0-9_ /@.-]{0,34}", "[yYnNoOfFeEsStTrRuUaAdDmMiI]{1,5}", "\\PC{0,8}"],
    ) {
        let (setup, _) = setup();
        let entry = json!({"chart": special::FACTORY_PLUS, "name": name, "namespace": "a"});
        let by_schema = schema(&setup, application::EDGE_CLUSTER_CONFIGURATION).is_valid(&entry);
        prop_assert_eq!(by_schema, name.parse::<ClusterName>().is_ok());
    }
}

#[test]
fn services_find_their_configuration_as_the_contract_has_it() {
    let (setup, local) = setup();
    let config = &setup.config_db.configs[&application::SERVICE_CONFIG];
    let manager = &config[&service::CLUSTER_MANAGER];
    assert_eq!(manager["group"]["cluster"], json!({"path": "cluster", "uuid": local.cluster_repositories}));
    for (role, uuid) in
        [("flux", local.edge_flux), ("krbkeys", local.edge_krbkeys), ("shared", local.shared_repositories)]
    {
        assert_eq!(manager["group"][role], json!({"uuid": uuid}));
    }
    assert_eq!(manager["helm"], json!({"cluster": local.cluster_chart}));
    assert_eq!(manager["repo"], json!({"helm": {"uuid": local.helm_charts}}));
    assert_eq!(config[&service::MANAGER]["helm"]["cluster"], json!(local.cluster_chart));
    let charts = &setup.config_db.configs[&application::HELM_CHART_TEMPLATE];
    assert_eq!(charts[&local.cluster_chart]["chart"], "edge-cluster");
    let kept = Local::kept_or_new(Some(&config[&application::SERVICE_CONFIG])).unwrap();
    assert_eq!(kept, local);
    assert_eq!(Setup::new(&site::site(), &kept).unwrap(), setup, "the same again, with what was kept");
    let size = serde_json::to_vec(&setup.config_db).unwrap().len();
    assert!(size < 100_000, "{size} bytes: more than services take as one body");
    assert_eq!((setup.auth.version, setup.directory.version, setup.config_db.version), (2, 1, 2));
    assert_eq!(setup.auth.identities[&local.administrator].kerberos, "admin@EXAMPLE.ORG");
}
