//! Test code: the state disk as stage 1 handles it, and nothing around it. Not part of a release.
//!
//! `state_disk DEVICE MODE KEY-FILE SCRIPT` looks at the device, formats a fresh one, opens an existing one, runs the shell
//! script while it is open as `/dev/mapper/state`, and closes it. MODE is a value of `latchkey.state_integrity`. Prints
//! `DISK fresh|existing`, `DISK open SECONDS`, `DISK table NAME TARGET PARAMETERS`, `DISK script STATUS` and `DISK closed`,
//! or `DISK refused CODE: SENTENCE`.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use latchkey_disk::{
    Control, Disk, DiskError, KernelRandom, Mapping, NewDisk, NodeState, Phase, Probe, Role, SegmentMode, probe,
};
use latchkey_keys::{ClusterId, Secret};

fn main() {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let [device, mode, key, script] = arguments.as_slice() else { panic!("DEVICE MODE KEY-FILE SCRIPT") };
    let mode = match mode.as_str() {
        "none" => SegmentMode::Confidential,
        "hmac-sha256" => SegmentMode::Authenticated,
        _ => panic!("MODE is none or hmac-sha256"),
    };
    let key = Secret::from_slice(&std::fs::read(key).expect("a key file")).expect("32 bytes");
    let control = Control::open().expect("dm-mod is there");
    match open(&control, Path::new(device), mode, &key) {
        Ok(mapping) => {
            let status = Command::new("/bin/sh").arg(script).status().expect("a shell");
            println!("DISK script {status}");
            match mapping.close(&control) {
                Ok(()) => println!("DISK closed"),
                Err(error) => println!("DISK not closed: {error}"),
            }
        }
        Err(error) => println!("DISK refused {}: {error}", error.code()),
    }
}

fn open(control: &Control, device: &Path, mode: SegmentMode, key: &Secret<32>) -> Result<Mapping, DiskError> {
    let start = Instant::now();
    let disk = Disk::open_exclusive(device).expect("a disk that nobody has open");
    let name = "state".parse().expect("a name");
    let (mapping, _) = match probe(&disk)? {
        Probe::Fresh(fresh) => {
            println!("DISK fresh");
            let uuid = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6".parse().expect("a UUID");
            Mapping::format(control, disk, fresh, NewDisk { mode, uuid, key, state: state() }, name, &mut KernelRandom)?
        }
        Probe::Existing(header) => {
            println!("DISK existing");
            Mapping::open(control, disk, header.check(mode)?.unlock(key)?, name)?
        }
        Probe::Refused(refusal) => return Err(refusal.into()),
    };
    println!("DISK open {:.3}", start.elapsed().as_secs_f64());
    for name in ["state", "state_dif"] {
        if let Ok(table) = control.table(&name.parse().expect("a name")) {
            println!("DISK table {name} {} {}", table.target, table.text);
        }
    }
    Ok(mapping)
}

fn state() -> NodeState {
    NodeState {
        role: Role::Worker,
        node_name: "node-1".parse().expect("a name"),
        cluster_id: ClusterId::from_bytes([7; 32]),
        measurement_salt: [9; 32],
        phase: Phase::Formatted,
        epoch: 1,
        attempt: 1,
    }
}
