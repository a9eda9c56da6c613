//! Versions of programs, as they say them.

use std::fmt;
use std::str::FromStr;

/// How much of a wrong text is shown.
const SHOWN: usize = 40;

/// `v1.34.4`. What stands behind the numbers (`-rc.1`, `+k3s1`) changes nothing about what works with what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    pub(crate) major: u16,
    pub(crate) minor: u16,
    pub(crate) patch: u16,
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.trim().strip_prefix('v').unwrap_or(text.trim()).split(['-', '+']).next().unwrap_or_default();
        let mut numbers = numbers.split('.').map(|number| number.parse::<u16>().ok());
        match (numbers.next().flatten(), numbers.next().flatten(), numbers.next().flatten(), numbers.next()) {
            (Some(major), Some(minor), Some(patch), None) => Ok(Self { major, minor, patch }),
            _ => Err(format!("{:?} is no version", text.chars().take(SHOWN).collect::<String>())),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_three_numbers_and_what_stands_behind_them_is_let_go() {
        for (text, version) in
            [("v1.34.4", (1, 34, 4)), ("v1.32.4-dispatcher", (1, 32, 4)), ("v3.22.0+gabc\n", (3, 22, 0))]
        {
            let parsed: Version = text.parse().unwrap();
            assert_eq!((parsed.major, parsed.minor, parsed.patch), version, "{text}");
        }
        let long = "9".repeat(10_000);
        for text in ["", "v", "1.34", "1.34.4.5", "1.x.2", "99999999.1.1", "-1.2.3", &long] {
            assert!(text.parse::<Version>().unwrap_err().len() < 60, "{text}");
        }
    }
}
