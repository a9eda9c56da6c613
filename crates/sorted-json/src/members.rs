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
pub(crate) struct Member<'a> {
    /// What is between the quotes: it has escapes where the name has quotes, backslashes or control characters.
    written: &'a str,
    /// The name. It is compared again and again, so it is read once.
    pub(crate) name: Cow<'a, str>,
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
        let (written, left) = self.left.strip_prefix('"')?.split_at(string_end(&self.left[1..]));
        let left = &left["\":".len()..];
        let (value, left) = left.split_at(value_end(left));
        self.left = left.strip_prefix(',').unwrap_or_default();
        Some(Member { written, name: read(written), value })
    }
}

impl Member<'_> {
    /// Writes the name into an object that is not closed yet; the value comes next.
    pub(crate) fn begin<'b>(&self, object: &'b mut String) -> &'b mut String {
        let separator = if object.ends_with('{') { "" } else { "," };
        for part in [separator, "\"", self.written, "\":"] {
            object.push_str(part);
        }
        object
    }
}

/// The name that is written so.
fn read(written: &str) -> Cow<'_, str> {
    if !written.contains('\\') {
        return Cow::Borrowed(written);
    }
    let name = serde_json::from_str(&format!("\"{written}\""));
    Cow::Owned(name.unwrap_or_else(|error| unreachable!("{written} was a string of JSON: {error}")))
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
