//! Log lines that a peer can cause at will, and for nothing, come at a bounded rate; the rest are counted.

use latchkey_connection_limits::{Rate, TokenBucket};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

const LINES: Rate = Rate { per_minute: 60, burst: 20 };

/// One kind of such lines.
#[derive(Debug)]
pub struct LogLimiter {
    started: Instant,
    state: Mutex<(TokenBucket, u64)>,
}

impl LogLimiter {
    /// A kind of its own, at full allowance.
    pub fn new() -> Self {
        Self::at(LINES)
    }

    /// A kind of its own, at a rate of its own.
    pub(crate) fn at(rate: Rate) -> Self {
        Self { started: Instant::now(), state: Mutex::new((TokenBucket::new(rate), 0)) }
    }

    /// Whether to write the line at hand: how many lines were left out since the last one, or `None` to leave it out.
    pub fn write_now(&self) -> Option<u64> {
        let (bucket, left_out) = &mut *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if bucket.take(self.started.elapsed()).is_ok() {
            Some(std::mem::take(left_out))
        } else {
            *left_out += 1;
            None
        }
    }
}

impl Default for LogLimiter {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_lines_is_cut_and_counted() {
        let noise = LogLimiter::new();
        let written = (0..1000).filter_map(|_| noise.write_now()).count();
        assert!((20..=21).contains(&written), "{written}");
        noise.state.lock().unwrap().0 = TokenBucket::new(Rate { per_minute: 1, burst: 1 });
        assert_eq!(noise.write_now(), Some(1000 - u64::try_from(written).unwrap()));
    }
}
