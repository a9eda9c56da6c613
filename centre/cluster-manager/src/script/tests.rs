use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use super::*;

fn centre() -> CentreValues {
    CentreValues {
        domain: "example.org".into(),
        realm: "EXAMPLE.ORG".into(),
        kdc: "kdc.example.org".into(),
        kadmin: "kadmin.example.org:749".into(),
        krbkeys: "registry.example.org/krbkeys:1.0@sha256:00".into(),
        directory: "https://directory.example.org".into(),
        manager: "https://clusters.example.org".into(),
        authority: "-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n".into(),
    }
}

fn values<'a>(name: &'a latchkey_factory_plus::ClusterName, centre: &'a CentreValues) -> Values<'a> {
    let uuid = latchkey_factory_plus::Uuid::from_random([1; 16]);
    Values { name, uuid, namespace: "fplus-edge", centre }
}

fn assembled(entry: &Value, added: &[(&str, &str)]) -> Result<Script, ScriptError> {
    let name = "Building_1".parse().unwrap();
    let added = added.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect();
    assemble(entry, &values(&name, &centre()), &added, [7; 16])
}

/// What a shell makes of a script in an empty directory: its files, by name.
fn run(text: &str) -> (bool, BTreeMap<String, String>) {
    let directory = tempfile::tempdir().unwrap();
    let script = tempfile::NamedTempFile::new().unwrap();
    fs::write(script.path(), text).unwrap();
    let mut command = Command::new("sh");
    let output = latchkey_test_support::output(command.arg(script.path()).current_dir(directory.path())).unwrap();
    let files = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap());
    let files = files.map(|file| (file.file_name().into_string().unwrap(), fs::read_to_string(file.path()).unwrap()));
    (output.status.success(), files.collect())
}

const NASTY: &str = "$(touch hacked) `touch hacked` \\ ' \" $HOME\nEND_\nEOF\n\n\ttab é";

#[test]
fn a_shell_unpacks_exactly_the_files() {
    let entry = json!({
        "script": "set -e\n{{files}}\n. ./driver.sh {{namespace}}\n",
        "files": {
            "driver.sh": "printf '%s\\n' {{name}} {{namespace}} >said\n",
            "krb5.conf": "default_realm = {{realm}}\n",
            "pod.yaml": [{"kind": "ConfigMap", "data": {"on": "123", "name": "{{name}}"}}, {"kind": "Pod"}],
        },
    });
    let script = assembled(&entry, &[("self-link.yaml", NASTY)]).unwrap();
    let (ended_well, files) = run(script.text());
    assert!(ended_well, "{}", script.text());
    let names: Vec<_> = files.keys().map(String::as_str).collect();
    assert_eq!(names, ["driver.sh", "krb5.conf", "pod.yaml", "said", "self-link.yaml"]);
    assert_eq!(files["self-link.yaml"], format!("{NASTY}\n"));
    assert_eq!(files["said"], "Building_1\nfplus-edge\n");
    assert_eq!(files["krb5.conf"], "default_realm = EXAMPLE.ORG\n");
    assert_eq!(files["pod.yaml"].matches("---\n").count(), 2);
    assert!(files["pod.yaml"].contains("\"123\""));
    assert_eq!(script, assembled(&entry, &[("self-link.yaml", NASTY)]).unwrap(), "equal inputs give equal bytes");
}

#[test]
fn of_a_download_that_breaks_off_nothing_is_run() {
    let entry = json!({"script": "touch ran\n{{files}}\ntouch ran\n", "files": {"a.yaml": {"touch": "ran"}}});
    let script = assembled(&entry, &[]).unwrap();
    let text = script.text();
    assert_eq!(run(text).1.len(), 2, "the whole script runs");
    let last = text.trim_end().rfind('\n').unwrap();
    for end in 0..=last + "latchkey_bootstrap".len() {
        assert_eq!(run(&text[..end]).1, BTreeMap::new(), "{}", &text[..end]);
    }
}

#[test]
fn no_file_ends_early_whatever_is_in_it() {
    let entry = json!({"script": "{{files}}", "files": {}});
    let first = assembled(&entry, &[("a", "x")]).unwrap();
    let mark = first.text().lines().find_map(|line| line.strip_prefix("cat >'a' <<'")).unwrap();
    let mark = mark.trim_end_matches('\'').to_owned();
    let hostile = format!("x\n{mark}\ntouch hacked\n");
    let (ended_well, files) = run(assembled(&entry, &[("a", &hostile)]).unwrap().text());
    assert!(ended_well);
    assert_eq!(files, BTreeMap::from([("a".into(), hostile)]));
}

