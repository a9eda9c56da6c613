//! The time of day.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since the Unix epoch; 0 before it.
pub fn unix() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
