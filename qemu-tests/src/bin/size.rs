//! `size [--json]`: bytes and crates of what ships, beside what SPECIFICATION.md promises.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, ExitCode};

use latchkey_bench::{Bench, Quantity};
use latchkey_initramfs::needed::Needed;
use latchkey_qemu_tests::bootimage::BootImage;
use latchkey_qemu_tests::kernel::Kernel;
use latchkey_qemu_tests::{HarnessError, build, process};

const AGENT_BYTES: usize = 2_500_000;
const AGENT_CRATES: usize = 110;
const INITRAMFS_BYTES: usize = 6_000_000;
const JOIN_SERVICE_BYTES: usize = 9_500_000;
const KEY_SERVICE_BYTES: usize = 4_000_000;
/// The programs of the centre, each with what it may have. The Kerberos helper and the broker's plugin link what Debian has, and are
/// not among them. Of the cluster manager 0.5 MB are aws-lc, which seals; of config-db 1.3 MB are JSON Schema with its regular
/// expressions. What a panic unwinds by is an eighth of each.
const CENTRE: [(&str, &str, &str, usize); 5] = [
    ("latchkey-auth", "auth/bytes", "centre: auth, bytes", 6_000_000),
    ("latchkey-cluster-manager", "cluster-manager/bytes", "centre: cluster manager, bytes", 6_150_000),
    ("latchkey-config-db", "config-db/bytes", "centre: config-db, bytes", 7_300_000),
    ("latchkey-directory", "directory/bytes", "centre: directory, bytes", 6_000_000),
    ("latchkey-git-server", "git-server/bytes", "centre: git server, bytes", 6_000_000),
];
/// Those of an edge and the service that takes up edges: package, program, and the same as above.
const EDGE: [(&str, &str, &str, &str, usize); 4] = [
    (
        "latchkey-enrol-service",
        "latchkey-enrol-service",
        "enrol-service/bytes",
        "edge: enrol service, bytes",
        8_000_000,
    ),
    ("latchkey-krb-keys", "krb-keys", "krb-keys/bytes", "edge: krb-keys, bytes", 4_200_000),
    ("latchkey-edge-monitor", "latchkey-edge-monitor", "edge-monitor/bytes", "edge: monitor, bytes", 4_200_000),
    ("latchkey-edge-sync", "latchkey-edge-sync", "edge-sync/bytes", "edge: sync, bytes", 4_200_000),
];

fn main() -> ExitCode {
    match report() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("size: a promise is not kept");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("size: {error}");
            ExitCode::from(2)
        }
    }
}

fn report() -> Result<bool, HarnessError> {
    let agent = build::agent()?;
    is_static(&agent)?;
    let join_service = build::as_shipped("latchkey-join-service", "latchkey-join-service")?;
    let key_service = build::as_shipped("latchkey-key-service", "latchkey-key-service")?;
    is_static(&join_service)?;
    is_static(&key_service)?;
    let kernel = Kernel::provision()?;
    let initramfs = BootImage::agent()?.initramfs(&kernel)?.len();
    let mut lines = vec![
        ("agent/bytes", "agent, bytes", bytes(&agent)?, AGENT_BYTES),
        ("agent/crates", "agent, crates", crates("latchkey-agent")?, AGENT_CRATES),
        ("initramfs/bytes", "initramfs, bytes", initramfs, INITRAMFS_BYTES),
        ("join-service/bytes", "join service, bytes", bytes(&join_service)?, JOIN_SERVICE_BYTES),
        ("key-service/bytes", "key service, bytes", bytes(&key_service)?, KEY_SERVICE_BYTES),
    ];
    let centre = CENTRE.map(|(program, id, what, promised)| (program, program, id, what, promised));
    for (package, program, id, what, promised) in centre.into_iter().chain(EDGE) {
        let program = build::as_shipped(package, program)?;
        is_static(&program)?;
        lines.push((id, what, bytes(&program)?, promised));
    }
    if std::env::args().any(|argument| argument == "--json") {
        let bench = Bench::from_args();
        for &(id, what, is, _) in &lines {
            bench.count(&Quantity::new(id, what, is.try_into().unwrap_or(u64::MAX)));
        }
    } else {
        println!("{:<28}{:>12}{:>12}", "", "is", "at most");
        for (_, what, is, promised) in &lines {
            println!("{what:<28}{is:>12}{promised:>12}");
        }
        println!("agent:  {}\nkernel: {}", agent.display(), kernel.release);
    }
    Ok(lines.iter().all(|(_, _, is, promised)| is <= promised))
}

fn content(program: &Path) -> Result<Vec<u8>, HarnessError> {
    std::fs::read(program).map_err(|source| HarnessError::Io { what: program.display().to_string(), source })
}

fn bytes(program: &Path) -> Result<usize, HarnessError> {
    Ok(content(program)?.len())
}

/// Refuses a program that needs more of its machine than the kernel.
fn is_static(program: &Path) -> Result<(), HarnessError> {
    match Needed::read(&content(program)?) {
        Ok(needed) if needed == Needed::default() => Ok(()),
        Ok(needed) => Err(HarnessError::Unusable(format!("{} is not static: {needed:?}", program.display()))),
        Err(error) => Err(HarnessError::Unusable(format!("{}: {error}", program.display()))),
    }
}

/// How many crates a package is made of, itself and the compiler's plug-ins included.
fn crates(package: &str) -> Result<usize, HarnessError> {
    let mut command = Command::new("cargo");
    command.current_dir(build::workspace()).args(["tree", "--package", package, "--edges", "normal"]);
    command.args(["--prefix", "none", "--format", "{p}", "--target", "x86_64-unknown-linux-musl"]);
    let listing = process::output(&mut command)?;
    // `name vVERSION (where from)`
    Ok(listing.lines().filter_map(|line| line.split(" (").next()).collect::<BTreeSet<_>>().len())
}
