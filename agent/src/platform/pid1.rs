//! The witness that this process is process 1.
//!
//! Mounting over `/dev`, emptying the root file system and rebooting are right for process 1 of an initramfs and a
//! disaster anywhere else. Functions that do such things take a [`Pid1`], and only process 1 can make one.

use latchkey_reason::reason_codes;

/// Proof that this process is process 1 of its PID namespace.
#[derive(Debug, Clone, Copy)]
pub struct Pid1(());

impl Pid1 {
    /// Claims the rights of process 1.
    pub fn claim() -> Result<Self, Pid1Error> {
        match std::process::id() {
            1 => Ok(Self(())),
            pid => Err(Pid1Error { pid }),
        }
    }
}

/// This process is not process 1.
#[derive(Debug, thiserror::Error)]
#[error("stage 1 runs as process {pid}")]
pub struct Pid1Error {
    /// The process id it has instead.
    pub pid: u32,
}

reason_codes! {
    /// What only process 1 may do.
    pub enum Pid1Code {
        /// This process is not process 1.
        NotProcessOne = "not-process-one": "start the agent as /init of an initramfs, never by hand";
    }
}

impl Pid1Error {
    /// The stable reason code.
    pub fn code(&self) -> Pid1Code {
        Pid1Code::NotProcessOne
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_started_by_hand_gets_no_rights() {
        let error = Pid1::claim().expect_err("a test is never process 1");
        assert_eq!(error.code(), Pid1Code::NotProcessOne);
        assert_eq!(error.pid, std::process::id());
    }
}
