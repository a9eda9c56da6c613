//! The same at an edge: a machine founds a cluster of Kubernetes, registers it at a centre, gets its keys and is driven from its
//! repository; a stranger's does not.

use std::time::{Duration, Instant};

use latchkey_qemu_tests::HarnessError;
use latchkey_qemu_tests::accel::Accelerator;
use latchkey_qemu_tests::board::Board;
use latchkey_qemu_tests::centre::registering::{NOT_FINISHED, Registering};
use latchkey_qemu_tests::fleet::{MEMBER, STEP};
use latchkey_qemu_tests::host_name;
use serde_json::{Value, json};

use crate::{boots_as_json, on, print_boots, wrapped};

/// What the cluster is called, and what the stranger's is not.
const NAME: &str = "Press_4";
const STRANGER: &str = "Press_5";

/// A line of each host.
fn listed(hosts: &Value) -> String {
    let line = |host: &Value| {
        let text = |key: &str| host[key].as_str().unwrap_or("?").to_owned();
        let role = if host["control_plane"] == true { "control plane" } else { "worker" };
        let ready = if host["ready"] == true { "ready" } else { "not ready" };
        format!(
            "{} ({role}, {}, {}, {}, {ready})",
            text("hostname"),
            text("k8s_version"),
            text("arch"),
            text("os_version")
        )
    };
    hosts.as_array().into_iter().flatten().map(line).collect::<Vec<_>>().join("; ")
}

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

/// Once the name of this machine leads to it, or once more where it does.
pub(crate) fn begin(as_json: bool, arguments: &[String]) -> Result<(), HarnessError> {
    eprintln!("Compiling agent, services, command and the edge's programs; building Kubernetes (once, an hour) …");
    Registering::prepare_flux()?;
    match host_name::again(arguments)? {
        None => play(as_json),
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(HarnessError::Unusable(format!("the demo, where this machine has a name: {status}"))),
    }
}

fn play(as_json: bool) -> Result<(), HarnessError> {
    let board = Board::new();
    board.headline(
        "latchkey centre up, charts and Flux imported; the operator builds an OS image that names this centre, and its manifest.",
    );
    let all = Registering::with_flux("demo-edge", true)?;
    let page = all.report["page"].as_str().unwrap_or_default();
    board.headline(&format!("The centre's page is {page} (user admin, password {}).", all.centre.password));
    all.centre.reader()?;
    let listener = all.centre.listen()?;
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
    board.headline(&format!(
        "{NAME} is registered: its TPM, image and lock are proven. A pod redeems its link for keys."
    ));
    node.expect(&format!("is registered as {NAME} and has its keys"), STEP)?;
    times.reached("the edge has its keys");

    board.headline("It has its keys, which nobody else ever saw. Flux applies its repository.");
    let flux = all.stand_ins()?;
    all.first_reconciliation(&flux)?;
    times.reached("first Kustomization ready");
    board.headline("What the repository asks for is applied. The edge's programs start.");
    let birth = all.birth(&listener, NAME)?;
    times.reached("NBIRTH at the broker");
    let metrics = birth.metrics.iter().filter_map(|metric| metric.name.as_deref()).collect::<Vec<_>>().join(", ");
    board.headline(&format!("Its NBIRTH tells {metrics}."));
    let hosts = all.reported_hosts(NAME)?;
    times.reached("hosts at the centre");
    board.headline(&format!("The centre's list of hosts: {}", listed(&hosts)));
    let value = b"of the press in hall 4";
    if all.sealed_and_opened(&flux, NAME, value)? != value {
        return Err(HarnessError::Unusable("what was opened is not what was sealed".into()));
    }
    times.reached("a sealed secret is opened");

    board.headline("latchkey cluster seal; its Secret is equal. A stranger's machine comes with a stolen invitation.");
    let cluster = all.centre.reported(&["show", NAME])?;
    node.kill();
    let stolen = all.invite(STRANGER)?;
    let mut stranger = on(&board, "stranger", all.stranger()?)?;
    all.founded_by_stranger(&stranger, &stolen)?;
    let told = stranger.expect(&format!("{NOT_FINISHED}measurements-refused"), STEP)?.text;
    if all.centre.clusters()?.to_string().contains(STRANGER) {
        return Err(HarnessError::Unusable(format!("the centre has a cluster {STRANGER}")));
    }
    board.headline("The stranger is refused: the centre knows nothing of its image.");
    board.finish();
    let took = board.elapsed();
    stranger.kill();

    let told = told.split_once(NOT_FINISHED).map_or(told.as_str(), |(_, why)| why);
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
