//! Whatever stands in an entry, a repository or a request: no panic, and what is read is within bounds.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use std::collections::BTreeMap;

use latchkey_cluster_manager::links::{Link, Token};
use latchkey_cluster_manager::machine::{Event, Machine, Moment, Names, RANDOM_BYTES, SetupStatus, Site};
use latchkey_cluster_manager::manifests::{Templates, repository};
use latchkey_cluster_manager::script::{CentreValues, Values, assemble};
use latchkey_cluster_manager::seal::{Place, SealedSecret, SealingKey};
use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::cluster::Configuration;
use latchkey_factory_plus::template::{MAX_BYTES, substitute};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const UUID: &str = "aaaaaaaa-0000-4000-8000-000000000000";

/// Words that entries have, and what attackers write.
const WORDS: [&str; 40] = [
    "chart",
    "name",
    "namespace",
    "bare",
    "values",
    "spec",
    "ready",
    "phase",
    "since",
    "updated",
    "generation",
    "flux",
    "krbkeys",
    "sync",
    "monitor",
    "uuid",
    "done",
    "error",
    "script",
    "files",
    "apiVersion",
    "kind",
    "metadata",
    "encryptedData",
    "accounts",
    "North",
    "fplus-edge",
    UUID,
    "{{name}}",
    "{{files}}",
    "{{values}}",
    "{{helm}}",
    "{{a.b.0}}",
    "{{x:y}}",
    "{{",
    "}}",
    "../x",
    "self-link.yaml",
    "bitnami.com/v1alpha1",
    "SealedSecret",
];

fn text() -> impl Strategy<Value = String> {
    prop_oneof![4 => prop::sample::select(WORDS.to_vec()).prop_map(str::to_owned), 1 => any::<String>()]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        4 => text().prop_map(Value::from),
        1 => any::<u64>().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
    ];
    leaf.prop_recursive(5, 60, 8, |inner| {
        prop_oneof![
            1 => proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            3 => proptest::collection::vec((text(), inner), 0..9).prop_map(|fields| Value::Object(Map::from_iter(fields))),
        ]
    })
}

/// A good entry of which some fields are others, or gone.
fn like(good: &Value) -> impl Strategy<Value = Value> + use<> {
    let good = good.clone();
    proptest::collection::vec((any::<prop::sample::Index>(), proptest::option::of(value())), 0..3).prop_map(
        move |changes| {
            let mut entry = good.clone();
            for (place, change) in changes {
                let fields = entry.as_object_mut().unwrap();
                let key = place.get(&fields.keys().cloned().collect::<Vec<_>>()).clone();
                match change {
                    Some(change) => drop(fields.insert(key, change)),
                    None => drop(fields.remove(&key)),
                }
                if fields.is_empty() {
                    break;
                }
            }
            entry
        },
    )
}

