//! kadmind's access control list, `kadm5.acl`: written for a centre, read, and judged as kadmind judges it.
//!
//! A line is who, rights, and, where it is said, about whom: `op1krbkeys/*@R acdim op1sync/*1@R`. A part `*` matches any one
//! part; `*1` in the last field is what the first `*` of the first field matched. The first line that matches counts. Lines
//! with restrictions (a fourth field) are refused here: nobody needs them, and they have a language of their own.

use latchkey_factory_plus::{NODE_ACCOUNT, Realm, Role, Upn};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Longer files are not read.
const MAX_FILE: usize = 64 * 1024;
const MAX_RULES: usize = 1024;

/// Something that kadmind asks the list about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Make principals.
    Add,
    /// Set passwords and keys.
    ChangePassword,
    /// Delete principals.
    Delete,
    /// Read about principals.
    Inquire,
    /// List names; about nobody in particular.
    List,
    /// Change times and flags.
    Modify,
    /// Set given keys.
    SetKeys,
    /// Get the keys that a principal has.
    Extract,
}

impl Right {
    const ALL: [(char, Self); 8] = [
        ('a', Self::Add),
        ('c', Self::ChangePassword),
        ('d', Self::Delete),
        ('i', Self::Inquire),
        ('l', Self::List),
        ('m', Self::Modify),
        ('s', Self::SetKeys),
        ('e', Self::Extract),
    ];

    fn letter(self) -> char {
        Self::ALL.iter().find(|(_, right)| *right == self).map_or('?', |(letter, _)| *letter)
    }
}

/// A part of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Is(String),
    Any,
    /// What the wildcard of this number (from 1) matched.
    Same(usize),
}

/// A pattern of principals.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    components: Vec<Part>,
    realm: Part,
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    who: Pattern,
    /// Letters, as in the file.
    rights: String,
    about: Option<Pattern>,
}

/// The list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acl(Vec<Rule>);

/// Why a text is no list.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum AclError {
    /// Too long.
    #[error("a list has at most {MAX_FILE} bytes and {MAX_RULES} rules")]
    TooLarge,
    /// Not two or three fields.
    #[error("line {0}: a rule is who, rights, and perhaps about whom; restrictions are not taken here")]
    Fields(usize),
    /// Not what a pattern is made of.
    #[error("line {0}: a pattern is name@REALM, where each part is a word, '*', or, in the last field, '*1' to '*9'")]
    Pattern(usize),
    /// A letter that is none of a right.
    #[error("line {0}: rights are letters of 'acdilmspex' or '*'")]
    Rights(usize),
}

impl Acl {
    /// The list of a centre: `admins` may do everything but extract keys, `managers` manage the principals of all edge clusters,
    /// and the key operator of each edge cluster manages that cluster's: `role/cluster` of each [`Role`], and `role/cluster/…` of
    /// [`NODE_ACCOUNT`].
    ///
    /// The rules name the roles, so they hold for every cluster that will ever be, whatever it is called: a cluster `admin`
    /// has `op1sync/admin`, and no `alice/admin`.
    ///
    /// # Errors
    /// So many administrators and managers that the list is too long.
    pub fn of_centre(realm: &Realm, admins: &[Upn], managers: &[Upn]) -> Result<Self, AclError> {
        let mut lines: Vec<String> = admins.iter().map(|admin| format!("{admin} x")).collect();
        let operator = Role::KrbKeys.account();
        let clusters = Role::ALL.map(|role| (role.account(), "")).into_iter();
        for (role, node) in clusters.chain([(NODE_ACCOUNT, "/*")]) {
            lines.push(format!("{operator}/*@{realm} acdim {role}/*1{node}@{realm}"));
            lines.extend(managers.iter().map(|manager| format!("{manager} acdim {role}/*{node}@{realm}")));
        }
        lines.extend(managers.iter().map(|manager| format!("{manager} l")));
        lines.join("\n").parse()
    }

