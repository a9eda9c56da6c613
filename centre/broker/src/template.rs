//! Permission templates: entries of the application *MQTT permission template* (`1266ddf1-156c-4266-9808-d6949418b185`).
//!
//! Such an entry is `{topic: access}`: in the topic, `%g` stands for the group and `%n` for the node of the Sparkplug address
//! that the permission is granted for. A value is put in as text of one level: one that could be more is an error, so that
//! nobody widens a grant by a name.

use crate::filter::{Filter, FilterError};
use crate::grant::{Access, AccessError, Grant};
use std::collections::BTreeMap;
use thiserror::Error;

/// No template has more.
const MAX_ENTRIES: usize = 256;

/// Which address a permission is granted for: as much of it as there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Address<'a> {
    /// `group_id`.
    pub group: Option<&'a str>,
    /// `node_id`.
    pub node: Option<&'a str>,
}

/// Why an entry of a template gives no grant.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TemplateError {
    /// The address has no such part.
    #[error("the topic has {0}, and the Sparkplug address of the permission's target has none")]
    Missing(&'static str),
    /// A part of the address that is no text of one level.
    #[error(
        "{0} of the Sparkplug address is no name: it is empty, or has '+', '#', '/', '$', '%' or a control character"
    )]
    Value(&'static str),
    /// What came out is no filter.
    #[error("the topic: {0}")]
    Filter(#[from] FilterError),
    /// The access is none.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// More entries than a template has.
    #[error("a template has at most {MAX_ENTRIES} entries")]
    TooMany,
}

/// The grants of a template for an address, and, topic by topic, why others are not given: no entry that is bad takes a good
/// one with it, and none gives anything.
pub fn expand(template: &BTreeMap<String, String>, address: Address<'_>) -> (Vec<Grant>, Vec<(String, TemplateError)>) {
    let (mut grants, mut refused) = (Vec::new(), Vec::new());
    for (number, (topic, access)) in template.iter().enumerate() {
        let grant = if number < MAX_ENTRIES { grant(topic, access, address) } else { Err(TemplateError::TooMany) };
        match grant {
            Ok(grant) => grants.push(grant),
            Err(error) => {
                refused.push((topic.chars().take(200).collect(), error));
                if number >= MAX_ENTRIES {
                    break;
                }
            }
        }
    }
    (grants, refused)
}

fn grant(topic: &str, access: &str, address: Address<'_>) -> Result<Grant, TemplateError> {
    // As it is written: a bad template is told without an address, and is not read twice.
    Filter::parse(topic)?;
    let access = Access::parse(access)?;
    let mut filled = String::new();
    let mut rest = topic;
    while let Some((before, after)) = rest.split_once('%') {
        filled += before;
        let (value, after) = match after.as_bytes().first() {
            Some(b'g') => (level("%g", address.group)?, &after[1..]),
            Some(b'n') => (level("%n", address.node)?, &after[1..]),
            _ => ("%", after),
        };
        filled += value;
        rest = after;
    }
    filled += rest;
    Ok(Grant { filter: Filter::parse(&filled)?, access })
}

/// A value that is text of one level, and not one of the broker's own topics.
fn level<'a>(name: &'static str, value: Option<&'a str>) -> Result<&'a str, TemplateError> {
    let value = value.ok_or(TemplateError::Missing(name))?;
    let bad = |c: char| "+#/$%".contains(c) || c.is_control();
    if value.is_empty() || value.len() > 255 || value.contains(bad) {
        return Err(TemplateError::Value(name));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(topic: &str, address: Address<'_>) -> Result<Grant, TemplateError> {
        let template = BTreeMap::from([(topic.to_owned(), "rw".to_owned())]);
        let (mut grants, mut refused) = expand(&template, address);
        refused.pop().map_or_else(|| Ok(grants.pop().unwrap()), |(_, error)| Err(error))
    }

    #[test]
    fn an_address_is_filled_in() {
        let address = Address { group: Some("Site-Cell"), node: Some("Monitor") };
        let grant = one("spBv1.0/%g/NDATA/%n", address).unwrap();
        assert_eq!(grant.filter.as_str(), "spBv1.0/Site-Cell/NDATA/Monitor");
        assert_eq!(one("spBv1.0/%g/DCMD/%n/+", address).unwrap().filter.as_str(), "spBv1.0/Site-Cell/DCMD/Monitor/+");
        assert_eq!(one("a/100%/%x", address).unwrap().filter.as_str(), "a/100%/%x");
    }

    #[test]
    fn a_name_never_widens_a_grant() {
        for value in ["+", "#", "a/b", "", "a+", "$SYS", "%n", "a\0", "a\n", &"a".repeat(256)] {
            let address = Address { group: Some(value), node: Some("N") };
            assert_eq!(one("spBv1.0/%g/NDATA/%n", address), Err(TemplateError::Value("%g")), "{value:?}");
        }
        let address = Address { group: Some("G"), node: None };
        assert_eq!(one("spBv1.0/%g/NDATA/%n", address), Err(TemplateError::Missing("%n")));
    }

    #[test]
    fn a_bad_entry_takes_no_good_one_with_it() {
        let template = [("a/%n", "r"), ("b", "r"), ("c/#/d", "r"), ("e", "q")];
        let template = template.map(|(topic, access)| (topic.to_owned(), access.to_owned())).into();
        let (grants, refused) = expand(&template, Address::default());
        assert_eq!(grants.iter().map(|grant| grant.filter.as_str()).collect::<Vec<_>>(), ["b"]);
        assert_eq!(refused.iter().map(|(topic, _)| topic.as_str()).collect::<Vec<_>>(), ["a/%n", "c/#/d", "e"]);
    }

    proptest! {
        /// What comes out has the template's levels and wildcards, and no others.
        #[test]
        fn levels_and_wildcards_are_those_of_the_template(
            topic in "[ab%gn+/]{1,12}", group in ".{0,6}", node in ".{0,6}",
        ) {
            let address = Address { group: Some(&group), node: Some(&node) };
            if let Ok(grant) = one(&topic, address) {
                let wild = |text: &str| text.split('/').map(|level| level == "+").collect::<Vec<_>>();
                prop_assert_eq!(wild(grant.filter.as_str()), wild(&topic));
            }
        }
    }
}
