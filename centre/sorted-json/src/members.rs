//! The members of an object, found in its text.

use std::borrow::Cow;

use crate::scan::{outside_strings, string_end};

/// The members of an object, in the order of their names. Its text is one of a [`Json`](crate::Json): without spaces, and sorted.
#[derive(Clone, Default)]
pub(crate) struct Members<'a> {
    /// What is left, up to the closing brace: each member but the first begins behind a comma.
    left: &'a str,
}

/// A member, in parts of the object's text.
#[derive(Clone, Copy)]
pub(crate) struct Member<'a> {
    /// What is between the quotes.
    name: &'a str,
    pub(crate) value: &'a str,
}

impl<'a> Members<'a> {
    /// None if this is another value than an object.
    pub(crate) fn of(text: &'a str) -> Option<Self> {
        Some(Self { left: text.strip_prefix('{')?.strip_suffix('}')? })
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = Member<'a>;

    fn next(&mut self) -> Option<Member<'a>> {
        let (name, left) = self.left.strip_prefix('"')?.split_at(string_end(&self.left[1..]));
        let left = &left["\":".len()..];
        let (value, left) = left.split_at(value_end(left));
        self.left = left.strip_prefix(',').unwrap_or_default();
        Some(Member { name, value })
    }
}

impl<'a> Member<'a> {
    /// The name; its text has escapes where it has quotes, backslashes or control characters.
    pub(crate) fn name(&self) -> Cow<'a, str> {
        if !self.name.contains('\\') {
            return Cow::Borrowed(self.name);
        }
        let read = serde_json::from_str(&format!("\"{}\"", self.name));
        Cow::Owned(read.unwrap_or_else(|error| unreachable!("{} was a string of JSON: {error}", self.name)))
    }

    /// Writes the name into an object that is not closed yet; the value comes next.
    pub(crate) fn begin<'b>(&self, object: &'b mut String) -> &'b mut String {
        let separator = if object.ends_with('{') { "" } else { "," };
        for part in [separator, "\"", self.name, "\":"] {
            object.push_str(part);
        }
        object
    }
}

/// Where the value ends with which the text begins: before a comma that is in nothing else, or at the end.
fn value_end(text: &str) -> usize {
    let mut depth = 0_usize;
    let end = outside_strings(text).find(|(_, byte)| {
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        *byte == b',' && depth == 0
    });
    end.map_or(text.len(), |(at, _)| at)
}
