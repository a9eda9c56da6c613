//! What ends by its date, told in time: from thirty days before.

use latchkey_cluster_store::certificate::SOON;

const DAY: u64 = 24 * 60 * 60;

/// When it ends, for people; nothing before it ends soon. Both in seconds since the Unix epoch.
pub fn soon(ends: u64, now: u64) -> Option<String> {
    match ends.checked_sub(now) {
        None => Some("has ended".to_owned()),
        Some(left) if left < SOON => Some(format!("ends in {} days", left / DAY)),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_spoken_of_in_the_last_thirty_days_and_after_the_end() {
        let now = 1_800_000_000;
        assert_eq!(soon(now + 30 * DAY, now), None);
        for (ends, said) in [(now + 30 * DAY - 1, "ends in 29 days"), (now, "ends in 0 days"), (now - 1, "has ended")] {
            assert_eq!(soon(ends, now).as_deref(), Some(said));
        }
    }
}
