//! Whether the loop of approvals goes on.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longer than a pause of the loop, and than one request takes where nothing answers.
const DEAD: Duration = Duration::from_secs(90);

/// When the loop was last seen to go on.
#[derive(Debug)]
pub(crate) struct Pulse(Mutex<Instant>);

impl Pulse {
    /// As of now.
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Instant::now()))
    }

    pub(super) fn beat(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// What is to be said if nothing was looked at for too long.
    pub(crate) fn problem(&self, now: Instant) -> Option<String> {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since = Some(now.saturating_duration_since(last)).filter(|since| *since >= DEAD)?;
        Some(format!("approvals-stopped: no certificate request was looked at for {} s", since.as_secs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_stands_still_is_noticed() {
        let pulse = Pulse::new();
        let now = Instant::now();
        assert_eq!(pulse.problem(now + Duration::from_mins(1)), None);
        let said = pulse.problem(Instant::now() + Duration::from_mins(2)).unwrap();
        assert!(said.starts_with("approvals-stopped: no certificate request was looked at for 12"), "{said}");
        pulse.beat();
        assert_eq!(pulse.problem(Instant::now()), None);
    }
}
