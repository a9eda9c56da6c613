//! What follows when the process of stage 2 is no more, however it ended: run by the service manager (`ExecStopPost=` of
//! systemd.service(5)), because a process that was killed wipes and says nothing.
//!
//! The hand-over tells: whatever stage 2 ends in by itself, it wipes the hand-over before. systemd says the rest in
//! `SERVICE_RESULT` (systemd.exec(5)).

use std::path::Path;
use std::process::ExitCode;

use super::{Stage2Code, restart_soon, wipe};
use crate::handover;
use crate::platform::console;

/// What systemd says of the service in this variable.
const RESULT: &str = "SERVICE_RESULT";

/// Runs after stage 2. Exit status 2: not called by systemd.
pub fn run() -> ExitCode {
    let Some(result) = std::env::var(RESULT).ok() else {
        console::failure("stage2", Stage2Code::Usage, "stage2-ended is not for people");
        return ExitCode::from(2);
    };
    after(Path::new(handover::PATH), &result, &restart_soon);
    ExitCode::SUCCESS
}

/// Wipes what is left at `path` and restarts the machine unless stage 2 ended by its own decision.
pub(super) fn after(path: &Path, result: &str, restart: &dyn Fn()) {
    // Anything but "certainly gone": a link or a directory there was not left by stage 2 either.
    let left = std::fs::symlink_metadata(path).is_ok();
    if left {
        wipe(path);
    }
    let died = match result {
        // It ended well, or the system stops: the unit cannot be stopped by hand.
        "success" => false,
        // It said why and wiped the hand-over; or it never began.
        "exit-code" => left,
        _ => true,
    };
    if died {
        let message = format!("stage 2 died ({result}) before the node was a member; the machine restarts");
        console::failure("stage2", Stage2Code::Died, &message);
        restart();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Whether the machine restarts, and whether the hand-over is there afterwards.
    fn ends(result: &str, left: bool) -> (bool, bool) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("handover.json");
        if left {
            std::fs::write(&path, b"the token key").unwrap();
        }
        let restarted = Cell::new(false);
        after(&path, result, &|| restarted.set(true));
        (restarted.get(), path.exists())
    }

    #[test]
    fn only_an_end_that_stage_2_decided_lets_the_machine_stay_up() {
        // systemd.exec(5), table of $SERVICE_RESULT.
        let deaths =
            ["protocol", "timeout", "signal", "core-dump", "watchdog", "resources", "oom-kill", "start-limit-hit"];
        for result in deaths {
            assert_eq!(ends(result, true), (true, false), "{result}");
            assert_eq!(ends(result, false), (true, false), "{result}");
        }
        assert_eq!(ends("exit-code", false), (false, false), "it said why");
        assert_eq!(ends("exit-code", true), (true, false), "it never began");
        assert_eq!(ends("success", false), (false, false), "a member");
        assert_eq!(ends("success", true), (false, false), "the system stops");
    }

    #[test]
    fn the_unit_of_the_image_calls_it_and_cannot_be_stopped_by_hand() {
        let unit = include_str!("../../../image/systemd/latchkey-agent.service");
        for line in ["ExecStart=/usr/bin/latchkey-agent stage2", "ExecStopPost=/usr/bin/latchkey-agent stage2-ended"] {
            assert!(unit.lines().any(|found| found == line), "{line}");
        }
        let (before, after) = unit.split_once("[Service]").unwrap();
        assert!(before.contains("\nRefuseManualStop=yes\n") && !after.contains("RefuseManualStop"));
    }
}
