//! The bootstrap script: a shell reads it, and it says what is missing.

#![allow(clippy::unwrap_used, reason = "a rig that fails shall fail there")]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::site::setup;
use latchkey_factory_plus::uuids::application::BOOTSTRAP_SCRIPT;
use latchkey_test_support::{output, skip};

/// The script as it is sent, for a cluster `Nord`.
fn script() -> String {
    let (setup, _) = setup();
    let entry = &setup.config_db.configs[&BOOTSTRAP_SCRIPT][&BOOTSTRAP_SCRIPT];
    let mut files = String::new();
    for (name, content) in entry["files"].as_object().unwrap() {
        let content = content.as_str().map_or_else(|| content.to_string(), str::to_owned);
        write!(files, "cat >{name} <<'MARKER'\n{content}\nMARKER\n").unwrap();
    }
    let script = entry["script"].as_str().unwrap().replace("{{files}}", &files);
    script.replace("{{name}}", "'Nord'").replace("{{namespace}}", "'fplus-edge'")
}

fn run(directory: &Path, shell: &str, arguments: &[&str]) -> Option<Output> {
    fs::write(directory.join("script.sh"), script()).unwrap();
    let mut command = Command::new(shell);
    command.env_clear().env("PATH", directory.join("bin")).env("TMPDIR", directory.join("tmp"));
    let found = output(command.current_dir(directory).args(arguments).arg("script.sh"));
    found.inspect_err(|error| skip(format_args!("{shell} cannot be run: {error}"))).ok()
}

#[test]
fn shells_read_the_script() {
    let directory = tempfile::tempdir().unwrap();
    for shell in ["/bin/sh", "/bin/dash", "/bin/bash"] {
        if let Some(read) = run(directory.path(), shell, &["-n"]) {
            assert!(read.status.success(), "{shell}: {}", String::from_utf8_lossy(&read.stderr));
        }
    }
}

#[test]
fn a_host_without_kubectl_is_told_so_and_nothing_is_left() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["bin", "tmp"] {
        fs::create_dir(directory.path().join(name)).unwrap();
    }
    for program in ["mktemp", "cat", "rm"] {
        std::os::unix::fs::symlink(Path::new("/usr/bin").join(program), directory.path().join("bin").join(program))
            .unwrap();
    }
    let Some(done) = run(directory.path(), "/bin/sh", &[]) else { return };
    assert!(!done.status.success());
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(said.contains("kubectl is missing"), "{said}");
    assert_eq!(fs::read_dir(directory.path().join("tmp")).unwrap().count(), 0);
}

#[test]
fn half_a_script_does_nothing() {
    let whole = script();
    for end in [whole.len() / 4, whole.len() / 2, whole.len() - "join\n".len()] {
        let directory = tempfile::tempdir().unwrap();
        let mut half = Command::new("/bin/sh");
        half.env_clear().env("TMPDIR", directory.path()).arg("-c").arg(&whole[..end]);
        let done = output(&mut half).unwrap();
        assert!(!String::from_utf8_lossy(&done.stderr).contains("kubectl"), "it has begun");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
