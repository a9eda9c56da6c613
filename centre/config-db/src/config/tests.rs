//! What configuration files say, and are refused for.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::*;

fn file(place: &Value) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let mut config = json!({
        "schema": 1,
        "http": {"listen": ["127.0.0.1:0"], "admin_listen": "127.0.0.1:0", "insecure": true},
        "kerberos": {
            "realm": "R", "service": "HTTP/h", "keytab": "keytab", "replay_cache": "replays", "helper": "/helper",
        },
        "centre": {
            "principal": "sv1configdb@R", "password_file": "password", "insecure": true,
            "services": {"auth": "http://127.0.0.1:1"},
        },
        "access": {},
    });
    for (name, value) in place.as_object().unwrap() {
        config[name] = value.clone();
    }
    let path = folder.path().join("config.json");
    fs::write(&path, config.to_string()).unwrap();
    (folder, path)
}

fn refusal(place: &Value) -> String {
    let (_folder, path) = file(place);
    Config::load(&path).and_then(|config| config.engine().map(drop)).unwrap_err().to_string()
}

#[test]
fn everything_is_kept_at_one_place() {
    let socket = json!({"socket": {"directory": "/run/postgresql", "user": "u", "database": "d"}});
    for (place, mends) in [
        (json!({}), "name one of `data`"),
        (json!({"data": "d", "postgres": socket}), "not both"),
        (json!({"postgres": {"socket": {"directory": "run", "user": "u", "database": "d"}}}), "no absolute path"),
        (json!({"postgres": {"socket": {"directory": "/run", "user": "u"}}}), "database"),
        (json!({"postgres": {"url": "postgres://h"}}), "url"),
    ] {
        let refusal = refusal(&place);
        assert!(refusal.contains(mends), "{place}: {refusal}");
    }
    let (folder, path) = file(&json!({"data": "d"}));
    assert_eq!(Config::load(&path).unwrap().data, Some(folder.path().join("d")));
    let (_folder, path) = file(&json!({"postgres": socket}));
    let config = Config::load(&path).unwrap();
    assert!(config.engine().is_ok());
    assert_eq!(config.postgres.unwrap().to_string(), "the database d of the PostgreSQL at /run/postgresql, port 5432");
}

#[test]
fn a_connection_string_is_private_and_stays_on_this_machine() {
    let (folder, path) = file(&json!({"postgres": {"connection_file": "connection"}}));
    let secret = folder.path().join("connection");
    let said = |text: &str, mode| {
        fs::write(&secret, text).unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(mode)).unwrap();
        Config::load(&path).unwrap().engine().map(drop).map_err(|error| error.to_string())
    };
    for good in
        ["host=127.0.0.1 user=u password=geheim\n", "host=/run/postgresql user=u", "postgres://u:geheim@[::1]/d"]
    {
        assert_eq!(said(good, 0o600), Ok(()), "{good}");
        assert!(said(good, 0o644).is_err(), "everybody can read it");
    }
    for (bad, mends) in [
        ("host=db.example user=u password=geheim", "not encrypted"),
        ("host=127.0.0.1,192.0.2.1 user=u password=geheim", "not encrypted"),
        ("user=u password=geheim", "no host"),
        ("geheim", "no connection string"),
    ] {
        let refusal = said(bad, 0o600).unwrap_err();
        assert!(refusal.contains(mends) && !refusal.contains("geheim"), "{bad}: {refusal}");
    }
}

#[test]
fn the_examples_are_configurations() {
    for name in ["config-db.example.json", "config-db.postgres.example.json"] {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name);
        assert!(Config::load(&path).is_ok(), "{name}");
    }
}
