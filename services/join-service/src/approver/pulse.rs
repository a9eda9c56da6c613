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

    /// How long nothing was looked at, if that is too long.
    pub(crate) fn stopped_for(&self, now: Instant) -> Option<Duration> {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Some(now.saturating_duration_since(last)).filter(|since| *since >= DEAD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_stands_still_is_noticed() {
        let pulse = Pulse::new();
        let now = Instant::now();
        assert_eq!(pulse.stopped_for(now + Duration::from_mins(1)), None);
        assert!(pulse.stopped_for(now + Duration::from_secs(91)).is_some());
        pulse.beat();
        assert_eq!(pulse.stopped_for(Instant::now()), None);
    }
}
