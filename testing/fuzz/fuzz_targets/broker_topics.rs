//! What the broker's plugin and the auth service say to each other, filters, and permission templates: a filter that lies within
//! another matches nothing else, and no address widens a template.
#![no_main]

use latchkey_broker::protocol::{Answer, Question};
use latchkey_broker::template::{Address, expand};
use latchkey_broker::Filter;
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;

fuzz_target!(|bytes: &[u8]| {
    drop(Question::parse(bytes));
    if let Ok(answer) = Answer::parse(bytes) {
        assert!(answer.line().is_err() || Answer::parse(&answer.line().expect("a line")).is_ok_and(|again| again == answer));
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut parts = text.splitn(3, '\n');
    let (Some(first), Some(second), third) = (parts.next(), parts.next(), parts.next().unwrap_or_default()) else { return };
    if let (Ok(grant), Ok(asked)) = (Filter::parse(first), Filter::parse(second))
        && grant.covers(&asked)
        && asked.matches(third)
    {
        assert!(grant.matches(third));
    }
    let template = BTreeMap::from([(first.to_owned(), "rw".to_owned())]);
    let (grants, _) = expand(&template, Address { group: Some(second), node: Some(third) });
    let shape = |text: &str| text.split('/').map(|level| ["+", "#"].contains(&level)).collect::<Vec<_>>();
    assert!(grants.iter().all(|grant| shape(grant.filter.as_str()) == shape(first)));
});
