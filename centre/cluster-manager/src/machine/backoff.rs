//! How long to wait after a failure.

/// The first wait is at most this long, in milliseconds.
pub const FIRST_MS: u64 = 500;
/// No wait is longer, in milliseconds.
pub const CEILING_MS: u64 = 5 * 60 * 1000;

/// The wait after the failure number `attempt`, from 1: doubling, with a ceiling, and anywhere in the upper half of
/// that, so that clusters that fail together do not try again together.
pub(super) fn wait_ms(attempt: u32, random: u64) -> u64 {
    let doublings = attempt.saturating_sub(1).min(16);
    let bound = (FIRST_MS << doublings).min(CEILING_MS);
    bound / 2 + random % (bound / 2 + 1)
}
