//! An image without Kubernetes: a control plane gets its components from a mirror, and verifies them when it comes back.

use std::time::Instant;

use latchkey_qemu_tests::fleet::{MEMBER, STEP, WAITS};
use latchkey_qemu_tests::kubernetes::{API_IS_READY, PodNetwork, Site};

fn seconds(what: &str, since: Instant) {
    eprintln!("{what}: {:.1} s", since.elapsed().as_secs_f32());
}

#[test]
#[ignore = "builds Kubernetes, once, with Go, and a Debian with it; ./dev e2e fetched"]
fn a_control_plane_gets_the_components_that_init_names_and_verifies_them_when_it_comes_back() {
    let site = Site::with_components_fetched("fetched", PodNetwork::Bridge).unwrap();
    let power_on = Instant::now();
    let mut node = site.control_plane(1).unwrap().start().unwrap();
    node.expect(WAITS, STEP).unwrap();
    site.init(&node, "directory").unwrap();
    seconds("power-on to the end of init", power_on);
    for line in ["getting kubelet-", "every component is verified", "container images of the components"] {
        assert!(node.console().contains(line), "{line}: {}", node.console().text());
    }
    let boot = site.ready("node-1", "").unwrap();
    seconds("power-on to Ready", power_on);
    node.expect(MEMBER, STEP).unwrap();

    let _services = site.fleet.services().unwrap();
    node.restart().unwrap();
    let power_on = Instant::now();
    node.expect("every component is verified", STEP).unwrap();
    node.expect(MEMBER, STEP).unwrap();
    seconds("power-on to the end of stage 2, second boot", power_on);
    node.expect(API_IS_READY, STEP).unwrap();
    site.ready("node-1", &boot).unwrap();
    seconds("power-on to Ready, second boot", power_on);
    for line in ["getting ", "OS failed unit"] {
        assert!(!node.console().contains(line), "{line}: {}", node.console().text());
    }
}
