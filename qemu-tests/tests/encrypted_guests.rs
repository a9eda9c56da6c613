//! A policy that demands what SEV-SNP processors say, on real kernels: the ioctls of the guest driver, the whole life of a node, impostors.

use std::path::Path;

use latchkey_attestation::fake_amd::{Change, FakeAmd};
use latchkey_attestation::parse::{SigningKey, SnpProduct};
use latchkey_qemu_tests::fleet::{Fleet, MEMBER, STEP};

fn guest(amd: &FakeAmd, change: impl FnOnce(&mut Change)) -> Vec<u8> {
    amd.guest(SigningKey::Vcek, 3, change).for_another_process()
}

#[test]
fn nodes_join_rejoin_and_recover_by_tpm_and_processor_together_and_by_neither_alone() {
    let amd = FakeAmd::new(SnpProduct::Milan);
    let publish = |directory: &Path| latchkey_collateral::publish_fake(&amd, directory);
    let fleet = Fleet::of_encrypted_guests("encrypted", publish).unwrap();
    let machine = |name: &str, chip: Vec<u8>| fleet.machine(name).unwrap().chip(&chip).unwrap();

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
