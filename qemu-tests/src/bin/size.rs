//! `size [--json]`: bytes and crates of what ships, beside what SPECIFICATION.md promises.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, ExitCode};

use latchkey_bench::{Bench, Quantity};
use latchkey_qemu_tests::bootimage::BootImage;
use latchkey_qemu_tests::kernel::Kernel;
use latchkey_qemu_tests::{HarnessError, build, process};

const AGENT_BYTES: usize = 2_500_000;
const AGENT_CRATES: usize = 110;
const INITRAMFS_BYTES: usize = 6_000_000;
const JOIN_SERVICE_BYTES: usize = 8_000_000;
const KEY_SERVICE_BYTES: usize = 4_000_000;
/// Of each program of the centre. The Kerberos helper and the broker's plugin link what Debian has, and are not among them.
const CENTRE_BYTES: usize = 6_000_000;
const CENTRE: [(&str, &str, &str); 5] = [
    ("latchkey-auth", "auth/bytes", "centre: auth, bytes"),
    ("latchkey-cluster-manager", "cluster-manager/bytes", "centre: cluster manager, bytes"),
    ("latchkey-config-db", "config-db/bytes", "centre: config-db, bytes"),
    ("latchkey-directory", "directory/bytes", "centre: directory, bytes"),
    ("latchkey-git-server", "git-server/bytes", "centre: git server, bytes"),
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
    let join_service = build::packaged("latchkey-join-service")?;
    let key_service = build::packaged("latchkey-key-service")?;
    let kernel = Kernel::provision()?;
    let initramfs = BootImage::agent()?.initramfs(&kernel)?.len();
    let mut lines = vec![
        ("agent/bytes", "agent, bytes", bytes(&agent)?, AGENT_BYTES),
        ("agent/crates", "agent, crates", crates("latchkey-agent")?, AGENT_CRATES),
        ("initramfs/bytes", "initramfs, bytes", initramfs, INITRAMFS_BYTES),
        ("join-service/bytes", "join service, bytes", bytes(&join_service)?, JOIN_SERVICE_BYTES),
        ("key-service/bytes", "key service, bytes", bytes(&key_service)?, KEY_SERVICE_BYTES),
    ];
    for (program, id, what) in CENTRE {
        lines.push((id, what, bytes(&build::for_centres(program)?)?, CENTRE_BYTES));
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

fn bytes(program: &Path) -> Result<usize, HarnessError> {
    let metadata = std::fs::metadata(program);
    let metadata = metadata.map_err(|source| HarnessError::Io { what: program.display().to_string(), source })?;
    Ok(usize::try_from(metadata.len()).unwrap_or(usize::MAX))
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
