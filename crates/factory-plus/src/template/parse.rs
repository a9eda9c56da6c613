//! Finds placeholders in a text.

/// `{{name}}` or `{{name:default}}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Placeholder<'a> {
    /// The path of the parameter, with dots.
    pub(super) name: &'a str,
    /// What it is where there is no such parameter; never empty.
    pub(super) default: Option<&'a str>,
}

/// A part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// It stays.
    Text(&'a str),
    /// It is replaced.
    Placeholder(Placeholder<'a>),
}

/// The parts of a text, in their order. Braces that hold no placeholder are text. Takes time in proportion to the text.
pub(super) fn pieces(mut text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut next = None;
    std::iter::from_fn(move || {
        if let Some(placeholder) = next.take() {
            return Some(Piece::Placeholder(placeholder));
        }
        if text.is_empty() {
            return None;
        }
        let (mut from, mut close) = (0, 0);
        while let Some(at) = text[from..].find("{{").map(|at| from + at) {
            // Looked for once, and not again for each brace that opens before it.
            if close <= at {
                close = at + text[at..].find('}').unwrap_or(text.len() - at);
            }
            if let Some((placeholder, rest)) = placeholder(&text[at..], close - at) {
                let before = &text[..at];
                text = rest;
                if before.is_empty() {
                    return Some(Piece::Placeholder(placeholder));
                }
                next = Some(placeholder);
                return Some(Piece::Text(before));
            }
            from = at + 1;
        }
        Some(Piece::Text(std::mem::take(&mut text)))
    })
}

/// The placeholder that a text is, but for space around it.
pub(super) fn whole(text: &str) -> Option<Placeholder<'_>> {
    let text = text.trim_matches(is_space);
    match placeholder(text, text.find('}')?) {
        Some((placeholder, "")) => Some(placeholder),
        _ => None,
    }
}

/// The placeholder that a text begins with, and what follows it; the first brace that closes is at `close`, or there is none.
fn placeholder(text: &str, close: usize) -> Option<(Placeholder<'_>, &str)> {
    let (inner, rest) = text.split_at_checked(close)?;
    let (inner, rest) = (inner.strip_prefix("{{")?.trim_start_matches(is_space), rest.strip_prefix("}}")?);
    let end = inner.find(|other| !in_name(other)).unwrap_or(inner.len());
    let (name, after) = inner.split_at(end);
    if !name.starts_with(|first: char| first.is_alphabetic() || first == '_' || first == '$') {
        return None;
    }
    let default = match after.strip_prefix(':') {
        Some(default) => default,
        None if after.trim_start_matches(is_space).is_empty() => "",
        None => return None,
    };
    Some((Placeholder { name, default: (!default.is_empty()).then_some(default) }, rest))
}

fn in_name(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '.' | '$' | '-')
}

/// What ECMAScript calls space and line ends (ECMA-262, sections 12.2 and 12.3).
fn is_space(character: char) -> bool {
    (character.is_whitespace() && character != '\u{85}') || character == '\u{feff}'
}
