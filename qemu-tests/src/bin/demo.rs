//! The story of the README: two nodes are born, one rejoins with its data intact, an impostor is refused.
//!
//! Everything in it is real: firmware that measures, TPMs, kernels, disks, the services and the operator's command. The
//! picture and the story go to standard error, the closing table to standard output, as JSON with `--output json`.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use latchkey_qemu_tests::HarnessError;
use latchkey_qemu_tests::accel::Accelerator;
use latchkey_qemu_tests::board::{Board, Boot};
use latchkey_qemu_tests::fleet::{Fleet, STEP, VERSION};
use latchkey_qemu_tests::vm::Vm;
use latchkey_qemu_tests::{build, doctor};
use serde_json::json;

const USAGE: &str = "demo [--output text|json]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let json = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] | ["--output", "text"] => false,
        ["--output", "json"] => true,
        _ => {
            eprintln!("usage: {USAGE}");
            return ExitCode::from(2);
        }
    };
    let missing = doctor::missing();
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
    eprintln!("Building the agent as it ships, the services and the command (the first time takes minutes) …");
    let fleet = Fleet::new("demo")?;
    let accelerator = Accelerator::detect();
    let board = Board::new();

    board.story(&format!("A machine with a TPM and an empty disk is switched on ({accelerator:?})."));
    let mut first = on(&fleet, &board, "node-1")?;
    first.expect("init: waiting", STEP)?;
    board.story("latchkey init: the operator verifies node-1 and makes it the first of a cluster.");
    fleet.init(&first)?.success("init")?;
    board.story("The cluster stands. Key service and join service start; node-2 is switched on and joins by itself.");
    let services = fleet.services()?;
    let mut second = on(&fleet, &board, "node-2")?;
    second.expect("OS stage2 0", STEP)?;
    let written = data(&second, "cluster-step")?;

    board.story("node-2 loses its power and comes back: same TPM, same disk.");
    second.restart()?;
    board.watch("node-2", "rejoin", second.console());
    second.expect("OS stage2 0", STEP)?;
    let read = data(&second, "start-member")?;
    if written != read {
        return Err(HarnessError::Unusable(format!("node-2 wrote {written} and reads {read}")));
    }
    board.story("node-2 is back, its data intact. An impostor boots the same initramfs with another command line.");
    let image = fleet.build_image("impostor-image", VERSION, "latchkey.log=debug")?;
    let mut impostor = fleet.machine_of("impostor", image.boot(), &fleet.tpm("impostor")?)?.start()?;
    board.watch("impostor", "impostor", impostor.console());
    impostor.expect("no ticket yet: measurements-refused", STEP)?;
    let why = services.join.console().expect("boot-loader-differs", Duration::from_secs(20))?.text;
    board.shows(STEP, |boot| boot.refused.is_some());
    board.story("The impostor is refused, and the join service says why.");
    board.finish();
    let took = board.elapsed();

    for vm in [&mut first, &mut second, &mut impostor] {
        vm.kill();
    }
    close(&fleet, &board.boots(), &why, &read, took, json)
}

fn on(fleet: &Fleet, board: &Board, name: &str) -> Result<Vm, HarnessError> {
    let vm = fleet.machine(name)?.start()?;
    board.watch(name, "first boot", vm.console());
    Ok(vm)
}

/// The checksum that the node's OS printed.
fn data(node: &Vm, step: &str) -> Result<String, HarnessError> {
    let value = node.console().value(&format!("{step}: data "));
    value.ok_or_else(|| HarnessError::Unusable("the node printed no checksum of its data".into()))
}

fn close(fleet: &Fleet, boots: &[Boot], why: &str, data: &str, took: Duration, json: bool) -> Result<(), HarnessError> {
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |about| about.len());
    let (agent, image) = (size(&build::agent()?), size(&fleet.image().uki));
    let initramfs = fleet.image().initramfs;
    let reason = reason(why);
    if json {
        let boots: Vec<_> = boots
            .iter()
            .map(|boot| {
                let phases: serde_json::Map<_, _> =
                    boot.phases.iter().map(|(phase, at)| ((*phase).to_owned(), json!(at.as_secs_f64()))).collect();
                json!({"machine": boot.machine, "boot": boot.title, "seconds": phases, "refused": boot.refused,
                       "agent_peak_memory": boot.memory})
            })
            .collect();
        let bytes = json!({"agent": agent, "initramfs": initramfs, "unified_kernel_image": image});
        println!(
            "{}",
            json!({"seconds": took.as_secs_f64(), "boots": boots, "bytes": bytes, "refusal": reason, "data_sha256": data})
        );
        return Ok(());
    }
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
    println!("\ntimes count from power-on, firmware included; the whole story took {:.1} s", took.as_secs_f32());
    println!("agent {agent} bytes, initramfs {initramfs} bytes, unified kernel image {image} bytes");
    println!("node-2's data, written before and read after the reboot: {}…", data.get(..16).unwrap_or(data));
    println!("the impostor, in the join service's words:");
    for line in wrapped(&reason, 110) {
        println!("    {line}");
    }
    Ok(())
}

/// The part of the decision's log line that names the reason.
fn reason(line: &str) -> String {
    line.split_once("detail=").map_or(line, |(_, detail)| detail).trim_matches('"').to_owned()
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
