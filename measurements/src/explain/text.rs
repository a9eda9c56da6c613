//! Text in events: UTF-8 or UTF-16, with or without its NULs, and safe to print.

use std::fmt;

/// Text as the log has it; printing it escapes and shortens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text(String);

impl Text {
    /// The text that `data` is where the kind of event leaves open how it is encoded; `None` when it is none. Zero bytes after
    /// it are not part of it.
    ///
    /// Any bytes of an even number are nearly always UTF-16: as such they are taken only when they are mostly Latin.
    pub fn parse(data: &[u8]) -> Option<Self> {
        Self::utf8(data).or_else(|| {
            let (units, _) = data.as_chunks::<2>();
            let latin = units.iter().filter(|[_, high]| *high == 0).count();
            if 2 * latin > units.len() { Self::utf16(data) } else { None }
        })
    }

    /// UTF-16LE.
    pub fn utf16(data: &[u8]) -> Option<Self> {
        let (units, odd) = data.as_chunks::<2>();
        let units: Vec<u16> = units.iter().map(|unit| u16::from_le_bytes(*unit)).collect();
        let text = String::from_utf16(&units).ok().filter(|_| odd.is_empty())?;
        let text = text.trim_end_matches('\0');
        let printable = !text.is_empty() && !text.contains('\0');
        printable.then(|| Self(text.to_owned()))
    }

    /// The text, unescaped.
    pub fn raw(&self) -> &str {
        &self.0
    }

    /// UTF-8 without control characters.
    pub fn utf8(data: &[u8]) -> Option<Self> {
        let end = data.iter().rposition(|&byte| byte != 0)?;
        let text = std::str::from_utf8(data.get(..=end)?).ok()?;
        let printable = |c: char| !c.is_control() || matches!(c, '\t' | '\n' | '\r');
        text.chars().all(printable).then(|| Self(text.to_owned()))
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_safe(f, &self.0)
    }
}

/// Writes `text` so that it cannot command a terminal, hide or turn around.
pub(crate) fn write_safe(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    for c in text.chars().take(MAX_PRINTED) {
        match c {
            '"' | '\'' | '\\' => write!(f, "{c}")?,
            // Escapes what is not printable in Unicode's sense.
            _ => write!(f, "{}", c.escape_debug())?,
        }
    }
    match text.chars().count().checked_sub(MAX_PRINTED) {
        None | Some(0) => Ok(()),
        Some(more) => write!(f, "… ({more} more characters)"),
    }
}

/// Kernel command lines have at most 2048 bytes (x86 `COMMAND_LINE_SIZE`).
const MAX_PRINTED: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_command_a_terminal_or_turn_around() {
        let text =
            Text::parse("\u{1b}[2J\u{202e}ok".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>().as_slice());
        assert_eq!(text.unwrap().to_string(), r"\u{1b}[2J\u{202e}ok");
    }

    #[test]
    fn utf8_is_no_utf16_and_bytes_are_neither() {
        let text = |data: &[u8]| Text::parse(data).map(|text| text.to_string());
        assert_eq!(text("Gerät läuft…".as_bytes()).as_deref(), Some("Gerät läuft…"));
        let utf16: Vec<u8> = "Gerät".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(text(&utf16).as_deref(), Some("Gerät"));
        // A GUID, all of whose units are characters: "呫ᴌ…".
        assert_eq!(text(b"\x6b\x54\x0c\x1d\x93\x96\xd2\x51\x0a\x4d\xe0\x50\x98\x03\x2b\x8c"), None);
    }

    #[test]
    fn endless_text_is_cut() {
        let text = Text::parse(&[b'a'; 5000]).unwrap().to_string();
        assert!(text.ends_with("… (2952 more characters)"), "{text}");
    }

    #[test]
    fn bytes_that_are_no_text_are_none() {
        for data in [&b""[..], b"\0\0\0\0", b"a\0b\0\0\xd8", b"\x01\x02\x03", b"a\0\0\0b\0"] {
            assert_eq!(Text::parse(data), None, "{data:?}");
        }
    }
}
