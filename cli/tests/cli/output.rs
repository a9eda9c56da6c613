//! What cannot be printed: every command says so, and with its exit code.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::PipeWriter;

use crate::support::command::{Ran, latchkey, latchkey_to};
use crate::support::node::{FakeNode, Stage};
use crate::support::operator::Operator;
use latchkey_measurements::pe_sample::{kernel, unified};

const LOG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../measurements/tests/fixtures/override.bin");

/// What a command needs to come as far as its result.
struct Bench {
    operator: Operator,
    /// The first of the cluster `plant`.
    node: FakeNode,
    /// In no cluster yet.
    fresh: FakeNode,
}

impl Bench {
    /// A cluster, its first node, a signed manifest, evidence, and the parts of an image.
    fn new() -> Self {
        let (operator, node) = Operator::with_node();
        operator.run(&["reference", "new-key", "--out", "release.key"]).succeeded();
        operator.run(&["reference", "sign", "demo.json", "--key", "release.key"]).succeeded();
        node.set_pcr(11, [0x1b; 32]);
        operator.record_version(&node, "1.1.0", "newer.json");
        node.set_pcr(11, [11; 32]);
        operator.verify(&node, &["--save-evidence", "evidence.json"]).succeeded();
        operator.init(&node, &[]).succeeded();
        let kernel = kernel();
        let sections: [(&str, &[u8]); 4] =
            [(".osrel", b"ID=test\n"), (".cmdline", b"quiet"), (".initrd", b"initrd"), (".linux", &kernel)];
        fs::write(operator.path("image.efi"), unified("systemd-stub 252.39", &sections)).unwrap();
        fs::create_dir(operator.path("backup")).unwrap();
        fs::create_dir_all(operator.path("amd/snp")).unwrap();
        let list = r#"{"schema":1,"made":"2026-11-22T18:00:00Z","cluster":"c","kubernetes":"1.34.4","resource_version":"1","definitions":[]}"#;
        fs::write(operator.path("backup/backup.json"), list).unwrap();
        let fresh = FakeNode::start(&operator.init_secret());
        let (address, ek) = (fresh.address(), fresh.ek().to_string());
        let record = ["record", &address, "--ek-pin", &ek, "--name", "demo", "--version", "1.0.0"];
        operator.run(&[&record[..], &["--out", "f.json", "--policy-out", "fp.json"]].concat()).succeeded();
        Self { operator, node, fresh }
    }

    /// What must stand behind each command for it to succeed; what it makes has this number in its name. Makes the node
    /// what the command expects.
    fn arguments(&self, command: &str, number: usize) -> Vec<String> {
        let (node, fresh, ek) = (self.node.address(), self.fresh.address(), self.node.ek().to_string());
        let (other, disk) = (self.fresh.ek().to_string(), self.node.state().disk.to_string());
        let out = format!("out-{number}");
        let serial = (self.operator.serial("demo.json") + 1 + number as u64).to_string();
        let change;
        let trust = ["--policy", "policy.json", "--reference", "demo.json"];
        let more: Vec<&str> = match command {
            "secret new" => vec![&out],
            "secret rotate" => vec!["master.json"],
            "init-secret" | "reference new-key" => vec!["--out", &out],
            "record" => vec![&node, "--ek-pin", &ek, "--name", "demo", "--version", "2.0.0", "--out", &out],
            "policy new" => vec!["--out", &out, "--manifest", "demo", "--unsigned", "--ek-pin", &ek],
            "policy check" => trust.to_vec(),
            "reference sign" => vec!["newer.json", "--key", "release.key"],
            "reference check" => vec!["demo.json", "--signer", "release.pub"],
            "reference add" => vec!["demo.json", "newer.json", "--out", &out, "--serial", &serial],
            "reference revoke" => vec!["demo.json", "demo", "1.0.0", "--why", "a hole", "--out", &out],
            "reference install" => vec!["demo.json", "--cluster", "plant"],
            "init" => vec![
                &fresh,
                "--cluster",
                &out,
                "--name",
                "plant",
                "--master-secret",
                "master.json",
                "--init-secret",
                "init.secret",
                "--policy",
                "fp.json",
                "--reference",
                "f.json",
            ],
            "status" | "node list" => vec!["--cluster", "plant"],
            "verify" => [&[&*node][..], &trust].concat(),
            "recover" => vec![&node, "--cluster", "plant", "--master-secret", "master.json"],
            "measure image" => vec!["image.efi"],
            "measure log" => vec![LOG],
            "completions" => vec!["fish"],
            "manual" | "kubernetes versions" => vec![],
            "node show" => vec![&ek, "--cluster", "plant"],
            "node admit" | "node deny" => vec![&other, "--cluster", "plant"],
            "node allow" | "node remove" => {
                // It was denied last, whether or not that could be printed.
                let before = if command == "node allow" { &["deny"][..] } else { &["allow", "admit"] };
                for word in before {
                    self.operator.run(&["node", word, &other, "--cluster", "plant"]).succeeded();
                }
                vec![&other, "--cluster", "plant"]
            }
            "policy accept-firmware" => {
                // The manifest says nothing of PCR 1, and the machine is seen with another value than before.
                self.node.restart(Stage::Existing);
                self.node.set_pcr(1, [u8::try_from(number + 1).unwrap(); 32]);
                self.operator.recover(&self.node, "master.json", &[]).succeeded();
                change = self.operator.firmware_change();
                vec!["edge-1", "--cluster", "plant", "--change", &change]
            }
            "secret disk-key" => {
                let key = ["--cluster", "plant", "--master-secret", "master.json", "--without-its-machine", "--disk"];
                [&key[..], &[&disk]].concat()
            }
            "backup list" => vec!["--backups", "."],
            "backup check" => vec!["backup"],
            "collateral show" => vec!["amd"],
            // These are tried where the parts of an image are, components, files and reports of AMD's, a TPM,
            // a cluster, its API server, and a centre.
            "image build"
            | "image units"
            | "image container"
            | "kubernetes fetch"
            | "tpm ek"
            | "reference add-firmware"
            | "reference remove-firmware"
            | "upgrade store"
            | "collateral check"
            | "collateral fetch"
            | "policy floor"
            | "charts install"
            | "charts list"
            | "charts check"
            | "upgrade execute"
            | "upgrade resume"
            | "upgrade check"
            | "policy install"
            | "collateral install"
            | "backup create"
            | "backup restore"
            | "credentials admin"
            | "credentials join-service" => vec!["--help"],
            other if other.starts_with("centre ") || other.starts_with("cluster ") => vec!["--help"],
            other => panic!("`{other}` is not tried here: say what it needs"),
        };
        self.node.restart(match command {
            "recover" => Stage::Existing,
            _ => Stage::Fresh,
        });
        command.split(' ').chain(more).map(str::to_owned).collect()
    }

