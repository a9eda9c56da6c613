//! `grpc-timeout`: how long the caller will wait.
//!
//! "`TimeoutValue` → {positive integer as ASCII string of at most 8 digits}", "`TimeoutUnit` → Hour / Minute / Second /
//! Millisecond / Microsecond / Nanosecond" (gRPC over HTTP/2, Requests).

use http::HeaderValue;
use std::time::Duration;

const MAX_VALUE: u128 = 99_999_999;

/// Reads a `grpc-timeout`; `None` if it is malformed.
pub(crate) fn parse(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let count: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(match unit {
        b'H' => Duration::from_secs(count * 3600),
        b'M' => Duration::from_secs(count * 60),
        b'S' => Duration::from_secs(count),
        b'm' => Duration::from_millis(count),
        b'u' => Duration::from_micros(count),
        b'n' => Duration::from_nanos(count),
        _ => return None,
    })
}

/// Writes a duration in the finest unit that holds it, rounded up: the peer must not give up before the caller does.
pub(crate) fn format(timeout: Duration) -> HeaderValue {
    const UNITS: [(u128, char); 6] = [
        (1, 'n'),
        (1_000, 'u'),
        (1_000_000, 'm'),
        (1_000_000_000, 'S'),
        (60_000_000_000, 'M'),
        (3_600_000_000_000, 'H'),
    ];
    let nanos = timeout.as_nanos();
    let (value, unit) = UNITS
        .into_iter()
        .map(|(size, unit)| (nanos.div_ceil(size), unit))
        .find(|(value, _)| *value <= MAX_VALUE)
        .unwrap_or((MAX_VALUE, 'H'));
    HeaderValue::try_from(format!("{value}{unit}")).unwrap_or_else(|_| HeaderValue::from_static("0n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_unit_is_understood() {
        let expected = [(&b"2H"[..], 7200), (b"3M", 180), (b"99999999S", 99_999_999), (b"1000m", 1), (b"2000000u", 2)];
        for (text, seconds) in expected {
            assert_eq!(parse(text), Some(Duration::from_secs(seconds)));
        }
        assert_eq!(parse(b"5n"), Some(Duration::from_nanos(5)));
    }

    #[test]
    fn malformed_timeouts_are_refused() {
        for text in [&b""[..], b"S", b"1", b"-1S", b"+1S", b"1 S", b"1s", b"123456789S", b"1.5S", "１S".as_bytes()] {
            assert_eq!(parse(text), None, "{}", text.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn a_written_timeout_is_never_shorter(nanos in 0_u64..) {
            let timeout = Duration::from_nanos(nanos);
            let read = parse(format(timeout).as_bytes()).unwrap();
            prop_assert!(read >= timeout && read.as_secs_f64() <= timeout.as_secs_f64() * 1.000_01 + 1e-6);
        }

        #[test]
        fn parsing_takes_any_bytes(value: Vec<u8>) {
            parse(&value);
        }
    }
}
