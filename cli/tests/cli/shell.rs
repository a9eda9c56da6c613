//! Completions and manual pages, read by the real shells and formatters.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::command::latchkey;
use latchkey_test_support::skip;
use tempfile::TempDir;

/// What a program prints, with text on standard input; `None` and a skip where it is missing. Fails if the program does, or
/// if it complains.
fn run(program: &str, arguments: &[&str], directory: &Path) -> Option<String> {
    let mut command = Command::new(program);
    let command = command.args(arguments).current_dir(directory).env("HOME", directory).stdin(Stdio::null());
    let Ok(output) = latchkey_test_support::output(command) else {
        skip(format!("{program} is missing (apt-get install {program})"));
        return None;
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.is_empty(), "{program} {arguments:?}: {said}");
    Some(String::from_utf8(output.stdout).unwrap())
}

fn script(directory: &Path, shell: &str) {
    let script = latchkey(directory, &["completions", shell]).succeeded().out;
    fs::write(directory.join("script"), script).unwrap();
}

/// What was typed, something that must be offered, something that must not.
const TYPED: [(&str, &str, &str); 6] = [
    ("", "measure", "log"),
    ("mea", "measure", "init"),
    ("measure ", "log", "build"),
    ("measure log --p", "--pcr", "--cluster"),
    ("init --c", "--cluster", "--pcr"),
    ("--output json status --cl", "--cluster", "--name"),
];

#[test]
fn bash_completes_commands_and_their_flags() {
    let directory = TempDir::new().unwrap();
    script(directory.path(), "bash");
    for (typed, offered, not) in TYPED {
        let program = format!(
            "source ./script; typed='latchkey {typed}'; read -ra COMP_WORDS <<<\"$typed\"; \
             [[ $typed == *' ' ]] && COMP_WORDS+=(''); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _latchkey; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        let Some(out) = run("bash", &["-c", &program], directory.path()) else { return };
        let lines: Vec<&str> = out.lines().collect();
        assert!(lines.contains(&offered) && !lines.contains(&not), "{typed}: {out}");
    }
}

#[test]
fn fish_completes_commands_and_their_flags() {
    let directory = TempDir::new().unwrap();
    script(directory.path(), "fish");
    for (typed, offered, not) in TYPED {
        let program = format!("source ./script; complete -C 'latchkey {typed}'");
        let Some(out) = run("fish", &["--no-config", "-c", &program], directory.path()) else { return };
        let lines: Vec<&str> = out.lines().map(|line| line.split('\t').next().unwrap()).collect();
        assert!(lines.contains(&offered) && !lines.contains(&not), "{typed}: {out}");
    }
}

/// zsh completes on a terminal only: its own functions are replaced by ones that print what they are asked to offer.
#[test]
fn zsh_is_told_the_commands_and_their_flags() {
    let directory = TempDir::new().unwrap();
    script(directory.path(), "zsh");
    for (typed, offered, not) in [
        ("''", "measure", "log"),
        ("measure ''", "log", "build"),
        ("measure log --p", "--pcr[", "--cluster["),
        ("init --c", "--cluster[", "--pcr["),
    ] {
        let program = format!(
            "compdef() {{ }}; compadd() {{ print -l -- $@ }}; _arguments() {{ print -l -- $@ }}; source ./script; \
             words=(latchkey {typed}); CURRENT=$#words; _latchkey"
        );
        let Some(out) = run("zsh", &["-f", "-c", &program], directory.path()) else { return };
        let has = |what: &str| out.lines().any(|line| line == what || what.ends_with('[') && line.contains(what));
        assert!(has(offered) && !has(not), "{typed}: {out}");
    }
}

#[test]
fn a_shell_that_is_not_known_is_refused() {
    let directory = TempDir::new().unwrap();
    let said = latchkey(directory.path(), &["completions", "tcsh"]).failed(2).err;
    assert!(said.contains("bash, zsh, fish"), "{said}");
}

#[test]
fn every_command_has_a_manual_page_that_groff_and_mandoc_set_without_a_complaint() {
    let directory = TempDir::new().unwrap();
    latchkey(directory.path(), &["manual", "--man-dir", "man1"]).succeeded();
    let help = latchkey(directory.path(), &["--help"]).succeeded().out;
    let listed = help.lines().skip_while(|line| !line.starts_with("Usage")).skip(2).take_while(|line| !line.is_empty());
    let mut pages = vec![("latchkey.1".to_owned(), "EXIT STATUS".to_owned())];
    for line in listed {
        let (name, summary) = line.trim().split_once("  ").unwrap();
        pages.push((format!("latchkey-{}.1", name.replace(' ', "-")), summary.trim().to_owned()));
    }
    assert_eq!(fs::read_dir(directory.path().join("man1")).unwrap().count(), pages.len());
    for (page, summary) in pages {
        let page = format!("man1/{page}");
        if let Some(text) = run("groff", &["-man", "-ww", "-Tutf8", "-P-cbou", "-rLL=200n", &page], directory.path()) {
            assert!(text.contains(&summary), "{page}: {text}");
        }
        run("mandoc", &["-T", "lint", "-W", "error", &page], directory.path());
    }
    let page = latchkey(directory.path(), &["manual", "measure", "log"]).succeeded().out;
    assert_eq!(page, fs::read_to_string(directory.path().join("man1/latchkey-measure-log.1")).unwrap());
    latchkey(directory.path(), &["manual", "measure", "nothing"]).failed(2);
}
