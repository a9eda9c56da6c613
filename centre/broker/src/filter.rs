//! Topics and filters (MQTT 5.0, 4.7).

use serde::{Deserialize, Serialize};
use std::fmt;
use thiserror::Error;

/// Far more than any topic of Sparkplug; MQTT has 65 535.
const MAX_LENGTH: usize = 1024;
/// A `/` costs a byte, and a level time.
const MAX_LEVELS: usize = 64;

/// A filter of topics, with or without wildcards.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Filter(Box<str>);

/// Why a text is no filter.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum FilterError {
    /// Nothing, too long, too many levels.
    #[error("a topic filter has between 1 and {MAX_LENGTH} bytes, and at most {MAX_LEVELS} levels")]
    Length,
    /// A wildcard that is no level of its own, or a `#` before the end.
    #[error("a '+' is a level of its own, and a '#' the last one")]
    Wildcard,
    /// NUL, or another control character.
    #[error("a topic filter has no control characters")]
    Control,
}

impl Filter {
    /// Reads a filter.
    ///
    /// # Errors
    /// Says which rule it breaks.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        if text.is_empty() || text.len() > MAX_LENGTH || text.split('/').count() > MAX_LEVELS {
            return Err(FilterError::Length);
        }
        if text.chars().any(char::is_control) {
            return Err(FilterError::Control);
        }
        let mut levels = text.split('/').peekable();
        while let Some(level) = levels.next() {
            let last = levels.peek().is_none();
            match level {
                "+" => {}
                "#" if last => {}
                _ if level.contains(['+', '#']) => return Err(FilterError::Wildcard),
                _ => {}
            }
        }
        Ok(Self(text.into()))
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a topic is one of those that it stands for. Wildcards stand for no topic that begins with `$`.
    pub fn matches(&self, topic: &str) -> bool {
        is_topic(topic) && self.contains(topic)
    }

    /// Whether each topic that `other` stands for is one that this stands for.
    pub fn covers(&self, other: &Self) -> bool {
        self.contains(&other.0)
    }

    fn contains(&self, other: &str) -> bool {
        if other.starts_with('$') && self.0.starts_with(['+', '#']) {
            return false;
        }
        let (mut ours, mut theirs) = (self.0.split('/'), other.split('/'));
        loop {
            match (ours.next(), theirs.next()) {
                // All that is below, and the level itself.
                (Some("#"), _) | (None, None) => return true,
                (Some("+"), Some(level)) if level != "#" => {}
                (Some(our), Some(their)) if our == their => {}
                _ => return false,
            }
        }
    }
}

impl TryFrom<String> for Filter {
    type Error = FilterError;

    fn try_from(text: String) -> Result<Self, FilterError> {
        Self::parse(&text)
    }
}

impl From<Filter> for String {
    fn from(filter: Filter) -> Self {
        filter.0.into()
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Filter({})", self.0)
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a text is a topic that can be published to: a filter without wildcards.
pub fn is_topic(text: &str) -> bool {
    !text.contains(['+', '#']) && Filter::parse(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filter(text: &str) -> Filter {
        Filter::parse(text).unwrap()
    }

    #[test]
    fn topics_match_as_the_standard_says() {
        for (pattern, topic, matches) in [
            ("sport/tennis/#", "sport/tennis/player1", true),
            ("sport/tennis/#", "sport/tennis", true),
            ("sport/tennis/#", "sport/tennisx", false),
            ("sport/+", "sport/", true),
            ("sport/+", "sport", false),
            ("+/+", "/finance", true),
            ("+", "/finance", false),
            ("#", "a/b", true),
            ("#", "$SYS/x", false),
            ("+/x", "$SYS/x", false),
            ("$SYS/#", "$SYS/x", true),
            ("a/+/c", "a/b/c", true),
            ("a/+/c", "a/b/b/c", false),
            ("a", "a/b", false),
            ("#", "+", false),
        ] {
            assert_eq!(filter(pattern).matches(topic), matches, "{pattern} {topic}");
        }
    }

    #[test]
    fn a_subscription_lies_within_a_grant_or_it_does_not() {
        for (grant, asked, covers) in [
            ("spBv1.0/G/#", "spBv1.0/G/#", true),
            ("spBv1.0/G/#", "spBv1.0/G/+/N", true),
            ("spBv1.0/G/#", "spBv1.0/+/NDATA", false),
            ("spBv1.0/G/#", "spBv1.0/#", false),
            ("spBv1.0/G/#", "#", false),
            ("spBv1.0/+/NDATA/+", "spBv1.0/G/NDATA/#", false),
            ("spBv1.0/+/NDATA/+", "spBv1.0/+/NDATA/N", true),
            ("#", "#", true),
            ("#", "$SYS/#", false),
            ("a/b", "a/+", false),
            ("a/b/#", "a/b", true),
        ] {
            assert_eq!(filter(grant).covers(&filter(asked)), covers, "{grant} {asked}");
        }
    }

    #[test]
    fn what_is_no_filter_is_refused() {
        for text in ["", "a+", "a/#/b", "##", "a/b#", "a\0b", "a\nb", &"a/".repeat(64), &"a".repeat(1025)] {
            assert!(Filter::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        /// Whatever a covered filter matches, the covering one does.
        #[test]
        fn covering_is_no_wider_than_matching(
            grant in "[ab+$](/[ab+]){0,2}(/#)?", asked in "[ab+$](/[ab+]){0,2}(/#)?", topic in "[ab$](/[ab]){0,3}",
        ) {
            let (grant, asked) = (filter(&grant), filter(&asked));
            if grant.covers(&asked) && asked.matches(&topic) {
                prop_assert!(grant.matches(&topic));
            }
        }
    }
}