#[test]
fn an_entry_that_makes_no_script_is_told_why() {
    let told = |entry: Value, added: &[(&str, &str)]| assembled(&entry, added).unwrap_err().to_string();
    for script in ["", "x", "{{files}}\n{{files}}\n", "echo {{files}}\n", "{{files}} x\n"] {
        assert!(told(json!({"script": script, "files": {}}), &[]).contains("one line that is {{files}}"), "{script:?}");
    }
    assert!(told(json!({"files": {}}), &[]).contains("missing field `script`"));
    assert!(told(json!({"script": "{{files}}", "files": {}, "x": 1}), &[]).contains("unknown field `x`"));
    let with = |name: &str, file: Value| json!({"script": "{{files}}", "files": {name: file}});
    for name in ["../a", "a/b", "", ".a", "-a", "a b", "a'b", "é", &"a".repeat(65)] {
        assert!(told(with(name, json!("x")), &[]).contains("is no file name"), "{name:?}");
    }
    assert!(told(with("a", json!("x")), &[("a", "y")]).contains("adds itself"));
    assert!(told(with("a", json!("x\0")), &[]).contains("zero byte"));
    assert!(told(with("a", json!([])), &[]).contains("neither a text, a manifest nor manifests"));
    assert!(told(with("a", json!([1])), &[]).contains("neither a text, a manifest nor manifests"));
    // Also what `kubectl -o go-template` would take for its own.
    assert!(told(with("a.sh", json!("{{range .items}}{{end}}")), &[]).contains("{{end}} has no value here"));
    let name = "A".parse().unwrap();
    let centre = centre();
    let bad = Values { namespace: "x;reboot", ..values(&name, &centre) };
    let error = assemble(&json!({"script": "{{files}}", "files": {}}), &bad, &BTreeMap::new(), [0; 16]).unwrap_err();
    assert!(error.to_string().contains("the value of namespace, \"x;reboot\""));
    let large = "x".repeat(MAX_SCRIPT);
    assert!(told(json!({"script": "{{files}}", "files": {}}), &[("a", &large)]).contains("more than"));
}

#[test]
fn the_command_names_the_link_and_the_hash() {
    let script = Script::new("true\n".into());
    let url = "https://clusters.example.org/v1/bootstrap/AbC-_0";
    let command = BootstrapCommand::new(url, None).unwrap();
    assert_eq!(command.text(), format!("curl -fsS {url} | sh -"));
    // SHA-256 of these five bytes, by sha256sum.
    assert_eq!(script.sha256(), "a17fcf0a2f50e2d495e4f90ce263410edc183add6c62699a2facbccf60410f74");
    let read = script.for_reader(&Token::from_random([1; 32]));
    assert_eq!(read.sha256(), script.sha256(), "no token, no difference");
    assert!(command.checked(&read).contains(script.sha256()));
    for bad in ["", "https://x/$(reboot)", "https://x/ y", "https://x/?a=1&b=2", "https://x/'", "-o/etc/passwd"] {
        assert!(BootstrapCommand::new(bad, None).is_none());
    }
}

#[test]
fn the_token_is_in_what_its_holder_reads_and_not_in_what_is_kept() {
    let entry = json!({
        "script": "{{files}}\nprintf %s {{token}} >said\n",
        "files": {"secret.yaml": {"kind": "Secret", "stringData": {"token": "{{token}}"}}},
    });
    let script = assembled(&entry, &[]).unwrap();
    // It begins with a hyphen, and ends with one.
    let token =
        Token::read(&format!("-{}-", "1".repeat(41))).or_else(|_| Token::read(&format!("-{}w", "1".repeat(41))));
    let token = token.unwrap();
    assert!(!script.text().contains(token.text().as_str()));
    let read = script.for_reader(&token);
    let (ended_well, files) = run(read.text());
    assert!(ended_well);
    assert_eq!(files["said"], *token.text());
    let secret: Value = serde_saphyr::from_str(&files["secret.yaml"]).unwrap();
    assert_eq!(secret["stringData"]["token"], *token.text());
    assert_eq!(read.sha256(), hex::encode(Sha256::digest(read.text())));
    assert!(!format!("{read:?}").contains(token.text().as_str()));

    let told = |entry: Value, added: &[(&str, &str)]| assembled(&entry, added).unwrap_err().to_string();
    let plain = json!({"script": "{{files}}", "files": {}});
    assert!(told(plain, &[("a.yaml", "x: '@token@'")]).contains("marks the place of the token"));
    assert!(told(json!({"script": "echo @token@\n{{files}}", "files": {}}), &[]).contains("marks the place"));
}

#[test]
fn a_quoted_text_is_one_word_of_a_shell() {
    for text in [NASTY, "", "'", "''", "a'b", "\\'", "*", "-n", "\n"] {
        let (ended_well, files) = run(&format!("printf %s {} >said\n", quoted(text)));
        assert!(ended_well);
        assert_eq!(files["said"], text);
    }
}

#[test]
fn a_command_carries_the_certificates_of_a_file_and_nothing_else_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("authorities.pem");
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(["a".to_owned()]).unwrap().self_signed(&key).unwrap();
    let pem = certificate.pem().replace("\r\n", "\n");
    fs::write(&path, format!("# $(reboot)\n{}{pem}{}\n", key.serialize_pem(), Authorities::MARK)).unwrap();
    let authorities = Authorities::read(&path).unwrap();
    assert_eq!(authorities.pem(), pem);
    let url = "https://clusters.example.org/v1/bootstrap/AbC-_0";
    let command = BootstrapCommand::new(url, Some(&authorities)).unwrap();
    let first = format!("curl -fsS --cacert /dev/stdin {url} <<'END_OF_AUTHORITIES' | sh -");
    assert_eq!(command.text(), format!("{first}\n{pem}END_OF_AUTHORITIES"));
    let checked = command.checked(&Script::new("true\n".into()).for_reader(&Token::from_random([1; 32])));
    let first = format!("(umask 077 && curl -fsSo bootstrap.sh --cacert /dev/stdin {url}) <<'END_OF_AUTHORITIES' && ");
    assert!(checked.starts_with(&first), "{checked}");
    assert!(checked.ends_with(&format!("sh bootstrap.sh\n{pem}END_OF_AUTHORITIES")), "{checked}");

    fs::write(&path, "nothing").unwrap();
    assert!(Authorities::read(&path).unwrap_err().to_string().contains("no certificate"));
    fs::write(&path, pem.repeat(20)).unwrap();
    assert!(Authorities::read(&path).unwrap_err().to_string().contains("bytes of PEM"));
}
