//! Colours.

/// What a text is, which decides its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Strong,
    Good,
    Warning,
    Bad,
    Faint,
}

/// Whether a text is coloured.
#[derive(Clone, Copy)]
pub(crate) struct Style {
    pub(super) coloured: bool,
}

impl Style {
    /// Without colours.
    #[cfg(test)]
    pub(crate) const PLAIN: Self = Self { coloured: false };

    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        // ECMA-48, section 8.3.117 (SGR).
        let code = match tone {
            _ if !self.coloured => return text.to_owned(),
            Tone::Plain => return text.to_owned(),
            Tone::Strong => "1",
            Tone::Good => "1;32",
            Tone::Warning => "1;33",
            Tone::Bad => "1;31",
            Tone::Faint => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}
