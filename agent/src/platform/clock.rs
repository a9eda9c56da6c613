//! Time since the kernel started.
//!
//! The wall clock is not trusted and not needed in stage 1 (a machine may boot in 1970). What the firmware took before
//! the kernel is not in this clock.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Time since the kernel started, suspended time included (`CLOCK_BOOTTIME`).
pub fn uptime() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_agrees_with_the_kernel_and_never_goes_back() {
        let before = uptime();
        let text = std::fs::read_to_string("/proc/uptime").unwrap();
        let after = uptime();
        let kernel: f64 = text.split(' ').next().unwrap().parse().unwrap();
        // /proc/uptime is cut to centiseconds.
        assert!(before.as_secs_f64() - 0.02 <= kernel && kernel <= after.as_secs_f64());
        assert!(before <= after);
    }
}