    fn run(&self, arguments: &[String], to: impl Into<std::process::Stdio>) -> Ran {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        latchkey_to(self.operator.directory(), &arguments, to)
    }
}

/// The commands that `latchkey --help` lists.
fn commands(bench: &Bench) -> BTreeSet<String> {
    let help = latchkey(bench.operator.directory(), &["--help"]).succeeded().out;
    let listed = help.lines().skip_while(|line| !line.starts_with("Usage")).skip(2);
    let names = listed.take_while(|line| !line.is_empty()).map(|line| line.trim().split("  ").next().unwrap());
    names.map(str::to_owned).collect()
}

fn full() -> fs::File {
    OpenOptions::new().write(true).open("/dev/full").unwrap()
}

fn nobody_reads() -> PipeWriter {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer
}

#[test]
fn no_command_ends_well_when_its_result_cannot_be_written() {
    let bench = Bench::new();
    let names = commands(&bench);
    assert!(names.len() >= 18, "{names:?}");
    for (number, name) in names.iter().enumerate() {
        let arguments = bench.arguments(name, number);
        let ran = bench.run(&arguments, full()).failed(1);
        for text in ["error: the result cannot be written to standard output", "No space left on device", "fix: "] {
            assert!(ran.err.contains(text), "{name}: {}", ran.err);
        }
    }
}

#[test]
fn no_help_ends_well_when_it_cannot_be_written() {
    let bench = Bench::new();
    let help = commands(&bench).into_iter().map(|name| format!("{name} --help"));
    let more = ["--help", "--version", "help", "help init", "measure --help"].map(str::to_owned);
    for line in more.into_iter().chain(help) {
        let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let ran = bench.run(&arguments, full()).failed(1);
        assert!(ran.err.contains("cannot be written to standard output"), "{line}: {}", ran.err);
        let ran = bench.run(&arguments, nobody_reads()).failed(141);
        assert_eq!(ran.err, "", "{line}");
    }
}

#[test]
fn a_reader_that_went_away_ends_a_command_quietly_and_is_told_by_the_exit_code() {
    let bench = Bench::new();
    for (number, name) in commands(&bench).iter().enumerate() {
        let mut arguments = bench.arguments(name, number);
        arguments.push("--quiet".to_owned());
        let ran = bench.run(&arguments, nobody_reads()).failed(141);
        assert_eq!(ran.err, "", "{name}");
    }
}

#[test]
fn an_error_that_has_no_room_on_standard_output_is_said_on_standard_error() {
    let bench = Bench::new();
    let arguments = ["status", "--cluster", "plant", "--cluster", "b", "--output", "json"].map(str::to_owned);
    let ran = bench.run(&arguments, full()).failed(2);
    assert!(ran.err.contains("error: --cluster may be given once"), "{}", ran.err);
    assert_eq!(bench.run(&arguments, nobody_reads()).failed(2).err, "");
}

/// The verdict is what a script asks for: that nobody reads the rest does not change it.
#[test]
fn a_verdict_stands_though_nobody_reads_why() {
    let bench = Bench::new();
    let arguments = ["measure", "log", LOG, "--expect", "image.efi"].map(str::to_owned);
    bench.run(&arguments, nobody_reads()).failed(3);
}

/// The hash cannot be made again of the secret: with the file in the way, the next try would fail too.
#[test]
fn an_init_secret_whose_hash_was_lost_is_not_left_behind() {
    let bench = Bench::new();
    let arguments = ["init-secret", "--out", "another"].map(str::to_owned);
    let ran = bench.run(&arguments, full()).failed(1);
    assert!(ran.err.contains("another was removed"), "{}", ran.err);
    bench.run(&arguments, nobody_reads()).failed(141);
    let hash = latchkey(bench.operator.directory(), &["init-secret", "--out", "another"]).succeeded().out;
    assert!(hash.starts_with("$2b$"), "{hash}");
}
