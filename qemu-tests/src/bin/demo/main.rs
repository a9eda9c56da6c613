//! What the README promises: two nodes are born, one rejoins with its data intact, an impostor is refused.
//!
//! Everything in it is real: firmware that measures, TPMs, kernels, disks, the services and the operator's command. The
//! picture and the headlines go to standard error, the closing table to standard output, as JSON with `--output json`. With
//! `--kubernetes` the nodes are those of a real cluster ([`kubernetes`]); with `--edge` one registers it at a centre ([`edge`]).

#[cfg(feature = "centre")]
mod edge;
mod kubernetes;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use latchkey_qemu_tests::HarnessError;
use latchkey_qemu_tests::accel::Accelerator;
use latchkey_qemu_tests::board::{Board, Boot};
use latchkey_qemu_tests::fleet::{self, Fleet, MEMBER, Plan, STEP, VERSION, WAITS};
use latchkey_qemu_tests::machine::Machine;
use latchkey_qemu_tests::vm::Vm;
use latchkey_qemu_tests::{build, doctor};
use serde_json::json;

const USAGE: &str = "demo [--kubernetes | --edge] [--output text|json]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (what, rest): (Vec<&str>, Vec<&str>) =
        arguments.iter().map(String::as_str).partition(|argument| ["--kubernetes", "--edge"].contains(argument));
    let play: &dyn Fn(bool) -> Result<(), HarnessError> = match what[..] {
        [] => &play,
        ["--kubernetes"] => &kubernetes::play,
        #[cfg(feature = "centre")]
        ["--edge"] => &|json| edge::begin(json, &arguments),
        #[cfg(not(feature = "centre"))]
        ["--edge"] => &|_| Err(HarnessError::Unusable("built without a centre: ./dev demo --edge".into())),
        _ => {
            eprintln!("usage: {USAGE}");
            return ExitCode::from(2);
        }
    };
    let json = match rest[..] {
        [] | ["--output", "text"] => false,
        ["--output", "json"] => true,
        _ => {
            eprintln!("usage: {USAGE}");
            return ExitCode::from(2);
        }
    };
    let missing = if what.is_empty() { doctor::missing_for_the_demo() } else { doctor::missing() };
    for tool in &missing {
        eprintln!("missing: {tool:?}");
    }
    match missing.is_empty().then(|| play(json)) {
        Some(Ok(())) => ExitCode::SUCCESS,
        Some(Err(error)) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
        None => ExitCode::FAILURE,
    }
}

fn play(json: bool) -> Result<(), HarnessError> {
    eprintln!("Compiling the agent as it ships beside the services and the command (the first time takes minutes) …");
    fleet::prepare()?;
    let accelerator = Accelerator::detect();
    let board = Board::new();

    board.headline(
        "The operator makes a signing key and builds the OS image with its manifest: what machines will measure.",
    );
    let words = "latchkey.state_integrity=hmac-sha256";
    let fleet = Fleet::planned("demo", Plan { words, then: "echo OS up", show: true, ..Plan::default() })?;

    board.headline(&format!("A machine with a TPM and a disk that holds the image is switched on ({accelerator:?})."));
    let mut first = on(&board, "first boot", fleet.machine_with_one_disk("node-1", fleet.image())?)?;
    first.expect(WAITS, STEP)?;
    board.headline("latchkey init: node-1 measured what was predicted, and becomes the first of a cluster.");
    fleet.init(&first)?.success("init")?;
    board.headline(
        "The cluster stands. Key service and join service start; node-2 is switched on, proves itself and is held.",
    );
    let services = fleet.services_that_hold()?;
    let mut second = on(&board, "first boot", fleet.machine_with_one_disk("node-2", fleet.image())?)?;
    second.expect("enrolment-held", STEP)?;
    board.headline("latchkey node admit: the operator says that node-2 is theirs, and it joins by itself.");
    fleet.admit(&second)?.success("node admit")?;
    second.expect(MEMBER, STEP)?;
    let written = data(&second, "cluster-step")?;

    board.headline("node-2 loses its power and comes back: same TPM, same disk.");
    second.restart()?;
    board.watch("node-2", "rejoin", second.console());
    second.expect(MEMBER, STEP)?;
    let read = data(&second, "start-member")?;
    if written != read {
        return Err(HarnessError::Unusable(format!("node-2 wrote {written} and reads {read}")));
    }
    board.headline(
        "node-2 is back, its data intact. An impostor boots an image of the same agent with another command line.",
    );
    let image = fleet.build_image("impostor-image", VERSION, &format!("{words} latchkey.log=debug"))?;
    let mut impostor = on(&board, "impostor", fleet.machine_with_one_disk("impostor", &image)?)?;
    let told = impostor.expect("no ticket yet: measurements-refused", STEP)?.text;
    let why = services.join.console().expect("image-differs", STEP)?.text;
    board.shows(STEP, |boot| boot.refused.is_some());
    board.headline("The impostor is refused, and both sides say why.");
    board.finish();
    let took = board.elapsed();

    for vm in [&mut first, &mut second, &mut impostor] {
        vm.kill();
    }
    close(&fleet, &board.boots(), &Refusal::read(&told, &why), &read, took, json)
}

