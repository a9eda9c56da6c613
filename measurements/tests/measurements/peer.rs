//! `sev-snp-measure`, in a virtual environment beside the build's other files.
#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// What is compared with.
const PACKAGE: &str = "sev-snp-measure==0.0.13";

/// The program, or `None` with a message where there is no python3, no pip or no package index to be had.
pub fn sev_snp_measure() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    // Test binaries run at the same time; one of them makes the environment.
    let lock = File::create(target.join("sev-snp-measure.lock")).unwrap();
    lock.lock().unwrap();
    let home = target.join("sev-snp-measure");
    let ready = home.join(PACKAGE);
    if !ready.exists() {
        let made = run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&home))
            && run(Command::new(home.join("bin/python")).args(["-m", "pip", "install", "--quiet", PACKAGE]));
        if !made {
            latchkey_test_support::skip(format_args!(
                "no python3 with venv and pip, or no package index, for {PACKAGE}"
            ));
            return None;
        }
        fs::write(ready, []).unwrap();
    }
    Some(home.join("bin/sev-snp-measure"))
}

fn run(command: &mut Command) -> bool {
    // The package may come over a slow network.
    latchkey_test_support::status_within(Duration::from_mins(10), command).is_ok_and(|status| status.success())
}
