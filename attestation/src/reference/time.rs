//! Instants as RFC 3339 writes them, in UTC and whole seconds.

/// `2026-01-31T23:59:59Z` of seconds since the Unix epoch. What lies beyond the year 9999 is cut there.
pub(crate) fn instant(seconds: u64) -> String {
    let seconds = seconds.min(LAST);
    let (days, second) = (seconds / DAY, seconds % DAY);
    let (year, month, day) = date(days);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// Whether `text` has the form, and its fields are in range.
pub(crate) fn is_instant(text: &str) -> bool {
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'Z')];
    let bytes = text.as_bytes();
    let form = bytes.len() == 20
        && bytes.iter().enumerate().all(|(at, byte)| match separators.iter().find(|(place, _)| *place == at) {
            Some((_, separator)) => byte == separator,
            None => byte.is_ascii_digit(),
        });
    let field = |from, until| text.get(from..until).and_then(|digits: &str| digits.parse::<u32>().ok());
    let within = |value: Option<u32>, low, high| value.is_some_and(|value| (low..=high).contains(&value));
    form && within(field(5, 7), 1, 12)
        && within(field(8, 10), 1, 31)
        && within(field(11, 13), 0, 23)
        && within(field(14, 16), 0, 59)
        && within(field(17, 19), 0, 60)
}

/// Year, month and day of a day since 1970-01-01, by the Gregorian calendar: years, then months, are counted off.
fn date(mut days: u64) -> (u64, u64, u64) {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

const DAY: u64 = 86_400;
/// 9999-12-31T23:59:59Z.
const LAST: u64 = 253_402_300_799;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_795_000_000, "2026-11-18T11:06:40Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (LAST, "9999-12-31T23:59:59Z"),
            (u64::MAX, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(instant(seconds), text);
            assert!(is_instant(text));
        }
    }

    #[test]
    fn another_form_is_no_instant() {
        for text in ["", "2026-01-31", "2026-13-01T00:00:00Z", "2026-01-31T24:00:00Z", "2026-01-31T00:00:00+0", "é026"]
        {
            assert!(!is_instant(text), "{text}");
        }
    }
}