/// A machine, switched on.
fn on(board: &Board, title: &str, machine: Machine) -> Result<Vm, HarnessError> {
    let vm = machine.start()?;
    board.watch(vm.name(), title, vm.console());
    Ok(vm)
}

/// Why there was no ticket, in the words of both sides.
struct Refusal {
    node: String,
    service: String,
    /// The event of the impostor's own log that differs.
    event: String,
}

impl Refusal {
    /// From the line on the node's console and the one in the service's log.
    fn read(node: &str, service: &str) -> Self {
        let after = |line: &str, mark: &str| line.split_once(mark).map_or(line, |(_, rest)| rest).to_owned();
        let (event, detail) = (after(service, "event="), after(service, "detail="));
        // As the log quotes it.
        let event = event.split(" detail=").next().unwrap_or_default();
        let event = serde_json::from_str(event).unwrap_or_else(|_| event.to_owned());
        Self { node: after(node, "no ticket yet: "), service: detail, event }
    }

    fn as_json(&self) -> serde_json::Value {
        json!({"node": self.node, "join_service": self.service, "event": self.event})
    }
}

/// The checksum that the node's OS printed.
fn data(node: &Vm, step: &str) -> Result<String, HarnessError> {
    let value = node.console().value(&format!("{step}: data "));
    value.ok_or_else(|| HarnessError::Unusable("the node printed no checksum of its data".into()))
}

fn close(
    fleet: &Fleet,
    boots: &[Boot],
    refusal: &Refusal,
    data: &str,
    took: Duration,
    json: bool,
) -> Result<(), HarnessError> {
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |about| about.len());
    let (agent, image, disk) = (size(&build::agent()?), size(&fleet.image().uki), size(&fleet.image().disk));
    let initramfs = fleet.image().initramfs_size()?;
    if json {
        let bytes = json!({"agent": agent, "initramfs": initramfs, "unified_kernel_image": image, "disk": disk});
        println!(
            "{}",
            json!({"seconds": took.as_secs_f64(), "boots": boots_as_json(boots), "bytes": bytes, "refusal": refusal.as_json(), "data_sha256": data})
        );
        return Ok(());
    }
    print_boots(boots, took);
    println!("agent {agent} bytes, initramfs {initramfs} bytes, unified kernel image {image} bytes, disk {disk} bytes");
    println!("node-2's data, written before and read after the reboot: {}…", data.get(..16).unwrap_or(data));
    print_refusal(refusal);
    Ok(())
}

fn boots_as_json(boots: &[Boot]) -> Vec<serde_json::Value> {
    let one = |boot: &Boot| {
        let phases: serde_json::Map<_, _> =
            boot.phases.iter().map(|(phase, at)| ((*phase).to_owned(), json!(at.as_secs_f64()))).collect();
        json!({"machine": boot.machine, "boot": boot.title, "seconds": phases, "refused": boot.refused,
               "agent_peak_memory": boot.memory})
    };
    boots.iter().map(one).collect()
}

fn print_boots(boots: &[Boot], took: Duration) {
    println!("\nmachine    boot         tpm proven   key issued   locked   os runs   member   agent memory");
    for boot in boots {
        let at = |phase: &str| boot.at(phase).map_or_else(|| "–".into(), |at| format!("{:.1} s", at.as_secs_f32()));
        println!(
            "{:10} {:11} {:>11} {:>12} {:>8} {:>9} {:>8}   {}",
            boot.machine,
            boot.title,
            at("tpm"),
            at("key"),
            at("LOCK"),
            at("os"),
            at("member"),
            boot.memory.as_deref().or(boot.refused.as_deref()).unwrap_or("–")
        );
    }
    println!("\ntimes count from power-on, firmware included; the demo took {:.1} s", took.as_secs_f32());
}

fn print_refusal(refusal: &Refusal) {
    for (side, words) in [
        ("what the impostor was told", &refusal.node),
        ("the join service's log", &refusal.service),
        ("and from the impostor's own log, replayed to what its TPM signed", &refusal.event),
    ] {
        println!("{side}:");
        for line in wrapped(words, 110) {
            println!("    {line}");
        }
    }
}

/// Lines of at most `width` characters, broken at spaces.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
