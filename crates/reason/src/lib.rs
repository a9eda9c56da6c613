//! Reason codes: what a program says when it fails or refuses. And [`printable`]: how it says what others wrote.
//!
//! A reason code is a kebab-case string that is stable for ever: operators search for it, alerts match it, peers act on it. In
//! the code it is a variant of a closed enum, made by [`reason_codes!`], so that no decision compares strings and none is
//! forgotten. Each code has a remedy: one sentence that says what to do. An error's `Display` says what happened; its `code`
//! method gives the code; the remedy is asked of the code and printed by whoever talks to a human.
//!
//! Two suffixes tell errors apart: an `…Error` is a failure (something did not work), a `…Refusal` is a decision (something
//! works and is not let in).
//!
//! The list of all codes of all crates is `docs/reason-codes.md`; a test holds it to the code.

#![no_std]

mod text;

use core::fmt;

pub use text::{misleads, printable};

/// A row of the list of reason codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The stable code, kebab case.
    pub code: &'static str,
    /// One sentence that says what to do, without a full stop.
    pub remedy: &'static str,
}

impl Reason {
    /// The stable code, kebab case.
    pub const fn as_str(self) -> &'static str {
        self.code
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code)
    }
}

/// What errors of several enums have in common.
impl<C: ReasonCode> From<C> for Reason {
    fn from(code: C) -> Self {
        code.reason()
    }
}

/// What tests ask.
impl<C: ReasonCode> PartialEq<C> for Reason {
    fn eq(&self, code: &C) -> bool {
        *self == code.reason()
    }
}

/// A closed enum of reason codes. Only [`reason_codes!`] implements it.
pub trait ReasonCode: Copy + Eq + fmt::Debug + fmt::Display + 'static {
    /// Every code, in the order of the source.
    const ALL: &'static [Self];

    /// The stable code and its remedy.
    fn reason(self) -> Reason;

    /// The code that a text names; `None` for one that this release does not know.
    fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.reason().code == text)
    }
}

/// Every row of one enum, for the list of all.
pub fn reasons<C: ReasonCode>() -> impl Iterator<Item = Reason> {
    C::ALL.iter().map(|code| code.reason())
}

/// Declares a closed enum of reason codes: each variant with its stable code and its remedy.
///
/// ```
/// latchkey_reason::reason_codes! {
///     /// Why a file is not read.
///     pub enum FileCode {
///         /// It is longer than any file of its kind.
///         TooLong = "file-too-long": "give the file that the command asks for";
///     }
/// }
/// assert_eq!(FileCode::TooLong.as_str(), "file-too-long");
/// ```
#[macro_export]
macro_rules! reason_codes {
    (
        $(#[$doc:meta])*
        $vis:vis enum $name:ident {
            $($(#[$variant_doc:meta])* $variant:ident = $code:literal: $remedy:literal;)+
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        $vis enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        // A private enum may use fewer of these.
        #[allow(dead_code)]
        impl $name {
            /// The stable code, kebab case.
            $vis const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $code,)+ }
            }

            /// One sentence that says what to do.
            $vis const fn remedy(self) -> &'static str {
                match self { $(Self::$variant => $remedy,)+ }
            }
        }

        impl $crate::ReasonCode for $name {
            const ALL: &'static [Self] = &[$(Self::$variant,)+];

            fn reason(self) -> $crate::Reason {
                $crate::Reason { code: self.as_str(), remedy: self.remedy() }
            }
        }

        impl ::core::fmt::Display for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    reason_codes! {
        /// Two codes.
        enum Sample {
            /// The first.
            First = "sample-first": "do the first thing";
            /// The second.
            Second = "sample-second": "do the second thing";
        }
    }

    #[test]
    fn a_code_is_found_by_its_text_and_no_other_is() {
        assert_eq!(Sample::parse("sample-second"), Some(Sample::Second));
        assert_eq!(Sample::parse("sample-Second"), None);
        assert_eq!(Sample::parse(""), None);
    }

    #[test]
    fn the_list_has_every_code_with_its_remedy() {
        let rows: [Reason; 2] = [
            Reason { code: "sample-first", remedy: "do the first thing" },
            Reason { code: "sample-second", remedy: "do the second thing" },
        ];
        assert!(reasons::<Sample>().eq(rows));
    }
}
