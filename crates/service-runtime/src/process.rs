//! What the kernel says of this process, in the names that Prometheus' own clients have for it.

use crate::page::Page;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `USER_HZ`, in which `/proc/self/stat` counts: of the kernel's interface, on every machine that this runs on.
const TICKS: f64 = 100.0;

/// The lines of a metrics page. What cannot be read is left out.
pub(crate) fn lines() -> String {
    let mut page = Page::bare("process_");
    let mut line = |name: &str, kind: &str, help: &str, value: Option<f64>| {
        if let Some(value) = value {
            page.family(name, kind, help);
            page.line(name, "", value);
        }
    };
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    line("cpu_seconds_total", "counter", "Time of processors that was used", Some(seconds(spent).as_secs_f64()));
    line("resident_memory_bytes", "gauge", "Resident memory", in_status(&status, "VmRSS:"));
    line("virtual_memory_bytes", "gauge", "Virtual memory", in_status(&status, "VmSize:"));
    // The descriptor by which they are counted is none of them.
    let open = fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count().saturating_sub(1));
    line("open_fds", "gauge", "Open file descriptors", open.and_then(number));
    let most = getrlimit(Resource::Nofile).current.and_then(|most| u32::try_from(most).ok()).map(f64::from);
    line("max_fds", "gauge", "File descriptors that may be open", most);
    line("start_time_seconds", "gauge", "When the process began, in seconds since the Unix epoch", started());
    page.into_text()
}

/// A value of `/proc/self/status`, which has it in KiB.
fn in_status(status: &str, name: &str) -> Option<f64> {
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u32 = value.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(f64::from(kib) * 1024.0)
}

fn number(count: usize) -> Option<f64> {
    u32::try_from(count).ok().map(f64::from)
}

/// Computed once: two clocks never agree to the last digit, and this must be the same each time.
fn started() -> Option<f64> {
    static STARTED: OnceLock<Option<f64>> = OnceLock::new();
    *STARTED.get_or_init(|| {
        let age = seconds(clock_gettime(ClockId::Boottime)).as_secs_f64() - since_boot()?;
        Some(SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs_f64() - age)
    })
}

/// When the process began, in seconds since the machine did: field 22 of `proc_pid_stat(5)`. The name in field 2 may have anything in it.
fn since_boot() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, behind) = stat.rsplit_once(')')?;
    behind.split_ascii_whitespace().nth(22 - 3)?.parse::<f64>().ok().map(|ticks| ticks / TICKS)
}

fn seconds(time: rustix::time::Timespec) -> Duration {
    let (seconds, rest) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or_default(), rest.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_says_what_it_uses_and_when_it_began() {
        let page = lines();
        let value = |name: &str| -> f64 {
            let line =
                page.lines().find_map(|line| line.strip_prefix("process_")?.strip_prefix(name)?.strip_prefix(' '));
            line.unwrap_or_else(|| panic!("{name}: {page}")).parse().unwrap()
        };
        assert!(
            value("resident_memory_bytes") > 100_000.0
                && value("virtual_memory_bytes") >= value("resident_memory_bytes")
        );
        assert!(value("open_fds") >= 3.0 && value("max_fds") >= value("open_fds"));
        assert!(value("cpu_seconds_total") > 0.0);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        assert!((now - 24.0 * 3600.0..=now + 1.0).contains(&value("start_time_seconds")), "{page}");
        let again = lines();
        let start =
            |page: &str| page.lines().find(|line| line.starts_with("process_start_time_seconds ")).map(str::to_owned);
        assert_eq!(start(&page), start(&again));
    }
}