    /// Whether kadmind would let `who` do this; `about` is nobody for [`Right::List`]. kadmind itself lets everybody read
    /// about and change the password of itself, whatever the list says.
    pub fn allows(&self, who: &Upn, right: Right, about: Option<&Upn>) -> bool {
        let rule = self.0.iter().find(|rule| rule.matches(who, about));
        rule.is_some_and(|rule| rule.gives(right))
    }

    /// The rules, in their order.
    pub fn rules(&self) -> &[Rule] {
        &self.0
    }
}

impl Rule {
    fn matches(&self, who: &Upn, about: Option<&Upn>) -> bool {
        let mut caught = Vec::new();
        if !self.who.matches(who, &mut caught, true) {
            return false;
        }
        match (&self.about, about) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(pattern), Some(about)) => pattern.matches(about, &mut caught, false),
        }
    }

    fn gives(&self, right: Right) -> bool {
        self.rights.chars().any(|letter| match letter {
            // Everything but extraction.
            'x' | '*' => right != Right::Extract,
            letter => letter == right.letter(),
        })
    }
}

impl Pattern {
    /// `caught` is filled by the wildcards, or only read.
    fn matches(&self, upn: &Upn, caught: &mut Vec<String>, catch: bool) -> bool {
        if self.components.len() != upn.components().count() {
            return false;
        }
        let parts = self.components.iter().chain([&self.realm]);
        parts.zip(upn.components().chain([upn.realm()])).all(|(part, text)| match part {
            Part::Is(word) => word == text,
            Part::Same(number) => caught.get(number - 1).is_some_and(|word| word == text),
            Part::Any => {
                if catch {
                    caught.push(text.to_owned());
                }
                true
            }
        })
    }

    fn parse(text: &str, references: bool) -> Option<Self> {
        let (name, realm) = text.split_once('@')?;
        let part = |text: &str| match text {
            "*" => Some(Part::Any),
            _ if Upn::is_part(text) => Some(Part::Is(text.to_owned())),
            _ => {
                let digit = text.strip_prefix('*').filter(|rest| references && rest.len() == 1)?;
                digit.parse().ok().filter(|number| *number > 0).map(Part::Same)
            }
        };
        Some(Self { components: name.split('/').map(part).collect::<Option<_>>()?, realm: part(realm)? })
    }
}

impl FromStr for Acl {
    type Err = AclError;

    /// Reads a file's text. Total, and bounded by its length.
    fn from_str(text: &str) -> Result<Self, AclError> {
        if text.len() > MAX_FILE {
            return Err(AclError::TooLarge);
        }
        let mut rules = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let number = number + 1;
            // No escape and no continuation: a line that has one is no rule.
            let mut fields = line.split([' ', '\t']).filter(|field| !field.is_empty());
            let Some(who) = fields.next().filter(|field| !field.starts_with('#')) else { continue };
            let (rights, about) = (fields.next().ok_or(AclError::Fields(number))?, fields.next());
            if fields.next().is_some() {
                return Err(AclError::Fields(number));
            }
            let known = |letter: char| "px*".contains(letter) || Right::ALL.iter().any(|(known, _)| *known == letter);
            if !rights.chars().all(known) {
                return Err(AclError::Rights(number));
            }
            let who = Pattern::parse(who, false).ok_or(AclError::Pattern(number))?;
            let about = about.map(|about| Pattern::parse(about, true).ok_or(AclError::Pattern(number)));
            rules.push(Rule { who, rights: rights.to_owned(), about: about.transpose()? });
            if rules.len() > MAX_RULES {
                return Err(AclError::TooLarge);
            }
        }
        Ok(Self(rules))
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Is(word) => f.write_str(word),
            Self::Any => f.write_str("*"),
            Self::Same(number) => write!(f, "*{number}"),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, component) in self.components.iter().enumerate() {
            let between = if place == 0 { "" } else { "/" };
            write!(f, "{between}{component}")?;
        }
        write!(f, "@{}", self.realm)
    }
}

