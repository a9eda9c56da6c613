//! Text that somebody else wrote, on a terminal.

/// The text without what could steer a terminal. Nodes and files are not trusted to be kind.
pub(crate) fn printable(text: &str) -> String {
    let steers = |c: char| c.is_control() || UNSEEN.iter().any(|range| range.contains(&c));
    text.chars().map(|c| if steers(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Directions of writing, line breaks, and what is not seen at all.
const UNSEEN: [std::ops::RangeInclusive<char>; 5] = [
    '\u{061c}'..='\u{061c}',
    '\u{200b}'..='\u{200f}',
    '\u{2028}'..='\u{202e}',
    '\u{2060}'..='\u{206f}',
    '\u{feff}'..='\u{feff}',
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_cannot_steer_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\r\nc\u{202e}d"), "a\u{fffd}[2Jb\u{fffd}\u{fffd}c\u{fffd}d");
        assert_eq!(printable("1\u{200b}.0\u{2028}x\u{feff}"), "1\u{fffd}.0\u{fffd}x\u{fffd}");
    }
}
