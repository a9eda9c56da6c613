//! What another process costs, as the kernel tells it.

use std::fs;
use std::time::Duration;

/// Resident memory of a process now (`VmRSS`, proc(5)), in bytes; nothing, where it is gone.
pub fn memory_of(process: u32) -> Option<u64> {
    status(process, "VmRSS:")
}

/// The same without pages of files that it maps, which others share (`VmRSS` less `RssFile`, proc(5)), in bytes.
pub fn own_memory_of(process: u32) -> Option<u64> {
    memory_of(process)?.checked_sub(status(process, "RssFile:")?)
}

/// The most that it was (`VmHWM`, proc(5)), in bytes.
pub fn peak_memory_of(process: u32) -> Option<u64> {
    status(process, "VmHWM:")
}

fn status(process: u32, field: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kibibytes * 1024)
}

/// Time on processors of all threads of a process: the first field of `schedstat` (proc(5)), nanoseconds; nothing, where it is gone.
pub fn processor_time_of(process: u32) -> Option<Duration> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let of_task = |task: std::io::Result<fs::DirEntry>| {
        let text = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    };
    Some(Duration::from_nanos(tasks.filter_map(of_task).sum()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_took_time_and_one_that_is_gone_has_neither() {
        let own = std::process::id();
        let (now, peak) = (memory_of(own).unwrap(), peak_memory_of(own).unwrap());
        assert!((4096..=peak).contains(&now), "{now} {peak}");
        assert!(
            (4096..now).contains(&own_memory_of(own).unwrap()),
            "what is mapped of the program's file counts nowhere else"
        );
        assert!(processor_time_of(own).unwrap() > Duration::ZERO);
        // Above every process id of this kernel.
        assert_eq!((memory_of(u32::MAX), processor_time_of(u32::MAX)), (None, None));
    }
}