impl fmt::Display for Acl {
    /// The file's text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|rule| match &rule.about {
            None => writeln!(f, "{} {}", rule.who, rule.rights),
            Some(about) => writeln!(f, "{} {} {about}", rule.who, rule.rights),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn centre() -> Acl {
        Acl::of_centre(&"R".parse().unwrap(), &["op1centre/admin@R".parse::<Upn>().unwrap()], &[]).unwrap()
    }

    fn may(who: &str, right: Right, about: &str) -> bool {
        let upn = |name: &str| format!("{name}@R").parse::<Upn>().unwrap();
        centre().allows(&upn(who), right, Some(&upn(about)))
    }

    #[test]
    fn a_key_operator_manages_its_own_cluster() {
        for about in ["op1sync/Test", "op1monitor/Test", "op1flux/Test", "op1krbkeys/Test", "nd1/Test/Agent1"] {
            for right in [Right::Add, Right::ChangePassword, Right::Delete, Right::Inquire, Right::Modify] {
                assert!(may("op1krbkeys/Test", right, about), "{right:?} {about}");
            }
            assert!(!may("op1krbkeys/Test", Right::Extract, about));
        }
        for about in ["op1sync/Other", "nd1/Other/Agent1", "alice", "op1sync", "sv1auth/Test", "HTTP/Test", "nd1/Test"]
        {
            assert!(!may("op1krbkeys/Test", Right::ChangePassword, about), "{about}");
        }
        assert!(!may("op1sync/Test", Right::ChangePassword, "op1monitor/Test"));
    }

    #[test]
    fn a_cluster_called_admin_is_no_administrator() {
        for about in ["op1centre/admin", "kadmin/admin", "alice/admin", "krbtgt/R", "K/M"] {
            assert!(!may("op1krbkeys/admin", Right::ChangePassword, about), "{about}");
        }
        assert!(may("op1krbkeys/admin", Right::ChangePassword, "op1sync/admin"));
        assert!(!may("op1krbkeys/R", Right::ChangePassword, "krbtgt/R"));
    }

    #[test]
    fn names_are_listed_by_administrators_alone() {
        let upn = |name: &str| name.parse::<Upn>().unwrap();
        assert!(centre().allows(&upn("op1centre/admin@R"), Right::List, None));
        assert!(!centre().allows(&upn("op1krbkeys/Test@R"), Right::List, None));
    }

    #[test]
    fn what_the_original_has_hands_over_administrators() {
        let original: Acl = "op1krbkeys/*@R x */*1@R".parse().unwrap();
        let (operator, admin) = ("op1krbkeys/admin@R".parse::<Upn>().unwrap(), "alice/admin@R".parse::<Upn>().unwrap());
        assert!(original.allows(&operator, Right::ChangePassword, Some(&admin)));
    }

    #[test]
    fn bad_lines_are_named() {
        for (text, error) in [
            ("# good\n\nalice@R", AclError::Fields(3)),
            ("alice@R x bob@R -maxlife 1h", AclError::Fields(1)),
            ("alice x", AclError::Pattern(1)),
            ("*1/x@R x", AclError::Pattern(1)),
            ("alice@R x */*0@R", AclError::Pattern(1)),
            ("alice@R x a*/b@R", AclError::Pattern(1)),
            ("alice@R xz", AclError::Rights(1)),
            ("alice@R X", AclError::Rights(1)),
        ] {
            assert_eq!(text.parse::<Acl>(), Err(error), "{text}");
        }
        assert_eq!("x".repeat(MAX_FILE + 1).parse::<Acl>(), Err(AclError::TooLarge));
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_and_read_the_same(text in "[a-c*1-2/@ xi\n#]{0,80}") {
            if let Ok(acl) = text.parse::<Acl>() {
                prop_assert_eq!(acl.to_string().parse::<Acl>(), Ok(acl));
            }
        }
    }
}