/// A good text of which some bytes are others.
fn near(good: &'static str) -> impl Strategy<Value = String> {
    proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4).prop_map(move |changes| {
        let mut bytes = good.as_bytes().to_vec();
        for (place, change) in changes {
            let place = place.index(bytes.len());
            bytes[place] = change;
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn site() -> Site {
    let classes = json!({"cluster": UUID, "flux": UUID, "krbkeys": UUID, "sync": UUID, "monitor": UUID});
    let repositories = json!({"git": "https://git.example.org", "helm": UUID});
    let site = json!({
        "realm": "R", "prefix": "P", "classes": classes, "repositories": repositories, "names_held_ms": 1000,
    });
    serde_json::from_value(site).unwrap()
}

fn configuration() -> Value {
    json!({"chart": UUID, "name": "North", "namespace": "fplus-edge", "bare": false, "values": {}})
}

fn status() -> Value {
    let account = json!({"uuid": UUID, "done": true});
    json!({
        "spec": configuration(), "ready": true, "phase": "ready", "since": 1, "updated": 1, "generation": 1, "flux": account,
        "krbkeys": account, "sync": account, "monitor": account,
    })
}

const MANIFEST: &str = "---\napiVersion: bitnami.com/v1alpha1\nkind: SealedSecret\nmetadata:\n  name: n\n  namespace: ns\nspec:\n  \
                        encryptedData:\n    k: AgAx\n    b: \"1\"\n  template: &a {x: *a}\n";

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_machine_takes_any_entry(
        stored in proptest::option::of(prop_oneof![like(&status()), value()]),
        wanted in prop_oneof![like(&configuration()), value()],
    ) {
        let mut machine = Machine::new(UUID.parse().unwrap(), stored.as_ref(), 0);
        let moment = Moment { now: 1, random: [1; RANDOM_BYTES] };
        let names = Names::new(&"R".parse().unwrap(), [], []);
        let readable = stored.as_ref().is_none_or(|stored| SetupStatus::read(stored).is_ok());
        for event in [Event::Configuration(Some(wanted)), Event::Refresh, Event::Configuration(None)] {
            let orders = machine.handle(&moment, event, &site(), &names);
            prop_assert!(orders.len() <= 1);
            prop_assert!(readable || orders.is_empty());
        }
    }

    #[test]
    fn a_template_is_filled_or_refused(template in value(), parameters in value()) {
        if let Ok(Some(filled)) = substitute(&template, &parameters) {
            prop_assert!(filled.to_string().len() <= 8 * MAX_BYTES);
        }
    }

    #[test]
    fn a_repository_is_made_or_refused(flux in value(), chart in value(), helm_release in value()) {
        let wanted: Configuration = serde_json::from_value(configuration()).unwrap();
        let templates = Templates { flux, chart, helm_release };
        if let Ok(made) = repository(Uuid::NIL, &wanted, &site().repositories, &templates) {
            prop_assert!(made.files.keys().all(|path| path.ends_with("README.md") || path.starts_with("edo/cluster/")));
        }
    }

    #[test]
    fn a_script_is_assembled_or_refused(entry in prop_oneof![like(&json!({"script": "{{files}}", "files": {"a": "x"}})), value()]) {
        let name = "North".parse().unwrap();
        let word = String::from;
        let centre = CentreValues {
            domain: word("d"), realm: word("R"), kdc: word("k"), kadmin: word("a"), krbkeys: word("i"),
            directory: word("http://d"), manager: word("http://m"), authority: String::new(),
        };
        let values = Values { name: &name, uuid: Uuid::NIL, namespace: "n", centre: &centre };
        if let Ok(script) = assemble(&entry, &values, &BTreeMap::new(), [0; 16]) {
            let whole = script.text().ends_with("}\n\nlatchkey_bootstrap \"$@\"\n");
            prop_assert!(whole);
        }
    }

    #[test]
    fn a_manifest_of_a_sealed_secret_is_read_or_refused(text in prop_oneof![near(MANIFEST), any::<String>()]) {
        let place = Place::new("ns", "n", "k").unwrap();
        if let Ok(read) = SealedSecret::read(&place, &text)
            && let Ok(Some(written)) = read.write()
        {
            prop_assert_eq!(SealedSecret::read(&place, &written).unwrap(), read);
        }
    }

    #[test]
    fn a_certificate_is_read_or_refused(text in prop_oneof![near(CERTIFICATE), any::<String>()], now in any::<u64>()) {
        let _ = SealingKey::of(&text, now);
    }

    #[test]
    fn a_link_and_a_token_are_read_or_refused(entry in value(), text in "[A-Za-z0-9_=-]{40,45}") {
        prop_assert!(serde_json::from_value::<Link>(entry).is_err());
        if let Ok(token) = Token::read(&text) {
            let same = *token.text() == text;
            prop_assert!(same);
        }
    }
}

/// Made by openssl; nobody has its key.
const CERTIFICATE: &str = "\
-----BEGIN CERTIFICATE-----\n\
MIIDETCCAfmgAwIBAgIUXpm5svEqqpPAdGo00oLNLYjn+IwwDQYJKoZIhvcNAQEL\n\
BQAwGDEWMBQGA1UEAwwNc2VhbGVkLXNlY3JldDAeFw0yNjExMjUyMjIxMjhaFw0z\n\
NjExMjIyMjIxMjhaMBgxFjAUBgNVBAMMDXNlYWxlZC1zZWNyZXQwggEiMA0GCSqG\n\
SIb3DQEBAQUAA4IBDwAwggEKAoIBAQCnXGjDSz85qZGBcCZ2BDRC/IQ8K+Gq6+Tm\n\
zl3xNS9ahPBY2AlYpNkAtMWh+aZKGwapD3s7Kk3aRDlNdzYaxteCrmLhS6zvaPvS\n\
JPVhJ50SUYcYPccsLOhGJ7XFu8DloQTNlaRC8MhBhiwVT3Eunu41T8ChWa/nlkrP\n\
CAAl5xPy+4t9l0vWEkLj5b7BW/AAEDPvAoiNZjBT2OpYmEnITDOLqubdribaXR01\n\
070DBZ3US5u70+JB09yLSVNChD/4ulpd3+plcbN9OazS3XZVrqw0CdNzgDzljmHL\n\
1zpVeJyuGS2/oq+hJ5xk6rMeadZcI2A4uHsTB07whEGCNFgyH5uNAgMBAAGjUzBR\n\
MB0GA1UdDgQWBBRLaoFBvaPfi4eF+RI/zBqMEh13nDAfBgNVHSMEGDAWgBRLaoFB\n\
vaPfi4eF+RI/zBqMEh13nDAPBgNVHRMBAf8EBTADAQH/MA0GCSqGSIb3DQEBCwUA\n\
A4IBAQAZy+qU4Xz9FH3OmzEEb9Ysxi7js8NzSk5+ENesU7ywA+jKORexeNhzoWt9\n\
S+Vw2xRwgla5voG5nInSsIe87RBQ2Jo9R5qniS4j1GX+7C7Rmn+LuO1qBQX/cfr/\n\
hYL/JU59VFqi0frKLQq4NxqejQdD2ZTDx0aK6jucXzqPR2whSL9dRtBT7VXnLnOF\n\
M6Lfm4oGpg2kysB7odz8COw462Rs5DIkbcydn4Hj1ju0rze096WQqGfdPoigWSBx\n\
o4Ai04cxPhr6oZlFNjidrHG0RA7IoRWWrE52a9PtjWet+ls5IYRXkUQT/P0+8EuC\n\
arCnIZckQuOPnuV1ICjHTUNlCXDE\n\
-----END CERTIFICATE-----\n\
";
