//! A Python with grpcio and protobuf, in a virtual environment beside the build's other files.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

const PACKAGES: [&str; 2] = ["grpcio==1.85.1", "protobuf==7.36.2"];

/// The interpreter, or `None` with a message where there is no python3, no pip or no package index to be had.
pub fn python() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    // Test binaries run at the same time; one of them makes the environment.
    let lock = File::create(target.join("grpcio.lock")).unwrap();
    lock.lock().unwrap();
    let home = target.join("grpcio");
    let python = home.join("bin/python");
    let ready = home.join("ready");
    if !ready.exists() {
        let made = run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&home))
            && run(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(PACKAGES));
        if !made {
            latchkey_test_support::skip("no python3 with venv and pip, or no package index, for grpcio");
            return None;
        }
        fs::write(ready, []).unwrap();
    }
    Some(python)
}

fn run(command: &mut Command) -> bool {
    // Packages may come over a slow network.
    latchkey_test_support::status_within(Duration::from_mins(10), command).is_ok_and(|status| status.success())
}

/// The contracts for `contracts.py`.
pub fn descriptors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/generated/latchkey.v1.binpb")
}

/// A script of `tests/grpcio`.
pub fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/grpcio").join(name)
}
