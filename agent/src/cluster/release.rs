//! A release of Kubernetes, as its programs say it.

use std::fmt;

use super::check;

/// `v1.34.4`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Release {
    text: String,
    numbers: [u16; 3],
}

impl Release {
    /// `None` if it is no release: kubeadm knows labels too, and fetches their meaning.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let release = text.strip_prefix('v').filter(|_| check::is_version(text))?;
        let mut numbers = release.split('-').next()?.split('.').map(|number| number.parse::<u16>().ok());
        let mut next = || numbers.next().flatten();
        Some(Self { numbers: [next()?, next()?, next()?], text: text.to_owned() })
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// As the operator says it: `1.34`.
    pub(super) fn minor(&self) -> String {
        let [major, minor, _] = self.numbers;
        format!("{major}.{minor}")
    }

    /// By how many minor versions it is ahead of another; below zero if it is behind. Another major version is far away.
    pub(super) fn ahead_of(&self, other: &Self) -> i32 {
        let place = |[major, minor, _]: [u16; 3]| i32::from(major) * 10_000 + i32::from(minor);
        place(self.numbers) - place(other.numbers)
    }

    pub(super) fn is_older_than(&self, other: &Self) -> bool {
        self.numbers < other.numbers
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(text: &str) -> Release {
        Release::parse(text).unwrap()
    }

    #[test]
    fn a_release_says_its_minor_version_and_how_far_it_is_from_another() {
        assert_eq!((&*release("v1.34.4").minor(), &*release("v1.34.0-rc.1").minor()), ("1.34", "1.34"));
        for (one, other, ahead) in [
            ("v1.35.0", "v1.34.9", 1),
            ("v1.34.0-rc.1", "v1.34.4", 0),
            ("v1.34.4", "v1.36.0", -2),
            ("v2.0.0", "v1.34.0", 9966),
        ] {
            assert_eq!(release(one).ahead_of(&release(other)), ahead, "{one} {other}");
        }
        assert!(release("v1.9.0").is_older_than(&release("v1.10.0")));
        assert!(!release("v1.34.4").is_older_than(&release("v1.34.4")));
    }

    #[test]
    fn what_is_no_release_is_none() {
        for bad in ["1.34.4", "v1.34", "stable-1", "v1.34.x", "", "v99999.1.1"] {
            assert!(Release::parse(bad).is_none(), "{bad}");
        }
    }
}
