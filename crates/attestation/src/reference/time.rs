//! Instants as RFC 3339 writes them, in UTC and whole seconds.

/// `2026-01-31T23:59:59Z` of seconds since the Unix epoch. What lies beyond the year 9999 is cut there.
pub fn format_rfc3339(seconds: u64) -> String {
    let seconds = seconds.min(LAST);
    let (days, second) = (seconds / DAY, seconds % DAY);
    let (year, month, day) = date(days);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// Seconds since the Unix epoch of such a text; `None` when it is none, or before 1970.
pub fn parse_rfc3339(text: &str) -> Option<u64> {
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'Z')];
    let form = |(at, byte): (usize, &u8)| match separators.iter().find(|(place, _)| *place == at) {
        Some((_, separator)) => byte == separator,
        None => byte.is_ascii_digit(),
    };
    if text.len() != 20 || !text.as_bytes().iter().enumerate().all(form) {
        return None;
    }
    let field = |from, until| text.get(from..until).and_then(|digits: &str| digits.parse::<u64>().ok());
    let (year, month, day) = (field(0, 4)?, field(5, 7)?, field(8, 10)?);
    let (hour, minute, second) = (field(11, 13)?, field(14, 16)?, field(17, 19)?);
    let length = *months(year).get(usize::try_from(month.checked_sub(1)?).ok()?)?;
    if year < 1970 || !(1..=length).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let years: u64 = (1970..year).map(|year| months(year).iter().sum::<u64>()).sum();
    let earlier: u64 = months(year).iter().zip(1..month).map(|(length, _)| length).sum();
    Some((years + earlier + day - 1) * DAY + hour * 3600 + minute * 60 + second)
}

/// Year, month and day of a day since 1970-01-01: years, then months, are counted off.
fn date(mut days: u64) -> (u64, u64, u64) {
    let mut year = 1970;
    while let Some(rest) = days.checked_sub(months(year).iter().sum()) {
        (days, year) = (rest, year + 1);
    }
    let mut month = 1;
    for length in months(year) {
        let Some(rest) = days.checked_sub(length) else { break };
        (days, month) = (rest, month + 1);
    }
    (year, month, days + 1)
}

/// Days of the months, by the Gregorian calendar.
fn months(year: u64) -> [u64; 12] {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
}

const DAY: u64 = 86_400;
/// 9999-12-31T23:59:59Z.
const LAST: u64 = 253_402_300_799;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_those_of_the_calendar() {
        for (at, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_795_000_000, "2026-11-18T11:06:40Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (LAST, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(format_rfc3339(at), text);
            assert_eq!(parse_rfc3339(text), Some(at));
        }
        assert_eq!(format_rfc3339(u64::MAX), "9999-12-31T23:59:59Z");
    }

    #[test]
    fn another_form_is_no_instant() {
        for text in [
            "",
            "2026-01-31",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-01-31T24:00:00Z",
            "2026-01-31T00:00:00+0",
            "1969-12-31T23:59:59Z",
            "2026-01-31T00:00:0é",
        ] {
            assert_eq!(parse_rfc3339(text), None, "{text}");
        }
    }
}
