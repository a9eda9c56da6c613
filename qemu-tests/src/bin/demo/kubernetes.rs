//! The same with Kubernetes: two machines become a cluster that nobody typed a token into, and a pod on the second answers.

use latchkey_qemu_tests::HarnessError;
use latchkey_qemu_tests::accel::Accelerator;
use latchkey_qemu_tests::board::Board;
use latchkey_qemu_tests::fleet::{self, MEMBER, STEP, WAITS};
use latchkey_qemu_tests::kubernetes::{PodNetwork, Site};
use serde_json::json;

use crate::{Refusal, boots_as_json, on, print_boots, print_refusal};

pub(crate) fn play(as_json: bool) -> Result<(), HarnessError> {
    eprintln!("Compiling the agent as it ships, the services and the command; building Kubernetes (once, an hour) …");
    fleet::prepare()?;
    let board = Board::new();
    board.headline(
        "The operator builds an OS image that carries Kubernetes 1.34, and its manifest: what machines will measure.",
    );
    let site = Site::new("demo-kubernetes", PodNetwork::Flannel, true)?;

    board.headline(&format!("A machine with a TPM is switched on ({:?}).", Accelerator::detect()));
    let mut first = on(&board, "first boot", site.control_plane(1)?)?;
    first.expect(WAITS, STEP)?;
    board.headline(
        "latchkey init --kubernetes 1.34 --store kubernetes: node-1 proves itself and becomes a control plane.",
    );
    site.init(&first, "kubernetes")?;
    board.headline("latchkey charts install: flannel makes the network of pods.");
    site.install_flannel()?;
    site.ready("node-1", "")?;

    board.headline("node-1 is Ready. The services start; node-2 is switched on, proves itself and is held.");
    let services = site.fleet.services_that_hold()?;
    site.serves("node-1")?;
    let mut second = on(&board, "first boot", site.worker(2)?)?;
    second.expect("enrolment-held", STEP)?;
    board.headline("latchkey node admit: the operator says that node-2 is theirs; ticket, token and certificates follow by themselves.");
    site.fleet.admit(&second)?.success("node admit")?;
    second.expect(MEMBER, STEP)?;
    let boot = site.ready("node-2", "")?;
    site.serves("node-2")?;
    board.headline("node-2 is Ready. A pod on it is asked by a pod on node-1, by the name of its service.");
    site.deploy_web()?;
    let answer = site.asked("asker")?;

    board.headline("It answers. node-2 loses its power and comes back, without a ticket.");
    second.restart()?;
    board.watch("node-2", "rejoin", second.console());
    second.expect(MEMBER, STEP)?;
    site.ready("node-2", &boot)?;
    site.asked("asker-again")?;

    board.headline("node-2 is Ready, and answers again. An impostor boots the image with another command line.");
    let mut impostor = on(&board, "impostor", site.impostor("impostor")?)?;
    let told = impostor.expect("no ticket yet: measurements-refused", STEP)?.text;
    let why = services.join.console().expect("image-differs", STEP)?.text;
    board.shows(STEP, |boot| boot.refused.is_some());
    site.has_nothing_of("impostor")?;
    board.headline("The impostor has neither ticket nor certificate, and both sides say why.");
    board.finish();
    let took = board.elapsed();
    let nodes = ["get", "nodes,attestednodes"];
    let (shown, nodes) = (site.ask(&nodes)?, site.ask(&[&nodes[..], &["--output", "name"]].concat())?);
    for vm in [&mut first, &mut second, &mut impostor] {
        vm.kill();
    }

    let (boots, refusal) = (board.boots(), Refusal::read(&told, &why));
    if as_json {
        let nodes: Vec<&str> = nodes.lines().collect();
        println!(
            "{}",
            json!({"seconds": took.as_secs_f64(), "boots": boots_as_json(&boots), "refusal": refusal.as_json(), "answer": answer, "objects": nodes})
        );
        return Ok(());
    }
    print_boots(&boots, took);
    println!("a pod on node-1 asked http://web, a pod on node-2 answered, before and after its reboot: {answer}");
    println!("\n$ kubectl get nodes,attestednodes\n{shown}");
    print_refusal(&refusal);
    Ok(())
}
