//! The witness that this process is process 1.
//!
//! Mounting over `/dev`, emptying the root file system and rebooting are right for process 1 of an initramfs and a
//! disaster anywhere else. Functions that do such things take a [`Pid1`], and only process 1 can make one.

use std::fmt;

/// Proof that this process is process 1 of its PID namespace.
#[derive(Debug, Clone, Copy)]
pub struct Pid1(());

impl Pid1 {
    /// Claims the rights of process 1.
    pub fn claim() -> Result<Self, Pid1Fault> {
        match std::process::id() {
            1 => Ok(Self(())),
            pid => Err(Pid1Fault { pid }),
        }
    }
}

/// This process is not process 1.
#[derive(Debug)]
pub struct Pid1Fault {
    /// The process id it has instead.
    pub pid: u32,
}

impl Pid1Fault {
    /// The stable reason code.
    pub fn code(&self) -> &'static str {
        "not-process-one"
    }
}

impl fmt::Display for Pid1Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stage 1 runs as process {}: start it as /init of an initramfs, never by hand", self.pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_started_by_hand_gets_no_rights() {
        let fault = Pid1::claim().expect_err("a test is never process 1");
        assert_eq!(fault.code(), "not-process-one");
        assert_eq!(fault.pid, std::process::id());
    }
}
