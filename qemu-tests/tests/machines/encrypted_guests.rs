//! Policies that demand what SEV-SNP and TDX processors say, on real kernels: the ioctls of the guest driver, the calls that configfs-tsm
//! takes, the whole life of a node, impostors.

use std::path::Path;

use latchkey_attestation::fake_amd::{Change, FakeAmd};
use latchkey_attestation::fake_intel::{FakeIntel, field};
use latchkey_attestation::parse::{SigningKey, SnpProduct};
use latchkey_qemu_tests::encrypted::Interface;
use latchkey_qemu_tests::fleet::{Fleet, MEMBER, STEP};

fn guest(amd: &FakeAmd, change: impl FnOnce(&mut Change)) -> Vec<u8> {
    amd.guest(SigningKey::Vcek, 3, change).for_another_process()
}

#[test]
fn nodes_join_rejoin_and_recover_by_tpm_and_processor_together_and_by_neither_alone() {
    let amd = FakeAmd::new(SnpProduct::Milan);
    let publish = |directory: &Path| latchkey_collateral::publish_fake(&amd, directory);
    let fleet = Fleet::of_sev_snp_guests("encrypted", publish).unwrap();
    let machine =
        |name: &str, chip: Vec<u8>| fleet.machine(name).unwrap().chip(Interface::SevGuestDevice, &chip).unwrap();

    // The operator's command verifies the first machine's report before it gives it a key.
    let (services, first) = fleet.found_cluster(machine("node-1", guest(&amd, |_| ()))).unwrap();
    drop(first);
    let mut node = machine("node-2", guest(&amd, |_| ())).start().unwrap();
    node.expect(MEMBER, STEP).unwrap();
    services.join.console().find(&["granted", "Milan (boot loader 3"], STEP).unwrap();
    node.restart().unwrap();
    node.expect(MEMBER, STEP).unwrap();
    node.restart_isolated().unwrap();
    node.expect("recovery: waiting on port 9000", STEP).unwrap();
    fleet.recover(&node, &fleet.path("master.json")).unwrap().success("recover").unwrap();
    node.expect(MEMBER, STEP).unwrap();
    drop(node);
    // A newer kernel has another way to ask, with certificates beside the report.
    let newer = fleet.machine("newer").unwrap().chip(Interface::SevGuestTsm, &guest(&amd, |_| ())).unwrap();
    newer.start().unwrap().expect(MEMBER, STEP).unwrap();

    // The same image and a good TPM, on a machine that is no encrypted guest; it knows what it lacks.
    let plain = fleet.machine("plain").unwrap().start().unwrap();
    plain.expect("reports need a SEV-SNP guest", STEP).unwrap();
    drop(plain);
    // A chip whose key no authority of AMD's has certified.
    let foreign = machine("foreign", guest(&FakeAmd::new(SnpProduct::Milan), |_| ())).start().unwrap();
    foreign.expect("no ticket yet: tee-not-trusted", STEP).unwrap();
    services.join.console().find(&["refused", "snp-certificate-untrusted"], STEP).unwrap();
    drop(foreign);
    // A guest whose memory its host may read.
    let open = machine("open", guest(&amd, |change| change.report[0x08 + 2] |= 1 << 3)).start().unwrap();
    open.expect("no ticket yet: tee-not-trusted", STEP).unwrap();
    services.join.console().find(&["refused", "snp-debug-allowed"], STEP).unwrap();
}

#[test]
fn tdx_guests_join_and_rejoin_by_the_quotes_that_their_kernel_gives_and_no_others_do() {
    let intel = FakeIntel::default();
    let publish = |directory: &Path| latchkey_collateral::publish_fake_intel(&intel, directory);
    let fleet = Fleet::of_tdx_guests("tdx", publish).unwrap();
    let machine = |name: &str, chip: Vec<u8>| fleet.machine(name).unwrap().chip(Interface::TdxGuestTsm, &chip).unwrap();
    let good = |name: &str| machine(name, intel.for_another_process(|_| ()));

    // The operator's command verifies the first machine's quote before it gives it a key.
    let (services, first) = fleet.found_cluster(good("node-1")).unwrap();
    drop(first);
    let mut node = good("node-2").start().unwrap();
    node.expect(MEMBER, STEP).unwrap();
    services.join.console().find(&["granted", "TDX, FMSPC b0c06f000000 (UpToDate)"], STEP).unwrap();
    node.restart().unwrap();
    node.expect(MEMBER, STEP).unwrap();
    drop(node);

    // The same image and a good TPM, on a machine that is no TDX guest; it knows what it lacks.
    let plain = fleet.machine("plain").unwrap().start().unwrap();
    plain.expect("quotes need a TDX guest", STEP).unwrap();
    drop(plain);
    // A platform of another Intel.
    let foreign = machine("foreign", FakeIntel::default().for_another_process(|_| ())).start().unwrap();
    foreign.expect("no ticket yet: tee-not-trusted", STEP).unwrap();
    services.join.console().find(&["refused", "tdx-quote-untrusted"], STEP).unwrap();
    drop(foreign);
    // A guest whose memory its host may read.
    let open = machine("open", intel.for_another_process(|report| report[field::ATTRIBUTES] |= 1)).start().unwrap();
    open.expect("no ticket yet: tee-not-trusted", STEP).unwrap();
    services.join.console().find(&["refused", "tdx-debug-allowed"], STEP).unwrap();
}
