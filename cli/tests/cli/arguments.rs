//! Arguments, files of secrets, and help.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use crate::support;

use std::os::unix::fs::PermissionsExt;

use crate::support::command::{latchkey, latchkey_fed};
use crate::support::operator::Operator;
use tempfile::TempDir;

#[test]
fn wrong_arguments_are_refused_with_the_reason_and_exit_code_2() {
    let directory = TempDir::new().unwrap();
    for (arguments, reason) in [
        (&["frobnicate"][..], "there is no command `frobnicate`"),
        (&["policy"], "`policy` needs another word: policy new, policy check"),
        (&["policy", "--quiet"], "`policy` needs another word"),
        (&["image", "biuld"], "there is no command `image biuld`"),
        (&["image", "biuld"], "do you mean `latchkey image build`?"),
        (&["imge", "build"], "do you mean `latchkey image build`?"),
        (&["statsu"], "do you mean `latchkey status`?"),
        (&["measure", "everything"], "there is no command `measure everything`"),
        (&["image", "build", "x.json"], "--out DIR is missing: where the files go: NAME_VERSION.raw (the disk), "),
        (&["policy", "check", "--policy", "nope"], "cannot read nope"),
        (&["policy", "check"], "--policy is missing"),
        (&["init"], "NODE[:PORT] is missing"),
        (&["init", "node"], "--cluster DIR is missing"),
        (&["status", "--cluster"], "missing argument"),
        (&["status", "--cluster", "a", "--cluster", "b"], "--cluster may be given once"),
        (&["status", "--cluster", "a", "extra"], "unexpected argument"),
        (&["status", "--clusters", "a"], "there is no flag --clusters here\nfix: do you mean --cluster?"),
        (&["status", "--ouptut", "json"], "do you mean --output?"),
        (&["status", "--zzz"], "fix: see `latchkey status --help`"),
        (&["--output", "xml", "status"], "--output is `human` or `json`"),
        (&["--output"], "--output is `human` or `json`"),
        (&["--quiet"], "Usage: latchkey COMMAND"),
        (&["measure", "image", "-"], "standard input will not do here: an image is read at several places"),
        (&["reference", "sign", "-", "--key", "k"], "standard input will not do here"),
        (&["verify", "--evidence", "-", "--policy", "-", "--reference", "r"], "policy-malformed"),
        (&["status", "--cluster", "a", "--output", "xml"], "--output is `human` or `json`"),
        (&["init-secret", "--out"], "missing argument"),
        (&["policy", "new", "--out", "p", "--manifest", "m"], "no TPM would be trusted"),
        (&["policy", "new", "--out", "p", "--manifest", "M", "--ek-pin", "00"], "is no name"),
        (&["policy", "new", "--out", "p", "--manifest", "m", "--ek-pin", "00"], "64 hexadecimal digits"),
        (&["policy", "new", "--out", "p", "--manifest", "m", "--ek-root", "absent.pem"], "cannot read absent.pem"),
        (&["verify", "--policy", "p", "--reference", "r"], "cannot read p"),
        (&["help", "frobnicate"], "there is no command `frobnicate`"),
        (
            &["secret", "disk-key", "--cluster", "c", "--master-secret", "m", "--disk", "no"],
            "fix: see `latchkey secret disk-key --help`",
        ),
        (
            &["node", "list", "--kubeconfig", "absent"],
            "there is no kubeconfig absent\nfix: name the administrator's kubeconfig",
        ),
    ] {
        let ran = latchkey(directory.path(), arguments).failed(2);
        assert!(ran.err.contains(reason), "{arguments:?}: {}", ran.err);
        let said = ran.err.starts_with("error: ") && ran.err.contains("\nfix: ");
        assert!(said || arguments == ["--quiet"], "{arguments:?}: {}", ran.err);
        assert_eq!(ran.out, "", "{arguments:?}");
        assert!(!ran.err.contains('\u{fffd}'), "{}", ran.err);
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is made before all is right");
}

#[test]
fn a_missing_directory_and_a_missing_cluster_are_no_wrong_usage() {
    let directory = TempDir::new().unwrap();
    std::fs::create_dir(directory.path().join("empty")).unwrap();
    for (cluster, code) in [("missing", "directory-missing"), ("empty", "cluster-missing")] {
        for command in [&["status"][..], &["recover", "node", "--master-secret", "m"]] {
            let arguments = [command, &["--cluster", cluster, "--output", "json"]].concat();
            let error = latchkey(directory.path(), &arguments).failed(6).json()["error"].clone();
            assert_eq!(error["code"], code, "{error}");
            assert!(error["fix"].as_str().is_some_and(|fix| !fix.is_empty()), "{error}");
        }
    }
}

#[test]
fn programs_get_errors_as_documents_wherever_they_ask_for_them() {
    let directory = TempDir::new().unwrap();
    for arguments in [
        &["init", "--output", "json"][..],
        &["--output", "json", "init"],
        &["--output=json", "--quiet", "init"],
        &["--output", "json"],
        &["--output", "json", "statsu"],
    ] {
        let ran = latchkey(directory.path(), arguments).failed(2);
        let document = ran.json();
        assert_eq!((&document["schema"], &document["error"]["exit_code"]), (&1.into(), &2.into()), "{document}");
        assert!(document["error"]["fix"].is_string(), "{document}");
        assert_eq!(ran.err, "");
    }
    let made = latchkey(directory.path(), &["--output", "json", "secret", "new", "m.json"]).succeeded().json();
    assert_eq!((&made["schema"], &made["file"]), (&1.into(), &"m.json".into()));
}

#[test]
fn a_dash_is_standard_input_where_a_file_is_read_and_is_read_once() {
    let (operator, node) = Operator::with_node();
    let read = |name: &str| std::fs::read(operator.path(name)).unwrap();
    let feed = |arguments: &[&str], input: &[u8]| latchkey_fed(operator.directory(), arguments, input);
    let files = ["policy", "check", "--policy", "policy.json", "--reference", "demo.json"];
    let wanted = latchkey(operator.directory(), &files).succeeded().out;
    let shown = feed(&["policy", "check", "--policy", "-", "--reference", "demo.json"], &read("policy.json"));
    assert_eq!(shown.succeeded().out, wanted);
    let shown = feed(&["policy", "check", "--policy", "policy.json", "--reference", "-"], &read("demo.json"));
    assert_eq!(shown.succeeded().out, wanted);
    let log = concat!(env!("CARGO_MANIFEST_DIR"), "/../measurements/tests/fixtures/override.bin");
    let shown = feed(&["measure", "log", "-"], &std::fs::read(log).unwrap()).succeeded().out;
    assert_eq!(shown, latchkey(operator.directory(), &["measure", "log", log]).succeeded().out);

    let twice = feed(&["policy", "check", "--policy", "-", "--reference", "-"], &read("policy.json")).failed(2);
    assert!(twice.err.contains("`-` stands twice"), "{}", twice.err);

    operator.init(&node, &[]).succeeded();
    node.restart(support::node::Stage::Existing);
    let recover = ["recover", &node.address(), "--cluster", "plant", "--master-secret", "-"];
    feed(&recover, &read("master.json")).succeeded();
}

#[test]
fn every_command_and_every_flag_is_in_the_help() {
    let directory = TempDir::new().unwrap();
    let overview = latchkey(directory.path(), &["--help"]).succeeded().out;
    let bare = latchkey(directory.path(), &[]).failed(2);
    assert_eq!((bare.out.as_str(), &bare.err), ("", &overview), "whoever asked for nothing did not ask for help");
    for command in
        ["secret new", "init-secret", "record", "policy new", "policy check", "init", "status", "verify", "recover"]
    {
        assert!(overview.contains(command), "{command}");
        let words: Vec<&str> = command.split(' ').collect();
        let help = latchkey(directory.path(), &[&words[..], &["--help"]].concat()).succeeded().out;
        assert!(help.starts_with(&format!("latchkey {command}: ")), "{help}");
        assert_eq!(latchkey(directory.path(), &[&["help"], &words[..]].concat()).succeeded().out, help);
        assert!(help.lines().all(|line| line.chars().count() <= 120), "{help}");
    }
    for asked in ["--version", "-V", "-v", "version"] {
        assert!(latchkey(directory.path(), &[asked]).succeeded().out.starts_with("latchkey 0."), "{asked}");
    }
}

#[test]
fn a_file_of_another_kind_is_said_to_be_that() {
    let (operator, _node) = Operator::with_node();
    let said = |arguments: &[&str]| {
        let ran = operator.run(&[arguments, &["--output", "json"]].concat()).failed(2).json();
        assert_eq!(ran["error"]["code"], "file-of-another-kind", "{ran}");
        format!("{} {}", ran["error"]["message"].as_str().unwrap(), ran["error"]["fix"].as_str().unwrap())
    };
    let manifest = said(&["policy", "check", "--policy", "demo.json", "--reference", "demo.json"]);
    assert!(manifest.starts_with("demo.json is a reference manifest, and a policy is needed"), "{manifest}");
    assert!(manifest.contains("latchkey policy new"), "{manifest}");
    let policy = said(&["policy", "check", "--policy", "policy.json", "--reference", "policy.json"]);
    assert!(policy.starts_with("policy.json is a policy, and a reference manifest is needed"), "{policy}");
    // Others may read a policy, and shall: that is not what is wrong with it here.
    let secret = said(&["secret", "rotate", "policy.json"]);
    assert!(secret.starts_with("policy.json is a policy, and a master secret is needed"), "{secret}");
    assert!(secret.contains("latchkey secret new") && !secret.contains("chmod"), "{secret}");
}

#[test]
fn a_word_that_several_commands_begin_with_has_a_help_too() {
    let directory = TempDir::new().unwrap();
    for (word, commands) in [
        ("image", &["image build"][..]),
        ("measure", &["measure image", "measure log"]),
        ("policy", &["policy new", "policy check"]),
        ("secret", &["secret new"]),
        ("reference", &["reference sign", "reference install"]),
    ] {
        let help = latchkey(directory.path(), &[word, "--help"]).succeeded().out;
        assert!(help.starts_with(&format!("Usage: latchkey {word} COMMAND")), "{help}");
        for command in commands {
            assert!(help.contains(command), "{help}");
        }
        assert!(!help.contains("recover"), "{help}");
        for other in [&[word, "-h"][..], &["help", word]] {
            assert_eq!(latchkey(directory.path(), other).succeeded().out, help);
        }
    }
    latchkey(directory.path(), &["frobnicate", "--help"]).failed(2);
}

#[test]
fn output_that_goes_to_no_terminal_has_no_escape_sequences() {
    let (operator, node) = Operator::with_node();
    let ran = operator.init(&node, &[]).succeeded();
    assert!(!ran.err.contains('\x1b') && !ran.out.contains('\x1b'), "{}", ran.err);
}

#[test]
fn secrets_go_to_private_files_and_nowhere_else() {
    let operator = Operator::new();
    for file in ["master.json", "init.secret"] {
        let mode = std::fs::metadata(operator.path(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    let ran = operator.run(&["init-secret", "--out", "another.secret", "--output", "json"]).succeeded();
    let secret = std::fs::read_to_string(operator.path("another.secret")).unwrap();
    let hash = ran.json()["hash"].as_str().unwrap().to_owned();
    assert!(bcrypt::verify(secret.trim_end(), &hash).unwrap());
    assert!(!format!("{}{}", ran.out, ran.err).contains(secret.trim_end()));
}

#[test]
fn existing_files_are_never_overwritten() {
    let operator = Operator::new();
    let before = std::fs::read(operator.path("master.json")).unwrap();
    operator.run(&["secret", "new", "master.json"]).failed(2);
    operator.run(&["init-secret", "--out", "master.json"]).failed(2);
    assert_eq!(std::fs::read(operator.path("master.json")).unwrap(), before);
}

#[test]
fn a_secret_that_others_can_read_is_refused_and_how_to_mend_it_is_said() {
    let (operator, node) = Operator::with_node();
    for file in ["master.json", "init.secret"] {
        std::fs::set_permissions(operator.path(file), std::fs::Permissions::from_mode(0o644)).unwrap();
        let ran = operator.init(&node, &[]).failed(2);
        assert!(ran.err.contains("chmod it to 0600"), "{}", ran.err);
        std::fs::set_permissions(operator.path(file), std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    assert_eq!(node.state().inits, 0);
}

#[test]
fn credentials_have_a_place_before_the_node_is_touched() {
    let (operator, node) = Operator::with_node();
    std::fs::write(operator.path("taken.conf"), "precious").unwrap();
    operator.init(&node, &["--admin-config", "taken.conf"]).failed(2);
    operator.init(&node, &["--admin-config", "no/such/directory.conf"]).failed(6);
    assert_eq!(node.state().inits, 0);
    assert_eq!(std::fs::read(operator.path("taken.conf")).unwrap(), b"precious");
}
