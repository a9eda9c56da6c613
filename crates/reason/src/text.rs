//! Text that somebody else wrote: a node, a peer, a file, another program.

use core::ops::RangeInclusive;

/// The text as people are shown it, on a terminal, in a log or on a page, in one line: what [`misleads`] becomes U+FFFD, and a break
/// between lines a space. Cut it with `take`.
pub fn printable(text: &str) -> impl Iterator<Item = char> + Clone {
    text.chars().map(|c| match c {
        '\n' | '\r' | '\t' => ' ',
        c if misleads(c) => char::REPLACEMENT_CHARACTER,
        c => c,
    })
}

/// Whether a character could steer a terminal, turn what follows around, or hide.
pub fn misleads(c: char) -> bool {
    c.is_control() || UNSEEN.iter().any(|range| range.contains(&c))
}

/// Unicode 16: `Default_Ignorable_Code_Point` and `Bidi_Control`, the separators of lines and paragraphs, interlinear annotations.
const UNSEEN: [RangeInclusive<char>; 17] = [
    '\u{ad}'..='\u{ad}',
    '\u{34f}'..='\u{34f}',
    '\u{61c}'..='\u{61c}',
    '\u{115f}'..='\u{1160}',
    '\u{17b4}'..='\u{17b5}',
    '\u{180b}'..='\u{180f}',
    '\u{200b}'..='\u{200f}',
    '\u{2028}'..='\u{202e}',
    '\u{2060}'..='\u{206f}',
    '\u{3164}'..='\u{3164}',
    '\u{fe00}'..='\u{fe0f}',
    '\u{feff}'..='\u{feff}',
    '\u{ffa0}'..='\u{ffa0}',
    '\u{fff0}'..='\u{fffb}',
    '\u{1bca0}'..='\u{1bca3}',
    '\u{1d173}'..='\u{1d17a}',
    '\u{e0000}'..='\u{e0fff}',
];

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::string::String;

    #[test]
    fn nobody_steers_a_terminal_turns_text_around_or_hides_in_it() {
        let shown = |text: &str| printable(text).collect::<String>();
        assert_eq!(shown("a\x1b[2Jb\r\n\tc\u{9b}0m\u{7f}"), "a\u{fffd}[2Jb   c\u{fffd}0m\u{fffd}");
        let misleading = "\u{ad}\u{61c}\u{200b}\u{200d}\u{200e}\u{2028}\u{202e}\u{2060}\u{2066}\u{2069}\u{3164}\u{fe0f}\u{feff}\u{fff9}\u{e0041}";
        for c in misleading.chars() {
            assert!(misleads(c) && shown(c.encode_utf8(&mut [0; 4])) == "\u{fffd}", "{c:?}");
        }
        let plain = "Grüße, 世界 – κόσμε: \"edge\\1\" ✓ 🚀";
        assert_eq!(shown(plain), plain);
        assert_eq!(printable("abc").take(2).collect::<String>(), "ab");
    }
}
