//! What is inside and outside of strings in a JSON text.

/// The bytes that are in no string, with their places.
pub(crate) fn outside_strings(text: &str) -> impl Iterator<Item = (usize, u8)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let place = at;
        let byte = *text.as_bytes().get(place)?;
        at += if byte == b'"' { "\"".len() + string_end(&text[place + 1..]) + "\"".len() } else { 1 };
        Some((place, byte))
    })
}

/// Where the closing quote is of a string whose opening quote is before the text; a backslash takes the next byte with it.
pub(crate) fn string_end(text: &str) -> usize {
    let (bytes, mut at) = (text.as_bytes(), 0);
    loop {
        match bytes.get(at) {
            None => return bytes.len(),
            Some(b'"') => return at,
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
        }
    }
}
