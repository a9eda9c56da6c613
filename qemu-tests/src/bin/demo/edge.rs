//! The same at an edge: a machine founds a cluster of Kubernetes, registers it at a centre and gets its keys; a stranger's does not.

use std::time::{Duration, Instant};

use latchkey_qemu_tests::HarnessError;
use latchkey_qemu_tests::accel::Accelerator;
use latchkey_qemu_tests::board::Board;
use latchkey_qemu_tests::centre::registering::Registering;
use latchkey_qemu_tests::fleet::{self, MEMBER, STEP};
use serde_json::json;

use crate::{boots_as_json, on, print_boots, wrapped};

/// What the cluster is called.
const NAME: &str = "Press_4";

/// When what was reached, from the machine's power-on.
struct Times {
    power_on: Instant,
    all: Vec<(&'static str, Duration)>,
}

impl Times {
    fn reached(&mut self, what: &'static str) {
        self.all.push((what, self.power_on.elapsed()));
    }
}

pub(crate) fn play(as_json: bool) -> Result<(), HarnessError> {
    eprintln!("Compiling agent, services, command and the edge's programs; building Kubernetes (once, an hour) …");
    fleet::prepare()?;
    let board = Board::new();
    board
        .headline("latchkey centre up; then the operator builds an OS image that names this centre, and its manifest.");
    let all = Registering::prepared("demo-edge", true)?;
    let page = all.report["page"].as_str().unwrap_or_default();
    board.headline(&format!("The centre's page is {page} (user admin, password {}).", all.centre.password));
    let invitation = all.invite(NAME)?;

    board.headline(&format!(
        "latchkey cluster invite {NAME}. A machine with a TPM is switched on ({:?}).",
        Accelerator::detect()
    ));
    let mut node = on(&board, "first boot", all.site.control_plane(1)?)?;
    let mut times = Times { power_on: Instant::now(), all: Vec::new() };
    all.found(&node, Some(&invitation))?;
    times.reached("latchkey init has ended");
    node.expect(MEMBER, STEP)?;
    node.expect(&format!("registered as {NAME}"), STEP)?;
    times.reached("registered at the centre");
    all.define_flux()?;
    board.headline(&format!(
        "{NAME} is registered: its TPM, image and lock are proven. A pod redeems its link for keys."
    ));
    node.expect(&format!("is registered as {NAME} and has its keys"), STEP)?;
    times.reached("the edge has its keys");

    board.headline("It has its keys, which nobody else ever saw. A stranger's machine comes with a stolen invitation.");
    let cluster = all.centre.reported(&["show", NAME])?;
    node.kill();
    let stolen = all.invite("Press_5")?;
    let mut stranger = on(&board, "stranger", all.stranger()?)?;
    all.founded_by_stranger(&stranger, &stolen)?;
    let told = stranger.expect("not registered yet: ", STEP)?.text;
    board.headline("The stranger is refused: the centre knows nothing of its image.");
    board.finish();
    let took = board.elapsed();
    stranger.kill();

    let told = told.split_once("not registered yet: ").map_or(told.as_str(), |(_, why)| why);
    let boots = board.boots();
    if as_json {
        let reached: serde_json::Map<_, _> =
            times.all.iter().map(|(what, at)| ((*what).to_owned(), json!(at.as_secs_f64()))).collect();
        println!(
            "{}",
            json!({"seconds": took.as_secs_f64(), "boots": boots_as_json(&boots), "reached": reached, "cluster": cluster, "refusal": told})
        );
        return Ok(());
    }
    print_boots(&boots, took);
    println!("\n{NAME}, from power-on:");
    for (what, at) in &times.all {
        println!("    {what:32} {:>7.1} s", at.as_secs_f32());
    }
    println!("what the stranger was told:");
    for line in wrapped(told, 110) {
        println!("    {line}");
    }
    Ok(())
}
