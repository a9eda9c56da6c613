//! What the kernel must not do from the first moment on, whoever sits at the console.
//!
//! Set as the very first thing after `/proc` is there, before anything is read from anywhere. The operating system
//! inherits these and may set its own, what it sets is in its measured root; but kexec stays closed until the next boot.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

use super::pid1::Pid1;
use latchkey_reason::reason_codes;

/// Where the kernel's settings are.
const DIRECTORY: &str = "/proc/sys/kernel";

struct Setting {
    name: &'static str,
    value: &'static str,
    /// What it keeps closed, for the sentence of a refusal.
    what: &'static str,
}

/// In order; a kernel without one of these files does not have what it closes.
const SETTINGS: [Setting; 4] = [
    // The keys that kill, dump memory to the console or restart, on a keyboard or as a serial break.
    Setting { name: "sysrq", value: "0", what: "the magic SysRq keys" },
    // A piped handler that is not there: no dump, whatever the limits are. systemd sets the same until its own is ready.
    Setting { name: "core_pattern", value: "|/bin/false", what: "core dumps" },
    // A kernel that has gone wrong must not go on holding keys. The parameter panic= says when it restarts.
    Setting { name: "panic_on_oops", value: "1", what: "going on after an oops" },
    // Another kernel would start with this boot's measurements.
    Setting { name: "kexec_load_disabled", value: "1", what: "kexec" },
];

/// Closes all of them, or says which one stays open.
pub fn close(_: Pid1) -> Result<(), HardeningError> {
    close_in(Path::new(DIRECTORY))
}

fn close_in(directory: &Path) -> Result<(), HardeningError> {
    SETTINGS.iter().try_for_each(|setting| {
        let path = directory.join(setting.name);
        let failed = |source| HardeningError { what: setting.what, name: setting.name, source };
        match OpenOptions::new().write(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => file.and_then(|mut file| file.write_all(setting.value.as_bytes())).map_err(failed)?,
        }
        // A parameter of the kernel may overrule it: with sysrq_always_enabled the file takes any value and says 1.
        let now = std::fs::read_to_string(&path).map_err(failed)?;
        if now.trim_end() == setting.value {
            Ok(())
        } else {
            Err(failed(io::Error::other(format!("it says {:?} afterwards", now.trim_end()))))
        }
    })
}

/// Something that must be closed is not.
#[derive(Debug, thiserror::Error)]
#[error("the kernel does not give up {what}, kernel.{name} cannot be set ({source})")]
pub struct HardeningError {
    what: &'static str,
    name: &'static str,
    source: io::Error,
}

reason_codes! {
    /// Something that must be closed is not.
    pub enum HardeningCode {
        /// The console's magic keys stay.
        SysrqOpen = "sysrq-open":
            "remove what keeps it from the kernel command line (sysrq_always_enabled?), or boot another kernel";
        /// The kernel does not take another setting.
        SettingRefused = "kernel-setting-refused":
            "remove what keeps it from the kernel command line, or boot another kernel";
    }
}

impl HardeningError {
    /// The stable reason code.
    pub fn code(&self) -> HardeningCode {
        if self.name == "sysrq" { HardeningCode::SysrqOpen } else { HardeningCode::SettingRefused }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(names: &[&str]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for name in names {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        directory
    }

    #[test]
    fn everything_is_closed_and_a_kernel_without_kexec_needs_no_closing() {
        let directory = settings(&["sysrq", "core_pattern", "panic_on_oops"]);
        close_in(directory.path()).unwrap();
        let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
        assert_eq!(
            (read("sysrq"), read("core_pattern"), read("panic_on_oops")),
            ("0".into(), "|/bin/false".into(), "1".into())
        );
        assert!(!directory.path().join("kexec_load_disabled").exists(), "none is made");
    }

    #[test]
    fn a_setting_that_does_not_stay_refuses_the_boot() {
        // As with sysrq_always_enabled: writing works, and the file says something else. What is written to a full device
        // is an error, what is written to the null device is gone.
        for (device, names_the_cause) in [("/dev/null", "afterwards"), ("/dev/full", "cannot be set")] {
            let directory = settings(&["core_pattern"]);
            std::os::unix::fs::symlink(device, directory.path().join("sysrq")).unwrap();
            let error = close_in(directory.path()).unwrap_err();
            assert_eq!(error.code().as_str(), "sysrq-open");
            assert!(error.to_string().contains(names_the_cause), "{error}");
        }
    }
}
