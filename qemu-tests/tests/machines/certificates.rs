//! A control plane that was off for most of a year: it renews its certificates before they end.

use std::process::Command;
use std::time::{Duration, SystemTime};

use latchkey_attestation::reference::format_rfc3339;
use latchkey_qemu_tests::HarnessError;
use latchkey_qemu_tests::fleet::{MEMBER, STEP, WAITS};
use latchkey_qemu_tests::kubernetes::{API_IS_READY, API_SERVER, PodNetwork, Site};
use latchkey_qemu_tests::process::output;
use latchkey_qemu_tests::vm::Vm;

/// kubeadm's certificates are good for 365.
const OFF: Duration = Duration::from_hours(330 * 24);
/// Before this has passed all of the first certificates have ended, and none of the renewed ones.
const LATER: Duration = Duration::from_hours(400 * 24);

/// A section of QEMU's own configuration, which is read whenever the power comes on.
fn clock(time: &str) -> String {
    format!("[rtc]\n  base = \"{time}\"\n")
}

/// Whether the certificate that the API server shows has ended then.
fn has_ended_later(node: &Vm) -> Result<bool, HarnessError> {
    let address = node.address(API_SERVER).map(|address| address.to_string()).unwrap_or_default();
    let script = "openssl s_client -connect \"$0\" </dev/null | openssl x509 -noout -checkend \"$1\" || true";
    let later = LATER.as_secs().to_string();
    let said = output(Command::new("sh").args(["-c", script, &address, &later]))?;
    match said.trim() {
        "Certificate will expire" => Ok(true),
        "Certificate will not expire" => Ok(false),
        other => Err(HarnessError::Unusable(format!("openssl says {other:?}"))),
    }
}

/// The API server's new certificate begins in the machine's time, which is not this one's: the administrator looks at none.
fn whatever_the_time_is_here(kubeconfig: &str) -> std::io::Result<()> {
    let text = std::fs::read_to_string(kubeconfig)?;
    let looks = |line: &str| line.trim_start().starts_with("certificate-authority-data:");
    let lines = text.lines().map(|line| if looks(line) { "    insecure-skip-tls-verify: true" } else { line });
    std::fs::write(kubeconfig, lines.collect::<Vec<_>>().join("\n"))
}

#[test]
#[ignore = "builds Kubernetes, once, with Go, and a Debian with it; ./dev e2e certificates"]
fn a_control_plane_that_was_off_for_330_days_is_ready_again_with_new_certificates() {
    let site = Site::new("certificates", PodNetwork::Bridge, true).unwrap();
    let settings = site.fleet.run().write("clock.conf", clock("utc")).unwrap();
    let machine = site.control_plane(1).unwrap();
    let mut node = machine.arguments(&["-readconfig", settings.to_str().unwrap()]).start().unwrap();
    node.expect(WAITS, STEP).unwrap();
    site.init(&node, "directory").unwrap();
    let boot = site.ready("node-1", "").unwrap();
    node.expect(MEMBER, STEP).unwrap();
    assert!(has_ended_later(&node).unwrap());

    let _services = site.fleet.services().unwrap();
    node.kill();
    let then = (SystemTime::now() + OFF).duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let then = format_rfc3339(then.as_secs());
    site.fleet.run().write("clock.conf", clock(then.trim_end_matches('Z'))).unwrap();
    node.restart().unwrap();
    node.expect("; all are renewed", STEP).unwrap();
    node.expect(MEMBER, STEP).unwrap();
    node.expect(API_IS_READY, STEP).unwrap();
    whatever_the_time_is_here(&site.fleet.path("admin.conf")).unwrap();
    site.ready("node-1", &boot).unwrap();
    assert!(!has_ended_later(&node).unwrap());
    for line in ["are not renewed", "OS failed unit"] {
        assert!(!node.console().contains(line), "{line}: {}", node.console().text());
    }
    assert!(site.ask(&["get", "nodes"]).unwrap().contains("node-1"));
}
