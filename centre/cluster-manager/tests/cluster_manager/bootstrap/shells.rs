//! What shells make of the script.

use std::fs;
use std::process::Command;

use latchkey_cluster_manager::script::BootstrapCommand;
use latchkey_test_support::{output, skip};
use sha2::{Digest as _, Sha256};

use crate::bootstrap::edge::{Edge, FLUX, LINK};
use crate::bootstrap::written::{script, stored, token};

const SHELLS: [&[&str]; 4] = [&["/bin/sh"], &["/bin/dash"], &["/bin/busybox", "sh"], &["/bin/bash", "--posix"]];

#[test]
fn shells_read_the_script_and_run_it_to_its_end() {
    for shell in SHELLS {
        let Some(edge) = Edge::with_shell(shell) else { continue };
        let file = edge.at("read.sh");
        fs::write(&file, script(&[FLUX, LINK]).text()).unwrap();
        let read = output(Command::new(shell[0]).args(&shell[1..]).arg("-n").arg(&file)).unwrap();
        assert!(
            read.status.success() && read.stderr.is_empty(),
            "{shell:?}: {}",
            String::from_utf8_lossy(&read.stderr)
        );
        let said = edge.joins();
        assert!(said.ends_with("The edge cluster Nord has joined.\n"), "{shell:?}: {said}");
    }
}

/// POSIX has no `local`, and `read -p` is no option of its `read`; no terminal is asked for anything.
#[test]
fn the_script_keeps_to_posix_and_asks_nobody() {
    let text = script(&[FLUX, LINK]).text().to_owned();
    for word in ["local ", "read -p", "/dev/tty", "attach", "[[ ", "function ", "password"] {
        assert!(!text.contains(word), "{word}");
    }
    let entry = crate::bootstrap::written::entry();
    assert!(!entry.to_string().contains("python"));
}

#[test]
fn of_a_download_that_breaks_off_nothing_is_run() {
    let edge = Edge::new();
    let text = script(&[FLUX, LINK]).text().to_owned();
    let begin = text.trim_end().rfind('\n').unwrap();
    // Every byte of the last lines, and of one line in eight before them.
    let lines = text.match_indices('\n').map(|(end, _)| end).collect::<Vec<_>>();
    let sample = lines.windows(2).step_by(8).flat_map(|line| line[0]..line[1]);
    let last = begin.saturating_sub(40)..begin + "\nlatchkey_bootstra".len();
    let mut cuts = 0;
    for end in sample.chain(last) {
        if !text.is_char_boundary(end) {
            continue;
        }
        let _half = edge.run_text(&text[..end]);
        cuts += 1;
        assert_eq!(edge.calls(), [""; 0], "cut at {end}");
        edge.nothing_is_left();
    }
    assert!(cuts > 400, "{cuts}");
}

#[test]
fn names_that_mean_something_elsewhere_stay_words() {
    // Names of clusters are held to letters, digits and underscores; a namespace may look like anything in YAML.
    for namespace in ["123", "true", "null", "1e3", "0x10", "on", "y", "no"] {
        let edge = Edge::new();
        let said = edge.run_text(stored("e1", namespace, &[FLUX, LINK]).for_reader(&token()).text());
        assert!(said.status.success(), "{namespace}: {}", String::from_utf8_lossy(&said.stderr));
        let applied = edge.get("applied").unwrap();
        let quoted = [format!("namespace: \"{namespace}\""), format!("namespace: '{namespace}'")];
        assert!(quoted.iter().any(|text| applied.contains(text)), "{applied}");
        assert!(!applied.contains(&format!("namespace: {namespace}\n")), "{applied}");
        assert!(edge.calls().iter().any(|call| call.contains(&format!("create namespace {namespace}"))));
    }
    for name in ["123", "true", "a'b", "a\nb", "$(reboot)", "`x`", ""] {
        assert!(name.parse::<latchkey_factory_plus::ClusterName>().is_err(), "{name:?}");
    }
}

#[test]
fn the_second_form_checks_the_hash_before_anything_runs() {
    let script = script(&[FLUX, LINK]);
    let command = BootstrapCommand::new("https://clusters.example.org/v1/bootstrap/T", None).unwrap().checked(&script);
    assert!(command.contains(&hex::encode(Sha256::digest(script.text()))));
    // curl's place is taken by a program that leaves what it is told to: first the script, then another.
    for (bytes, joins) in [(script.text().to_owned(), true), (format!("{}\n", script.text()), false)] {
        let edge = Edge::new();
        fs::write(edge.at("served"), bytes).unwrap();
        let curl = "#!/bin/sh\ncp ../served \"$2\"\n";
        fs::write(edge.at("bin/curl"), curl).unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(edge.at("bin/curl"), executable).unwrap();
        if !std::path::Path::new("/usr/bin/sha256sum").exists() {
            skip(format_args!("there is no sha256sum"));
            return;
        }
        std::os::unix::fs::symlink("/usr/bin/sha256sum", edge.at("bin/sha256sum")).unwrap();
        fs::create_dir(edge.at("here")).unwrap();
        let done = edge.run_text(&format!("cd here\n{command}\n"));
        assert_eq!(done.status.success(), joins, "{}", String::from_utf8_lossy(&done.stderr));
        assert_eq!(edge.calls().is_empty(), !joins);
        let mode =
            std::os::unix::fs::PermissionsExt::mode(&fs::metadata(edge.at("here/bootstrap.sh")).unwrap().permissions());
        assert_eq!(mode & 0o077, 0, "the token is in it");
    }
}
